//! What an attempt knows of one node.

use core::time::Duration;

use crate::quorum::{Refusal, Reply};
use crate::{Deadline, Token};

/// One node's place in an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Seat {
    /// The request whose reply is waited for.
    pub(super) waits: Option<Wait>,
    /// The reply in the current acquire or renewal.
    pub(super) vote: Vote,
    /// The lease is there, known from this round on without a gap.
    owned_since: Option<u32>,
    /// A lease of this attempt may be there.
    pub(super) suspect: bool,
    /// How often a release was sent.
    pub(super) releases: u32,
    /// What the node said to a release: whether the lease was there until then.
    pub(super) ended: Option<bool>,
}

/// A request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wait {
    pub(super) round: u32,
    pub(super) due: Deadline,
}

/// What a node has said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Vote {
    /// Nothing yet, or nothing in time.
    #[default]
    Silent,
    /// The lease, with this value.
    Granted(Token),
    /// The lease, and the counter is the token.
    Committed,
    /// The lease, but the counter could not be brought to the token.
    Moved,
    /// The lease was extended.
    Renewed,
    /// Another attempt has it, for so long.
    Busy(Duration),
    /// It does nothing.
    Refused(Refusal),
    /// The attempt has nothing there, for another reason.
    Gone,
}

impl Seat {
    /// Takes a reply to `Acquire`, `Commit` or `Renew` for what it says about the lease.
    pub(super) fn settle(&mut self, reply: Reply) {
        self.waits = None;
        self.vote = match reply {
            Reply::Granted(value) => Vote::Granted(value),
            Reply::Committed => Vote::Committed,
            Reply::Moved => Vote::Moved,
            Reply::Renewed => Vote::Renewed,
            Reply::Busy { remaining, .. } => Vote::Busy(remaining),
            Reply::Refused(refusal) => Vote::Refused(refusal),
            Reply::Ended | Reply::Missing | Reply::Released | Reply::NotHeld => Vote::Gone,
            Reply::Healed | Reply::Unknown => Vote::Silent,
        };
        match reply {
            Reply::Granted(_) | Reply::Healed => self.suspect = true,
            Reply::Busy { .. } | Reply::Ended | Reply::Missing => self.suspect = false,
            _ => {}
        }
        // The node remembers nothing that counts, or somebody else has the lock there.
        if let Reply::Busy { .. }
        | Reply::Ended
        | Reply::Missing
        | Reply::Moved
        | Reply::Refused(Refusal::Stranger | Refusal::NotAdmitted) = reply
        {
            self.owned_since = None;
        }
    }

    /// The lease is there from this round on.
    pub(super) fn owns_from(&mut self, round: u32) {
        self.owned_since.get_or_insert(round);
    }

    /// The lease has been there since before this round.
    pub(super) fn owns_before(&self, round: u32) -> bool {
        self.owned_since.is_some_and(|since| since < round)
    }

    /// The lease is known to be there.
    pub(super) fn owns(&self) -> bool {
        self.owned_since.is_some()
    }
}
