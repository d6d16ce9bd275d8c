//! The hand-off record: one lock on one server, with its holder, its queue of waiters and its
//! hand-off.
//!
//! The state machine decides and stores state. Time, and the function that sends to a client, are
//! arguments. The memory engine runs it unchanged, tests compare the scripts of a server with it,
//! and a model checker explores it. It holds no data that only people read: such data goes into the
//! tag `T` of a request, which stays with the attempt.
//!
//! The network may repeat, delay and reorder every step. A step of one attempt never affects the
//! lease of another attempt.

mod acquire;
mod messages;
mod parts;
mod queue;
mod release;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

pub use messages::{
    AcquireRequest, Answer, Forced, Part, Push, ReleaseRequest, Renewed, State, Verdict, Waiter,
};
pub use parts::Parts;
pub(crate) use queue::tokens_above;
pub(crate) use release::verdict_on_the_past;

use crate::{AttemptId, Now, Token};

/// How long a lease that is pushed to a waiter lasts until the new holder confirms it with its
/// first renewal: 2 s, or the ttl if that is shorter.
pub const OFFER: Duration = Duration::from_secs(2);
/// How far a grant of several tokens may reach ahead of the wall clock, in microseconds (one token
/// each). A grant that would reach further reserves a single token.
pub const TOKEN_LEAD: u32 = 16_384;
/// The most unreachable waiters that one step removes. A queue may hold any number of them, and the
/// server does no other work during a step. Later steps remove the rest.
pub const DEAD: usize = 64;
/// How long the record refuses a suspect attempt after its end: a request of it may still arrive.
pub const TOMBSTONE: Duration = Duration::from_secs(60);

/// Sends a push to a client. Returns false if no client receives it.
pub type Reach<'a> = &'a mut dyn FnMut(AttemptId, Push) -> bool;

/// One lock on one server: its lease, its tokens and its queue of waiters. One step removes at most
/// `CAP` unreachable waiters: [`DEAD`], or fewer in a model checker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record<T = (), const CAP: usize = DEAD> {
    state: State,
    /// The current or the last holder.
    owner: Option<(AttemptId, T)>,
    /// The first token of the current or last lease, and the highest token that was ever reserved.
    base: u64,
    top: u64,
    /// The steady time at which the lease, or the minimum hold after a release, ends.
    until_ns: u64,
    /// True if the owner has confirmed its lease.
    confirmed: bool,
    /// The base of the last lease that ended without a release.
    lost: u64,
    queue: VecDeque<Waiter<T>>,
    /// The attempts that are refused, and until when.
    tombstones: BTreeMap<AttemptId, u64>,
}

impl<T, const CAP: usize> Default for Record<T, CAP> {
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

impl<T, const CAP: usize> Record<T, CAP> {
    /// Returns whether the lock is held, kept or free. A lease that has expired is free, even if no
    /// step has recorded that.
    pub fn state(&self, now: Now) -> State {
        if self.is_alive(now) { self.state } else { State::Free }
    }

    /// Returns the attempt that holds the lock, or the last attempt that did, with its tag.
    pub fn owner(&self) -> Option<(AttemptId, &T)> {
        self.owner.as_ref().map(|(attempt, tag)| (*attempt, tag))
    }

    /// Returns the first token of the current or last lease; `None` before the first lease.
    pub fn base(&self) -> Option<Token> {
        Token::new(self.base)
    }

    /// Returns the highest token that was reserved and not given back; `None` before the first
    /// lease.
    pub fn top(&self) -> Option<Token> {
        Token::new(self.top)
    }

    /// Returns false while the lease is an offer that its owner has not confirmed.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Returns how long the lease lasts without renewal, or how long the lock is kept; zero if it
    /// is free.
    pub fn remaining(&self, now: Now) -> Duration {
        match self.state {
            State::Free => Duration::ZERO,
            _ => Duration::from_nanos(self.until_ns.saturating_sub(now.steady_ns)),
        }
    }

    /// Iterates over the waiters in queue order.
    pub fn waiters(&self) -> impl ExactSizeIterator<Item = &Waiter<T>> {
        self.queue.iter()
    }

    /// Returns true if a step removed as many dead waiters as one step may: the lock is free, and
    /// waiters are left in its queue. Any acquire or release continues the removal, even for an
    /// attempt that the record does not know. Also returns true if no token is left; then no step
    /// shortens the queue.
    pub fn needs_another_step(&self) -> bool {
        self.state == State::Free && self.owner.is_some() && !self.queue.is_empty()
    }

    /// Returns whether the record refuses requests of this attempt.
    pub fn is_refused(&self, now: Now, attempt: AttemptId) -> bool {
        self.tombstones.get(&attempt).is_some_and(|until| *until > now.steady_ns)
    }

    /// Drops one part of the record, as a server does when it loses the keys of that part.
    pub fn forget(&mut self, part: Part) {
        match part {
            Part::Lease => {
                let queue = std::mem::take(&mut self.queue);
                let tombstones = std::mem::take(&mut self.tombstones);
                *self = Self { queue, tombstones, ..Self::default() };
            }
            Part::Queue => self.queue.clear(),
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

/// Returns the steady time `time` from now, in nanoseconds.
pub(crate) fn after(now: Now, time: Duration) -> u64 {
    now.steady_ns.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
#[path = "handoff_tests.rs"]
mod tests;
