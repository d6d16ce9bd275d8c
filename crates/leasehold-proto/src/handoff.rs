//! The hand-off record: one lock on one server, who holds it, who waits, and how it passes on.
//!
//! The machine decides and remembers; time, and the way to reach a client, are arguments. The
//! memory engine runs it as it is, the scripts of a server are compared with it, and a model
//! checker explores it, so it holds nothing that is for people only: that goes into the tag `T`
//! of an ask, which travels with the attempt.
//!
//! Every step may be repeated, delayed and reordered by the network. A step of one attempt never
//! touches the lease of another.

mod asking;
mod ending;
mod line;
mod parts;
mod words;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

pub use parts::Parts;
pub use words::{Answer, Ask, End, Forced, Part, Push, Renewed, State, Verdict, Waiter};

use crate::{AttemptId, Now, Token};

/// A lease that is pushed to a waiter lasts this long, or its ttl if that is less, until its
/// holder's first renewal confirms it.
pub const OFFER: Duration = Duration::from_secs(2);
/// How far a grant of several tokens may reach beyond the wall clock, in microseconds: one token for
/// each. A grant beyond it is one of a single token.
pub const TOKEN_LEAD: u32 = 16_384;
/// How long an ended attempt is remembered, in case a request of it is still on its way.
pub const TOMBSTONE: Duration = Duration::from_secs(60);

/// How a record reaches the clients; false when nobody was there to receive.
pub type Reach<'a> = &'a mut dyn FnMut(AttemptId, Push) -> bool;

/// One lock: its lease, its tokens, its line of waiters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record<T = ()> {
    state: State,
    /// The holder, or the last one.
    owner: Option<(AttemptId, T)>,
    /// First token of the current or last lease, and the highest that was ever reserved.
    base: u64,
    top: u64,
    /// Steady time at which the lease (or the time that the lock is kept) ends.
    until_ns: u64,
    /// The owner has shown that it knows of its lease.
    confirmed: bool,
    /// Base of the last lease that ended other than by its release.
    lost: u64,
    queue: VecDeque<Waiter<T>>,
    /// Attempts that are refused, and until when.
    tombstones: BTreeMap<AttemptId, u64>,
}

impl<T> Default for Record<T> {
    fn default() -> Self {
        Self {
            state: State::Free,
            owner: None,
            base: 0,
            top: 0,
            until_ns: 0,
            confirmed: false,
            lost: 0,
            queue: VecDeque::new(),
            tombstones: BTreeMap::new(),
        }
    }
}

impl<T> Record<T> {
    /// Held, kept, or free; a lease that has ended is free, whether somebody noticed or not.
    pub fn state(&self, now: Now) -> State {
        if self.is_alive(now) { self.state } else { State::Free }
    }

    /// The attempt that holds the lock, or the last that did, with its tag.
    pub fn owner(&self) -> Option<(AttemptId, &T)> {
        self.owner.as_ref().map(|(attempt, tag)| (*attempt, tag))
    }

    /// First token of the current or last lease; `None` before the first.
    pub fn base(&self) -> Option<Token> {
        Token::new(self.base)
    }

    /// The highest token that was ever reserved and not given back; `None` before the first.
    pub fn top(&self) -> Option<Token> {
        Token::new(self.top)
    }

    /// False while the lease is an offer that its owner has not confirmed yet.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// How long the lease lasts without renewal, or the lock is kept; zero when it is free.
    pub fn remaining(&self, now: Now) -> Duration {
        match self.state {
            State::Free => Duration::ZERO,
            _ => Duration::from_nanos(self.until_ns.saturating_sub(now.steady_ns)),
        }
    }

    /// Those who wait, first in line first.
    pub fn waiters(&self) -> impl ExactSizeIterator<Item = &Waiter<T>> {
        self.queue.iter()
    }

    /// Whether requests of this attempt are refused.
    pub fn is_refused(&self, now: Now, attempt: AttemptId) -> bool {
        self.tombstones.get(&attempt).is_some_and(|until| *until > now.steady_ns)
    }

    /// A part of the record is lost, as a server loses the keys that it was kept in.
    pub fn forget(&mut self, part: Part) {
        match part {
            Part::Lease => {
                let queue = std::mem::take(&mut self.queue);
                let tombstones = std::mem::take(&mut self.tombstones);
                *self = Self { queue, tombstones, ..Self::default() };
            }
            Part::Line => self.queue.clear(),
            Part::Tombstones => self.tombstones.clear(),
        }
    }

    fn is_alive(&self, now: Now) -> bool {
        self.state != State::Free && self.until_ns > now.steady_ns
    }

    fn is_owner(&self, attempt: AttemptId) -> bool {
        self.owner.as_ref().is_some_and(|(owner, _)| *owner == attempt)
    }
}

fn after(now: Now, time: Duration) -> u64 {
    now.steady_ns.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
#[path = "handoff_tests.rs"]
mod tests;
