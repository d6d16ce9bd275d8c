//! The requests, answers and pushes of a hand-off record.

use core::time::Duration;

use super::OFFER;
use crate::{AttemptId, Token, TokenBlock};

/// A request to acquire the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AcquireRequest<T = ()> {
    /// The attempt. A repeated request with the same id returns the same lease.
    pub attempt: AttemptId,
    /// How long the lease lasts unless it is renewed.
    pub ttl: Duration,
    /// Join the queue if another attempt holds the lock.
    pub wait: bool,
    /// Do not overtake attempts that wait already.
    pub fair: bool,
    /// How many tokens to reserve; 0 counts as 1.
    pub tokens: u32,
    /// Data that stays with the attempt while it waits and holds. The record does not read it.
    pub tag: T,
}

/// The answer to an [`AcquireRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// The attempt holds the lease. Its ttl counts from the time when the request was sent.
    Granted {
        /// The reserved tokens.
        tokens: TokenBlock,
        /// How many attempts wait for the end of the lease.
        waiters: usize,
    },
    /// The attempt is in the queue.
    Queued {
        /// How many attempts precede it.
        place: usize,
        /// The first token of the lease whose end it waits for.
        base: Option<Token>,
        /// How long that lease lasts without renewal. Zero: the lock is free, and more dead waiters
        /// precede the attempt than one step removes.
        remaining: Duration,
    },
    /// Another attempt holds the lock for this long unless it renews; the record does not remember
    /// the request. Zero: the lock is free, and the queue has more dead waiters than one step
    /// removes.
    Busy(Duration),
    /// The attempt has ended before: use a new attempt.
    Ended,
    /// No token is left (2^53-1 was reached).
    UsedUp,
}

/// The result of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Renewed {
    /// The lease was extended.
    Renewed {
        /// How long it lasts without a further renewal.
        remaining: Duration,
        /// How many attempts wait for its end.
        waiters: usize,
    },
    /// This attempt does not hold the lease any more.
    Lost,
}

/// A request to end an attempt that holds, waits, or is unknown to the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReleaseRequest {
    /// The attempt to end.
    pub attempt: AttemptId,
    /// The first token of its lease; `None` if the client never received a grant.
    pub base: Option<Token>,
    /// The last token of the block that was used. The record takes back the tokens after it.
    pub last: Option<Token>,
    /// True if a request of this attempt was never answered. The record refuses such a request if
    /// it arrives later.
    pub suspect: bool,
    /// Keep the lock taken for this long, without a holder.
    pub keep: Option<Duration>,
}

/// How the lease of an ended attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The attempt held it until now, or until its own earlier release.
    Released,
    /// It had ended before without a release.
    Lost,
    /// There was no lease: the attempt was waiting or unknown.
    Gone,
    /// It has ended, but the record no longer knows whether by a release or by a loss.
    Unknown,
}

/// The result of a forced release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Forced {
    /// The lease has ended.
    Ended,
    /// No attempt holds the lock.
    NotHeld,
    /// Another lease holds the lock, with this first token. The record changed nothing.
    Other(Token),
}

/// A message that a record sends to a client without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Push {
    /// To a waiter: it holds the lease now.
    Granted {
        /// The reserved tokens.
        tokens: TokenBlock,
        /// How long the lease lasts from this step on, unless a renewal confirms it.
        offer: Duration,
        /// How many attempts still wait.
        waiters: usize,
    },
    /// To the first waiter: its turn comes when this lease ends.
    Next {
        /// The first token of that lease.
        base: Option<Token>,
        /// How long that lease lasts without renewal.
        remaining: Duration,
    },
    /// To the holder: another client waits. Sent when it begins, and each time the first waiter asks
    /// again.
    Wanted {
        /// The first token of the holder's lease.
        base: Option<Token>,
    },
    /// To the holder: an operator has ended the lease.
    Lost {
        /// The first token of the lease that has ended.
        base: Option<Token>,
    },
}

/// Whether a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// No attempt holds the lock.
    Free,
    /// An attempt holds the lock.
    Held,
    /// Its holder has released it, but the lock stays taken for a while.
    Kept,
}

/// A part of a record that a server can lose by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The lease and the tokens: the current and the last holder.
    Lease,
    /// The queue of waiters.
    Queue,
    /// The attempts that are refused.
    Tombstones,
}

/// An attempt in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waiter<T = ()> {
    /// The attempt that waits.
    pub attempt: AttemptId,
    /// The ttl of the requested lease.
    pub ttl: Duration,
    /// How many tokens it requests.
    pub tokens: u32,
    /// The tag of its request.
    pub tag: T,
}

impl Answer {
    /// Returns when to send the request again if no push arrives. Each attempt ahead in the queue
    /// may let an offer expire. Returns zero if dead waiters must still be removed: each request
    /// continues that removal.
    pub fn ask_again(&self) -> Option<Duration> {
        match *self {
            Self::Queued { remaining: Duration::ZERO, .. } => Some(Duration::ZERO),
            Self::Queued { place, remaining, .. } => {
                let offers = u32::try_from(place).unwrap_or(u32::MAX);
                Some(remaining.saturating_add(OFFER.saturating_mul(offers)))
            }
            Self::Busy(remaining) => Some(remaining),
            Self::Granted { .. } | Self::Ended | Self::UsedUp => None,
        }
    }
}
