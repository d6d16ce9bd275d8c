//! The record of a read-write lock on one server: its read and write phases, and its two queues.
//!
//! The order is phase-fair (Brandenburg and Anderson, "Reader-Writer Synchronization for
//! Shared-Memory Multiprocessor Real-Time Systems", 2010). If a writer is queued, no reader joins
//! the current read phase. When a writer releases, the queued readers enter together, then the next
//! writer. So a writer waits for at most one read phase per writer ahead of it, plus one.
//!
//! Each reading client has its own lease. All readers of a phase have the same token; every later
//! phase has a higher one. A record without readers behaves as [`handoff::Record`] does, with the
//! differences that the tests of this module name.
//!
//! The state machine decides and stores state. Time, and the function that sends to a client, are
//! arguments. The network may repeat, delay and reorder every step. An attempt has one mode and one
//! lease, so a downgrade or an upgrade uses a new attempt.
//!
//! [`handoff::Record`]: crate::handoff::Record

mod acquire;
mod convert;
mod members;
mod messages;
mod parts;
mod phase;
mod queues;
mod release;
mod rules;

use core::time::Duration;
use std::collections::BTreeMap;

use members::Members;
pub use messages::{Answer, Converted, Member, Mode, Phase, Waiter, phases_ahead};
pub use parts::Parts;
use queues::Queues;
#[doc(hidden)]
pub use rules::{Bug, Rules};

use crate::handoff::Part;
use crate::rules::Sound;
use crate::{AttemptId, Now, Token};

/// The most waiters that one step grants a lease to or removes. A queue may hold any number of
/// waiters, and the server does no other work during a step. Later steps continue.
pub const STEP: usize = 256;
/// How long a waiter stays in the queue without sending its request again: 45 s, three times the
/// interval at which waiters send it. Otherwise a dead waiter would keep readers out of a read
/// phase.
pub const WAITER_LEASE: Duration = Duration::from_secs(45);

/// One read-write lock on one server: its phase, its tokens and its queues. One step sends at most
/// `2 * CAP + 1` messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record<T = (), const CAP: usize = STEP, R = Sound> {
    phase: Phase,
    /// The mode that goes first when the current phase ends.
    turn: Mode,
    /// The first token of the current or last phase, and the highest token that was ever reserved.
    base: u64,
    top: u64,
    members: Members<T>,
    /// The attempt that acquired last.
    last: Option<(AttemptId, T)>,
    /// The first token and the mode of the last phase in which a lease ended without a release.
    lost: u64,
    lost_mode: Mode,
    queues: Queues<T>,
    /// The attempts that are refused, and until when.
    tombstones: BTreeMap<AttemptId, u64>,
    waiter_lease: Duration,
    rules: R,
}

impl<T, const CAP: usize, R: Rules> Default for Record<T, CAP, R> {
    fn default() -> Self {
        Self {
            phase: Phase::Free,
            turn: Mode::Read,
            base: 0,
            top: 0,
            members: Members::default(),
            last: None,
            lost: 0,
            lost_mode: Mode::Write,
            queues: Queues::default(),
            tombstones: BTreeMap::new(),
            waiter_lease: WAITER_LEASE,
            rules: R::default(),
        }
    }
}

impl<T, const CAP: usize, R: Rules> Record<T, CAP, R> {
    /// Sets how long a waiter stays in the queue without sending its request again; default
    /// [`WAITER_LEASE`]. Zero: until its attempt ends.
    #[must_use]
    pub fn with_waiter_lease(self, waiter_lease: Duration) -> Self {
        Self { waiter_lease, ..self }
    }

    /// Returns the record with the rules `rules`, which may plant a bug.
    #[doc(hidden)]
    #[must_use]
    pub fn with_rules(self, rules: R) -> Self {
        Self { rules, ..self }
    }

    /// Returns the phase. A phase whose leases have all expired is over, even if no step has
    /// recorded that.
    pub fn phase(&self, now: Now) -> Phase {
        if self.is_alive(now) { self.phase } else { Phase::Free }
    }

