//! What an attempt knows of one node.

use core::time::Duration;

use crate::quorum::{NodeReply, Refusal};
use crate::{Deadline, Token};

/// The state of one node in an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct NodeState {
    /// The request whose reply is outstanding.
    pub(super) waits: Option<Wait>,
    /// The reply in the current acquire or renewal.
    pub(super) vote: Vote,
    /// The node has the lease, without a gap since this round.
    owned_since: Option<u32>,
    /// The node may have a lease of this attempt.
    pub(super) suspect: bool,
    /// How often a release was sent.
    pub(super) releases: u32,
    /// The answer of the node to a release: whether it had the lease until then.
    pub(super) ended: Option<bool>,
}

/// An outstanding request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wait {
    pub(super) round: u32,
    pub(super) due: Deadline,
}

/// The answer of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Vote {
    /// No answer yet, or none in time.
    #[default]
    Silent,
    /// The lease, with this value.
    Granted(Token),
    /// The lease, and the counter is the token.
    Committed,
    /// The lease, but the counter could not be raised to the token.
    Moved,
    /// The lease was extended.
    Renewed,
    /// Another attempt holds the lock for this long.
    Busy(Duration),
    /// The node refused the request.
    Refused(Refusal),
    /// The attempt has no lease there, for another reason.
    Gone,
}

impl NodeState {
    /// Records what a reply to `Acquire`, `Commit` or `Renew` says about the lease.
    pub(super) fn settle(&mut self, reply: NodeReply) {
        self.waits = None;
        self.vote = match reply {
            NodeReply::Granted(value) => Vote::Granted(value),
            NodeReply::Committed => Vote::Committed,
            NodeReply::Moved => Vote::Moved,
            NodeReply::Renewed => Vote::Renewed,
            NodeReply::Busy { remaining, .. } => Vote::Busy(remaining),
            NodeReply::Refused(refusal) => Vote::Refused(refusal),
            NodeReply::Ended
            | NodeReply::Missing
            | NodeReply::Released
            | NodeReply::Notified
            | NodeReply::NotHeld => Vote::Gone,
            NodeReply::Healed | NodeReply::Unknown => Vote::Silent,
        };
        match reply {
            NodeReply::Granted(_) | NodeReply::Healed => self.suspect = true,
            NodeReply::Busy { .. } | NodeReply::Ended | NodeReply::Missing => self.suspect = false,
            _ => {}
        }
        // The node has no data that counts, or another attempt holds the lock there.
        if let NodeReply::Busy { .. }
        | NodeReply::Ended
        | NodeReply::Missing
        | NodeReply::Moved
        | NodeReply::Refused(Refusal::Stranger | Refusal::NotAdmitted) = reply
        {
            self.owned_since = None;
        }
    }

    /// Records that the node has the lease from this round on.
    pub(super) fn owns_from(&mut self, round: u32) {
        self.owned_since.get_or_insert(round);
    }

    /// Returns true if the node has had the lease since before this round.
    pub(super) fn owns_before(&self, round: u32) -> bool {
        self.owned_since.is_some_and(|since| since < round)
    }

    /// Returns true if the node is known to have the lease.
    pub(super) fn owns(&self) -> bool {
        self.owned_since.is_some()
    }
}
