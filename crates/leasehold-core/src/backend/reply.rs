//! The replies of an engine.

use std::time::Duration;

use leasehold_proto::{Deadline, TokenBlock, handoff};

/// The answer to an [`AcquireRequest`](super::AcquireRequest).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// The attempt holds the lease.
    Granted(Grant),
    /// The attempt holds a permit of a semaphore.
    Permit {
        /// Its lease and token.
        grant: Grant,
        /// The numbers of its slots, ascending from 0.
        slots: Vec<u32>,
    },
    /// The engine has queued the attempt, and pushes a message when its turn comes.
    Queued {
        /// How many attempts precede it, if the engine knows.
        place: Option<u64>,
        /// Send the request again after this long if no push arrives.
        ask_again: Duration,
    },
    /// Another attempt holds the lock, and the engine keeps no queue (or was not asked to wait).
    Busy {
        /// Send the request again after this long at the latest; `None` leaves it to the schedule
        /// of the client. Zero: the lock is free, but its queue has more dead waiters than one call
        /// removes, and each further request removes some. The client then sends its request again
        /// immediately, even if it does not wait.
        ask_again: Option<Duration>,
    },
    /// No client may hold the lock now, and the engine knows when that ends without action by an
    /// operator.
    Later {
        /// Send the request again after this long.
        ask_again: Duration,
        /// The reason, for callers whose timeout ends earlier.
        why: String,
    },
    /// The attempt was ended before the request arrived: use a new attempt.
    Ended,
}

/// A granted lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The reserved tokens; the first token names the lease in later calls.
    pub tokens: TokenBlock,
    /// How long the lease is valid without renewal.
    pub term: Term,
    /// Another client already waits for the lock, as far as the engine knows.
    /// [`Event::Wanted`](super::Event::Wanted) reports clients that begin to wait later.
    pub wanted: bool,
}

impl Grant {
    /// Creates a grant; `wanted` tells whether another client already waits.
    pub fn new(tokens: TokenBlock, term: Term, wanted: bool) -> Self {
        Self { tokens, term, wanted }
    }
}

/// How long a grant is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Term {
    /// For the ttl, counted from the time when the answered request was sent.
    Ttl,
    /// Until this deadline, which the backend computed including drift (a push has no request).
    Until(Deadline),
    /// Like `Until`, but the client must renew it immediately, or the engine grants the lock to the
    /// next waiter.
    Offer(Deadline),
    /// As long as the session lives.
    Session,
}

/// The result of one renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Renewed {
    /// The lease lasts a full ttl from when this renewal was sent.
    Renewed,
    /// The same, and another client waits for its end.
    Wanted,
    /// The attempt does not hold the lease any more.
    Lost,
}

/// The answer to a [`ConvertRequest`](super::ConvertRequest).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Converted {
    /// The new attempt holds the lock, and the previous attempt has ended.
    Granted(Grant),
    /// Only for an upgrade: another attempt reads or waits. The previous attempt still reads.
    Refused {
        /// A writer waits.
        wanted: bool,
    },
    /// The previous attempt does not hold the lock any more. Nothing is queued.
    Lost,
}

/// The answer to a [`ReleaseRequest`](super::ReleaseRequest).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ended {
    /// What happened to the lease.
    pub verdict: Verdict,
    /// The answer to `then`.
    pub then: Option<Answer>,
}

impl Ended {
    /// Creates the answer to a release, and to its further request if it has one.
    pub fn new(verdict: Verdict, then: Option<Answer>) -> Self {
        Self { verdict, then }
    }
}

/// How the lease of an ended attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The attempt held it until now, or until an earlier release that is repeated.
    Released,
    /// It had ended before without a release.
    Lost,
    /// There was no lease: the attempt was waiting or unknown.
    Gone,
    /// It has ended, but the record no longer knows whether by a release or by a loss.
    Unknown,
}

impl From<handoff::Verdict> for Verdict {
    fn from(verdict: handoff::Verdict) -> Self {
        match verdict {
            handoff::Verdict::Released => Self::Released,
            handoff::Verdict::Lost => Self::Lost,
            handoff::Verdict::Gone => Self::Gone,
            handoff::Verdict::Unknown => Self::Unknown,
        }
    }
}

impl From<handoff::Renewed> for Renewed {
    fn from(renewed: handoff::Renewed) -> Self {
        match renewed {
            handoff::Renewed::Renewed { waiters: 0, .. } => Self::Renewed,
            handoff::Renewed::Renewed { .. } => Self::Wanted,
            handoff::Renewed::Lost => Self::Lost,
        }
    }
}