    /// Returns the mode that goes first when the current phase ends, if both modes wait.
    pub fn turn(&self) -> Mode {
        self.turn
    }

    /// Iterates over the holders whose leases have not expired. A kept lock has none.
    pub fn holders(&self, now: Now) -> impl Iterator<Item = &Member<T>> {
        let held = matches!(self.phase, Phase::Read | Phase::Write);
        self.members.iter().filter(move |member| held && member.until_ns > now.steady_ns)
    }

    /// Returns the attempt that acquired last, with its tag. It may have ended.
    pub fn last_holder(&self) -> Option<(AttemptId, &T)> {
        self.last.as_ref().map(|(attempt, tag)| (*attempt, tag))
    }

    /// Returns the first token of the current or last phase; `None` before the first one.
    pub fn base(&self) -> Option<Token> {
        Token::new(self.base)
    }

    /// Returns the highest token that was reserved and not given back; `None` before the first
    /// phase.
    pub fn top(&self) -> Option<Token> {
        Token::new(self.top)
    }

    /// Returns how long the phase lasts without renewals, or how long the lock is kept; zero if it
    /// is free.
    pub fn remaining(&self, now: Now) -> Duration {
        match self.phase {
            Phase::Free => Duration::ZERO,
            _ => Duration::from_nanos(self.members.latest_ns().saturating_sub(now.steady_ns)),
        }
    }

    /// Iterates over the waiters of both modes in the order of arrival.
    pub fn waiters(&self) -> impl Iterator<Item = &Waiter<T>> {
        self.queues.iter()
    }

    /// Returns how many attempts wait in this mode.
    pub fn waiting(&self, mode: Mode) -> usize {
        self.queues.len(mode)
    }

    /// Returns true if a step granted to or removed as many waiters as one step may: the lock is
    /// free, and waiters are left. Every step continues, even for an attempt that the record does
    /// not know. Also returns true if no token is left; then no step shortens the queue.
    pub fn needs_another_step(&self) -> bool {
        self.phase == Phase::Free && self.last.is_some() && !self.queues.is_empty()
    }

    /// Returns whether the record refuses requests of this attempt.
    pub fn is_refused(&self, now: Now, attempt: AttemptId) -> bool {
        let refused = self.tombstones.get(&attempt).is_some_and(|until| *until > now.steady_ns);
        refused && !self.rules.breaks(Bug::TombstonesAreIgnored)
    }

    /// Drops one part of the record, as a server does when it loses the keys of that part.
    pub fn forget(&mut self, part: Part) {
        match part {
            Part::Lease => {
                let queues = core::mem::take(&mut self.queues);
                let tombstones = core::mem::take(&mut self.tombstones);
                let (waiter_lease, rules) = (self.waiter_lease, self.rules);
                *self = Self { queues, tombstones, waiter_lease, rules, ..Self::default() };
            }
            Part::Queue => self.queues = Queues::default(),
            Part::Tombstones => self.tombstones.clear(),
        }
    }

    fn is_alive(&self, now: Now) -> bool {
        self.phase != Phase::Free && self.members.latest_ns() > now.steady_ns
    }

    /// Returns the mode of the current phase, unless it is free or kept.
    fn mode(&self) -> Option<Mode> {
        match self.phase {
            Phase::Read => Some(Mode::Read),
            Phase::Write => Some(Mode::Write),
            Phase::Free | Phase::Kept => None,
        }
    }

    /// Returns how many attempts wait for the end of a lease of this mode.
    fn waiters_for(&self, mode: Mode) -> usize {
        let writers = self.queues.len(Mode::Write);
        match mode {
            Mode::Read => writers,
            Mode::Write => writers + self.queues.len(Mode::Read),
        }
    }
}

#[cfg(test)]
#[path = "read_write/differential_tests.rs"]
mod differential_tests;
#[cfg(test)]
#[path = "read_write/invariant_tests.rs"]
mod invariant_tests;
#[cfg(test)]
#[path = "read_write_tests.rs"]
mod tests;
