//! The requests, answers and pushes of a semaphore record.

use core::fmt;
use core::time::Duration;

use super::{Demand, Limit, WAIT_LEASE};
use crate::client::SLOW_POLL;
use crate::handoff::{self, OFFER};
use crate::{AttemptId, Now, Token, TokenBlock};

/// A request to acquire a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AcquireRequest<T = ()> {
    /// The attempt. A repeated request with the same id returns the same permit.
    pub attempt: AttemptId,
    /// How many slots it needs, and the limit that the client expects.
    pub demand: Demand,
    /// How long the permit lasts unless it is renewed.
    pub ttl: Duration,
    /// Join the queue if the permit does not fit now.
    pub wait: bool,
    /// How many tokens to reserve; 0 counts as 1.
    pub tokens: u32,
    /// Data that stays with the attempt while it waits and holds. The record does not read it.
    pub tag: T,
}

/// The slots and the tokens of a permit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permit {
    /// The reserved tokens, which are above every earlier token of each of its slots. Permits in other
    /// slots may have the same tokens: a resource keeps the highest token for each slot.
    pub tokens: TokenBlock,
    /// The numbers of its slots, ascending from 0.
    pub slots: Vec<u32>,
}

/// The answer to an [`AcquireRequest`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// The attempt holds the permit. Its ttl counts from the time when the request was sent.
    Granted(Permit),
    /// The attempt is in the queue.
    Queued {
        /// How many attempts precede it.
        place: usize,
        /// How long the permit that expires first lasts without renewal; [`SLOW_POLL`] if there is
        /// none. Zero: another step may serve waiters immediately.
        remaining: Duration,
    },
    /// The permit does not fit, and the record does not remember the request. The permit that
    /// expires first lasts for this long unless its holder renews it. Zero: another step may serve
    /// waiters immediately.
    Busy(Duration),
    /// The stored limit differs from the expected one, or is now below the number of slots that the
    /// attempt waited for. The attempt has left the queue.
    Invalid(Limit),
    /// The attempt has ended before: use a new attempt.
    Ended,
    /// No token is left (2^53-1 was reached).
    UsedUp,
}

/// A request to end an attempt that holds, waits, or is unknown to the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReleaseRequest {
    /// The attempt to end.
    pub attempt: AttemptId,
    /// The first token of its permit; `None` if the client never received a grant.
    pub base: Option<Token>,
    /// The last token of the block that was used. The record takes back the tokens after it.
    pub last: Option<Token>,
    /// The first slot of its permit. It tells how a permit ended that is no longer in the record.
    /// Without it, the verdict on such a permit is [`Unknown`](handoff::Verdict::Unknown).
    pub slot: Option<u32>,
    /// True if a request of this attempt was never answered. The record refuses such a request if it
    /// arrives later.
    pub suspect: bool,
}

/// The error for a change of the limit with an outdated version. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conflict {
    /// The stored limit; `None` if there is none.
    pub limit: Option<Limit>,
    /// Its version; 0 if there is none.
    pub version: u64,
}

/// The result of a forced release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Forced {
    /// The permit has ended.
    Ended,
    /// No permit has this token.
    NotHeld,
    /// Permits in several slots have this token. Nothing has changed: name the slot.
    Several,
}

/// A message that a record sends to a client without a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Push {
    /// To a waiter: it holds a permit now.
    Granted {
        /// The slots and tokens.
        permit: Permit,
        /// How long the permit lasts from this step on, unless a renewal confirms it.
        offer: Duration,
        /// How many attempts still wait.
        waiters: usize,
    },
    /// To the first waiter, which does not fit: a permit may expire after this time.
    Next {
        /// How long the permit that expires first lasts without renewal.
        remaining: Duration,
    },
    /// To a waiter: it needs more slots than the new limit allows, and has left the queue.
    Refused {
        /// The new limit.
        limit: Limit,
    },
    /// To a holder: an operator has ended the permit.
    Lost {
        /// The first token of the permit that has ended.
        base: Token,
    },
}

/// An attempt in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waiter<T = ()> {
    /// The attempt that waits.
    pub attempt: AttemptId,
    /// How many slots it needs.
    pub slots: u32,
    /// The ttl of the requested permit.
    pub ttl: Duration,
    /// How many tokens it requests.
    pub tokens: u32,
    /// The time of its last request, on the steady clock of the steps.
    pub seen_ns: u64,
    /// The tag of its request.
    pub tag: T,
}

/// A permit that has not expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder<'a, T = ()> {
    /// The attempt that holds it.
    pub attempt: AttemptId,
    /// Its slots and tokens.
    pub permit: &'a Permit,
    /// How long it lasts without renewal.
    pub remaining: Duration,
    /// False while it is an offer that its holder has not confirmed.
    pub confirmed: bool,
    /// The tag of its request.
    pub tag: &'a T,
}

impl Answer {
    /// Returns when to send the request again if no push arrives: after at most [`SLOW_POLL`], so
    /// that the attempt stays in the queue. Each attempt ahead may let an offer expire. Returns
    /// zero if another step may serve waiters immediately.
    pub fn ask_again(&self) -> Option<Duration> {
        match *self {
            Self::Queued { remaining: Duration::ZERO, .. } => Some(Duration::ZERO),
            Self::Queued { place, remaining } => {
                let offers = OFFER.saturating_mul(u32::try_from(place).unwrap_or(u32::MAX));
                Some(remaining.saturating_add(offers).min(SLOW_POLL))
            }
            Self::Busy(remaining) => Some(remaining),
            Self::Granted(_) | Self::Invalid(_) | Self::Ended | Self::UsedUp => None,
        }
    }
}

impl ReleaseRequest {
    /// Creates the request from the release that a client's machine returns. `slot` is the first
    /// slot of the permit with the token `end.base`. A permit has no minimum hold: `end.keep` has
    /// no effect.
    pub fn new(end: handoff::ReleaseRequest, slot: Option<u32>) -> Self {
        let handoff::ReleaseRequest { attempt, base, last, suspect, keep: _ } = end;
        Self { attempt, base, last, slot, suspect }
    }
}

impl<T> Waiter<T> {
    /// Returns true if it has not asked for longer than [`WAIT_LEASE`].
    pub(super) fn has_lapsed(&self, now: Now) -> bool {
        handoff::after(Now { steady_ns: self.seen_ns, ..now }, WAIT_LEASE) < now.steady_ns
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Some(limit) => write!(
                f,
                "the limit is {limit} with version {}: use this version to change it",
                self.version
            ),
            None => f.write_str("no limit is stored: use version 0 to set one"),
        }
    }
}

impl core::error::Error for Conflict {}
