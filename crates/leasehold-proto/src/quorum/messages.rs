//! The requests of an attempt to a node, the replies, and the events of an attempt for its driver.

use core::fmt;
use core::time::Duration;

use crate::{AttemptId, Deadline, Token};

/// One step on one lock at one node. A node carries out the whole step or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Take the lock if it is free on the node.
    Acquire {
        /// The attempt that acquires.
        attempt: AttemptId,
        /// The ttl of the lease.
        ttl: Duration,
        /// The least value that the grant may have.
        proposal: Token,
    },
    /// Raise the counter to the token that the attempt has chosen.
    Commit {
        /// The attempt that holds the lease on the node.
        attempt: AttemptId,
        /// The value that the node granted.
        from: Token,
        /// The value that the counter is raised to.
        token: Token,
    },
    /// Extend the lease.
    Renew {
        /// The attempt that holds the lease.
        attempt: AttemptId,
        /// The ttl of the lease, from now.
        ttl: Duration,
        /// The token of the lease; the node raises the counter to it.
        token: Token,
        /// Grant the lease again if no attempt holds the lock there.
        heal: bool,
    },
    /// End the attempt on the node.
    Release {
        /// The attempt to end.
        attempt: AttemptId,
    },
}

/// The reply of a node, or its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeReply {
    /// To `Acquire`: the attempt holds the lease, and the counter has this value.
    Granted(Token),
    /// To `Acquire` or `Renew`: another attempt holds the lock.
    Busy {
        /// The counter of the lock.
        counter: Token,
        /// How long that lease lasts unless it is renewed.
        remaining: Duration,
    },
    /// To `Acquire` or `Renew`: this attempt was ended on the node.
    Ended,
    /// To `Commit`: the counter is the token.
    Committed,
    /// To `Commit`: the attempt does not hold the lease, or the counter is not the granted value.
    Moved,
    /// To `Renew`: the attempt held the lease, which lasts a ttl from now.
    Renewed,
    /// To `Renew` with `heal`: no attempt held the lock; the attempt holds it from now on.
    Healed,
    /// To `Renew` without `heal`: no attempt holds the lock.
    Missing,
    /// To `Release`: the attempt held the lock, which is free now.
    Released,
    /// To `Release`: as `Released`, and the node has notified waiters of other clients alone.
    Notified,
    /// To `Release`: the attempt did not hold the lock.
    NotHeld,
    /// The node did nothing.
    Refused(Refusal),
    /// No answer, or an answer that the client cannot read. The step may or may not have been
    /// executed.
    Unknown,
}

/// Why a node did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The request was meant for another process; this process may have lost data that the other
    /// one had.
    Stranger,
    /// The node may not vote: it may have lost leases, and has not been admitted since.
    NotAdmitted,
    /// The ttl exceeds the limit that all nodes agreed on.
    TtlTooLong {
        /// The longest ttl that the node grants.
        max_ttl: Duration,
    },
    /// The proposed token is more than an hour ahead of the clock of the node.
    ClockAhead,
    /// No token is left (2^53-1 was reached).
    UsedUp,
    /// The node cannot serve the request now: it loads data, is full, or is a replica.
    Unfit,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stranger => f.write_str("another server process answers at this address now"),
            Self::NotAdmitted => f.write_str("it may have lost leases and may not vote yet"),
            Self::TtlTooLong { max_ttl } => write!(f, "it grants at most {max_ttl:?}"),
            Self::ClockAhead => {
                f.write_str("the proposed token is more than an hour ahead of its clock")
            }
            Self::UsedUp => f.write_str("it has no token left"),
            Self::Unfit => f.write_str("it cannot write now"),
        }
    }
}

/// The parameters of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttemptTerms {
    /// The id of the attempt.
    pub attempt: AttemptId,
    /// How many nodes are configured, connected or not.
    pub nodes: usize,
    /// The ttl of the lease.
    pub ttl: Duration,
    /// How long to wait for each node; [`node_limit`](super::node_limit) returns the default.
    pub limit: Duration,
    /// The largest value that the client has seen for this lock; 0 for none.
    pub seen: u64,
}

/// A request to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// The node, counted from 0.
    pub node: usize,
    /// The round, which the driver returns with the reply.
    pub round: u32,
    /// The step to carry out.
    pub op: Op,
}

/// What an attempt reports to its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The lock is held.
    Held {
        /// The token of the lease.
        token: Token,
        /// The end of validity unless the lease is renewed.
        until: Deadline,
        /// Whether one round trip was enough.
        at_once: bool,
    },
    /// The lock is not available now. The attempt releases the leases that it was granted.
    Denied(Denied),
    /// A renewal succeeded.
    Renewed {
        /// The new end of validity.
        until: Deadline,
    },
    /// A renewal did not reach a majority; it may or may not have been done. Try again.
    NotRenewed,
    /// A majority of the nodes does not have the lease any more.
    Lost,
    /// The attempt has ended on a majority, or on all nodes that answer.
    Released {
        /// Whether the lease was held until then; `None` if too few nodes could answer that.
        held: Option<bool>,
    },
}

/// Why an attempt was denied, with the votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Denied {
    /// The reason.
    pub why: Why,
    /// The votes.
    pub tally: Tally,
    /// The largest value seen for the lock: the [`AttemptTerms::seen`] of the next attempt.
    pub seen: u64,
    /// When enough nodes are free for another attempt to succeed, if leases are the reason and no
    /// holder renews or releases one.
    pub free_in: Option<Duration>,
}

/// The reason why an attempt was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// Other attempts hold leases on some nodes; without them a majority could have granted the
    /// lock.
    Busy,
    /// Too few nodes answered or may vote.
    Unavailable,
    /// Too few counters could be raised to one token, because other attempts ran at the same time.
    Contended,
    /// A majority granted the lock, but its lease had ended before the client received that.
    TooLate,
}

/// How the nodes voted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tally {
    /// Nodes that granted the lease.
    pub granted: usize,
    /// Nodes that granted it to another attempt.
    pub busy: usize,
    /// Nodes that refused.
    pub refused: usize,
    /// Nodes that did not answer in time.
    pub unknown: usize,
}
