//! What an attempt says to a node, what a node answers, and what an attempt tells its driver.

use core::fmt;
use core::time::Duration;

use crate::{AttemptId, Deadline, Token};

/// One step on one lock at one node. A node carries it out as a whole or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Take the lock if it is free there.
    Acquire {
        /// For whom.
        attempt: AttemptId,
        /// For how long.
        ttl: Duration,
        /// The least value that the grant shall have.
        proposal: Token,
    },
    /// Raise the counter to the token that the attempt has settled on.
    Commit {
        /// Who holds the lease there.
        attempt: AttemptId,
        /// The value that was granted there.
        from: Token,
        /// What the counter shall be.
        token: Token,
    },
    /// Extend the lease.
    Renew {
        /// Whose lease.
        attempt: AttemptId,
        /// For how long from now.
        ttl: Duration,
        /// Its token; the counter is raised to it.
        token: Token,
        /// Grant it anew where nobody has it.
        heal: bool,
    },
    /// End the attempt there.
    Release {
        /// Which.
        attempt: AttemptId,
    },
}

/// A node's answer, or its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reply {
    /// To `Acquire`: the lease is the attempt's, and the counter stands at this value.
    Granted(Token),
    /// To `Acquire` or `Renew`: another attempt has it.
    Busy {
        /// The lock's counter.
        counter: Token,
        /// How long that lease lasts unless renewed.
        remaining: Duration,
    },
    /// To `Acquire` or `Renew`: this attempt was ended there.
    Ended,
    /// To `Commit`: the counter is the token.
    Committed,
    /// To `Commit`: the lease is not the attempt's, or the counter is not what was granted.
    Moved,
    /// To `Renew`: it was the attempt's, and lasts a ttl from now.
    Renewed,
    /// To `Renew` with `heal`: nobody had it; it is the attempt's from now on.
    Healed,
    /// To `Renew` without `heal`: nobody has it.
    Missing,
    /// To `Release`: it was the attempt's, and is free.
    Released,
    /// To `Release`: it was not the attempt's.
    NotHeld,
    /// The node did nothing.
    Refused(Refusal),
    /// No answer, or none that can be understood: whether it was done is not known.
    Unknown,
}

/// Why a node did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The request was meant for another process: this one may have forgotten what that one knew.
    Stranger,
    /// The node has no vote: it may have forgotten leases, and has not been admitted since.
    NotAdmitted,
    /// The ttl is above what all nodes agreed on.
    TtlTooLong {
        /// The longest.
        max_ttl: Duration,
    },
    /// The proposed token is more than an hour ahead of the node's clock.
    ClockAhead,
    /// There is no token left (2^53-1 was reached).
    UsedUp,
    /// The node can do nothing now: it loads, is full, is a replica.
    Unfit,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stranger => f.write_str("another process answers there than before"),
            Self::NotAdmitted => f.write_str("it may have forgotten leases and has no vote yet"),
            Self::TtlTooLong { max_ttl } => write!(f, "it grants at most {max_ttl:?}"),
            Self::ClockAhead => {
                f.write_str("the proposed token is more than an hour ahead of its clock")
            }
            Self::UsedUp => f.write_str("its tokens are used up"),
            Self::Unfit => f.write_str("it can change nothing now"),
        }
    }
}

/// What an attempt is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The attempt.
    pub attempt: AttemptId,
    /// How many nodes are configured, connected or not.
    pub nodes: usize,
    /// The lease's length.
    pub ttl: Duration,
    /// How long each node is waited for; [`node_limit`](super::node_limit) gives the default.
    pub limit: Duration,
    /// The largest value that the client has seen for this lock; 0 for none.
    pub seen: u64,
}

/// Something to be sent to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// Which node, counted from 0.
    pub node: usize,
    /// To be given back with the reply.
    pub round: u32,
    /// What it shall do.
    pub op: Op,
}

/// What an attempt tells its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The lock is held.
    Held {
        /// Its token.
        token: Token,
        /// Until when it is valid unless renewed.
        until: Deadline,
        /// Whether one round trip was enough.
        at_once: bool,
    },
    /// The lock is not to be had now. What was granted is being given back.
    Denied(Denied),
    /// A renewal came through.
    Renewed {
        /// Until when the lease is valid now.
        until: Deadline,
    },
    /// A renewal did not reach a majority; whether it was done is not known. Try again.
    NotRenewed,
    /// A majority of the nodes does not hold the lease any more.
    Lost,
    /// The attempt has been ended on a majority, or on all nodes that answer.
    Released {
        /// Whether the lease was held until then; `None` when too few nodes could tell.
        held: Option<bool>,
    },
}

/// Why an attempt was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Denied {
    /// In a word.
    pub why: Why,
    /// The votes.
    pub tally: Tally,
    /// The largest value seen for the lock: the next attempt's [`Terms::seen`].
    pub seen: u64,
    /// When so many nodes are free again that another attempt can succeed, if leases are the
    /// reason and none is renewed or given back.
    pub free_in: Option<Duration>,
}

/// Why an attempt was denied, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// Others have it on some nodes; without their leases a majority could have granted it.
    Busy,
    /// Too few nodes have answered or may vote.
    Unavailable,
    /// The counters of too few nodes could be brought to one token: others were at it.
    Contended,
    /// A majority granted it, but when that was known its lease had ended already.
    TooLate,
}

/// How the nodes voted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tally {
    /// Gave the lease.
    pub granted: usize,
    /// Have given it to another attempt.
    pub busy: usize,
    /// Have said that they do nothing.
    pub refused: usize,
    /// Have not answered in time.
    pub unknown: usize,
}
