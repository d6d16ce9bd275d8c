//! The answers of a read-write record, and the types of its parts.

use core::time::Duration;

use crate::handoff::OFFER;
use crate::{AttemptId, Token, TokenBlock};

/// The mode of an acquisition. An attempt has one mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// To read, together with other readers.
    Read,
    /// To write, alone.
    Write,
}

/// Whether a read-write lock is held, and in which mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// No attempt holds the lock.
    Free,
    /// One or more attempts read.
    Read,
    /// One attempt writes.
    Write,
    /// The writer has released the lock, but it stays taken for a while.
    Kept,
}

/// The answer to a request to acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// The attempt holds the lock. Its ttl counts from the time when the request was sent.
    Granted {
        /// The reserved tokens. A reader has the token of its phase.
        tokens: TokenBlock,
        /// How many attempts wait for the end of this lease: writers, and if this attempt writes,
        /// also readers.
        waiters: usize,
    },
    /// The attempt is in the queue.
    Queued {
        /// How many phases precede its own, if no other attempt leaves or arrives.
        place: usize,
        /// The first token of the phase whose end it waits for.
        base: Option<Token>,
        /// How long that phase lasts without renewals. Zero: the lock is free, and more dead
        /// waiters precede the attempt than one step removes.
        remaining: Duration,
    },
    /// Another attempt holds the lock for this long unless it renews; the record does not remember
    /// the request. Zero: the lock is free, and the queue has more dead waiters than one step
    /// removes.
    Busy(Duration),
    /// The attempt has ended before, or has acquired or waited in the other mode: use a new
    /// attempt.
    Ended,
    /// No token is left (2^53-1 was reached).
    UsedUp,
}

/// The answer to a downgrade or an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Converted {
    /// The new attempt holds the lock, and the previous attempt has ended. The ttl counts from the
    /// time when the request was sent.
    Granted {
        /// The tokens of the new phase.
        tokens: TokenBlock,
        /// How many attempts wait for the end of the new lease.
        waiters: usize,
    },
    /// The upgrade is not possible: another attempt reads or waits. The previous attempt still
    /// reads.
    Refused {
        /// How many writers wait.
        waiters: usize,
    },
    /// The previous attempt does not hold the lock any more.
    Lost,
    /// No token is left (2^53-1 was reached). Nothing has changed.
    UsedUp,
}

/// An attempt that holds the lock, or whose lease has expired during the current phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member<T = ()> {
    /// The attempt.
    pub attempt: AttemptId,
    /// The steady time at which its lease ends.
    pub until_ns: u64,
    /// False while the lease is an offer that the attempt has not confirmed.
    pub confirmed: bool,
    /// The tag of its request.
    pub tag: T,
}

/// An attempt in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waiter<T = ()> {
    /// The attempt that waits.
    pub attempt: AttemptId,
    /// The mode that it waits for.
    pub mode: Mode,
    /// The ttl of the requested lease.
    pub ttl: Duration,
    /// How many tokens it requests, if it writes.
    pub tokens: u32,
    /// The steady time of its last request; 0 if waiters do not lapse.
    pub seen_ns: u64,
    /// The tag of its request.
    pub tag: T,
}

/// Returns how many phases precede that of a waiter of this mode, if no other attempt leaves or
/// arrives. `turn` is the mode that goes first when the current phase ends, `ahead` the number of
/// waiters of the same mode before it, `others` that of the other mode, and `cap` how many readers
/// enter together.
pub fn phases_ahead(mode: Mode, turn: Mode, ahead: usize, others: usize, cap: usize) -> usize {
    let cap = cap.max(1);
    let (own, others) = match mode {
        Mode::Read => (ahead / cap, others),
        Mode::Write => (ahead, others.div_ceil(cap)),
    };
    let between = if turn == mode { own } else { own + 1 };
    own + others.min(between)
}

impl Mode {
    /// Returns the other mode.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Read => Self::Write,
            Self::Write => Self::Read,
        }
    }
}

impl From<Mode> for Phase {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Read => Self::Read,
            Mode::Write => Self::Write,
        }
    }
}

impl Answer {
    /// Returns when to send the request again if no push arrives. Each phase ahead may let an offer
    /// expire. Returns zero if dead waiters must still be removed: each request continues that
    /// removal.
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
