//! What goes into a hand-off record and what comes out of it.

use core::time::Duration;

use super::OFFER;
use crate::{AttemptId, Token, TokenBlock};

/// A request for the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ask<T = ()> {
    /// For whom. Asking again with the same id gives the same lease.
    pub attempt: AttemptId,
    /// How long the lease lasts unless renewed.
    pub ttl: Duration,
    /// Stand in line when somebody holds it.
    pub wait: bool,
    /// Do not pass those who wait already.
    pub fair: bool,
    /// How many tokens to reserve; none is taken for one.
    pub tokens: u32,
    /// What stays with the attempt while it waits and holds; the record does not look at it.
    pub tag: T,
}

/// The answer to an [`Ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// The lease is the attempt's, for its ttl counted from when the ask was sent.
    Granted(TokenBlock),
    /// The attempt stands in line.
    Queued {
        /// How many stand before it.
        place: usize,
        /// First token of the lease that it waits for the end of.
        base: Option<Token>,
        /// How long that lease lasts without renewal.
        remaining: Duration,
    },
    /// Somebody else has it, for so long unless renewed; nothing is left behind.
    Busy(Duration),
    /// The attempt was ended before: take a new one.
    Ended,
    /// There is no token left (2^53-1 was reached).
    UsedUp,
}

/// What became of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Renewed {
    /// The lease goes on.
    Renewed {
        /// For how long without a further renewal.
        remaining: Duration,
        /// How many wait for its end.
        waiters: usize,
    },
    /// The lease is not this attempt's any more.
    Lost,
}

/// The end of an attempt, whether it holds, waits, or was never heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// Which attempt.
    pub attempt: AttemptId,
    /// First token of its lease; `None` when it never heard of a grant.
    pub base: Option<Token>,
    /// Last token that was used of the block; those after it are given back.
    pub last: Option<Token>,
    /// Some ask of this attempt was never answered: refuse it should it arrive later.
    pub suspect: bool,
    /// Leave the lock taken for this long, without a holder.
    pub keep: Option<Duration>,
}

/// What became of the lease that an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// It was held until now, or until an earlier release of the same attempt.
    Released,
    /// It had ended before.
    Lost,
    /// There was none: the attempt was waiting, or unknown.
    Gone,
    /// It is over, but the record no longer tells whether by release or by loss.
    Unknown,
}

/// What became of a forced release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Forced {
    /// The lease has ended.
    Ended,
    /// Nobody holds the lock.
    NotHeld,
    /// Another lease holds it, this being its first token; nothing was changed.
    Other(Token),
}

/// What a record says to a client that did not ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Push {
    /// To a waiter: the lease is yours.
    Granted {
        /// The tokens reserved.
        tokens: TokenBlock,
        /// How long it lasts, from the time of this step, unless a renewal confirms it.
        offer: Duration,
        /// How many still wait.
        waiters: usize,
    },
    /// To the first in line: your turn comes when this lease ends.
    Next {
        /// First token of that lease.
        base: Option<Token>,
        /// How long it lasts without renewal.
        remaining: Duration,
    },
    /// To the holder: somebody has begun to wait.
    Wanted {
        /// First token of the holder's lease.
        base: Option<Token>,
    },
    /// To the holder: an operator has ended the lease.
    Lost {
        /// First token of the lease that has ended.
        base: Option<Token>,
    },
}

/// Whether somebody holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Nobody does.
    Free,
    /// Somebody does.
    Held,
    /// Its holder has released it, but it stays taken for a while.
    Kept,
}

/// What of a record can be lost by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The lease and the tokens: who holds, and who did.
    Lease,
    /// Those who wait.
    Line,
    /// The attempts that are refused.
    Tombstones,
}

/// One who stands in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waiter<T = ()> {
    /// Who.
    pub attempt: AttemptId,
    /// How long its lease is to last.
    pub ttl: Duration,
    /// How many tokens it wants.
    pub tokens: u32,
    /// What it said about itself.
    pub tag: T,
}

impl Answer {
    /// When to ask again if nothing is heard: each before it in line may let an offer pass.
    pub fn ask_again(&self) -> Option<Duration> {
        match *self {
            Self::Queued { place, remaining, .. } => {
                let offers = u32::try_from(place).unwrap_or(u32::MAX);
                Some(remaining.saturating_add(OFFER.saturating_mul(offers)))
            }
            Self::Busy(remaining) => Some(remaining),
            Self::Granted(_) | Self::Ended | Self::UsedUp => None,
        }
    }
}
