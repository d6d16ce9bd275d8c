//! The semaphore record: one semaphore on one server, with its stored limit, its numbered slots, its
//! permits and its queue of waiters.
//!
//! A permit has one or more slots, one lease and one token, which is above every earlier token of each
//! of its slots. Waiters are served in order: a waiter that needs many slots is never passed by one
//! that needs fewer. As in [`handoff`](crate::handoff), time and the way to reach a client are
//! arguments, a tag `T` of a request stays with the attempt, and the network may repeat, delay and
//! reorder every step.
//!
//! # Cost
//!
//! Permits, slots, tombstones and the queue are found by key in ordered maps, and the first permit to
//! expire by an index. So a step for a permit of n slots takes O(n log s) steps for s slots (at most
//! [`MAX_LIMIT`]), whatever number of permits exists. It reaps at most `CAP` expired permits, looks at
//! most at `CAP` waiters, and each of those costs as much. A waiter that leaves from the middle of the
//! queue moves the entries behind it. [`Record::force_release`] looks at all permits.

mod acquire;
mod limits;
mod messages;
mod parts;
mod queue;
mod release;
mod rules;
mod serve;
mod set_limit;
mod slots;

use core::time::Duration;

pub use limits::{Demand, Limit, MAX_LIMIT, MAX_SLOTS, OutOfRange};
pub use messages::{
    AcquireRequest, Answer, Conflict, Forced, Holder, Permit, Push, ReleaseRequest, Waiter,
};
pub use parts::{Parts, PermitParts};
#[doc(hidden)]
pub use rules::Bug;
pub use slots::Mark;

use self::queue::Queue;
use self::slots::Slots;
use crate::client::{SLOW_POLL, Sound};
use crate::timed_map::TimedMap;
use crate::{AttemptId, Now};

/// The most expired permits that one step reaps, and the most waiters that it looks at.
pub const MAX_WORK: usize = 256;
/// A waiter that has not asked for this long leaves the queue: 45 s. Waiters ask at least every
/// [`SLOW_POLL`], so this is three of their requests.
pub const WAIT_LEASE: Duration = SLOW_POLL.saturating_mul(3);

/// Sends a push to a client. Returns false if no client receives it.
pub type Reach<'a> = &'a mut dyn FnMut(AttemptId, Push) -> bool;

/// One semaphore on one server. One step reaps at most `CAP` expired permits and looks at most at `CAP`
/// waiters: [`MAX_WORK`], or fewer in a model checker, which also plants bugs through `R`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record<T = (), const CAP: usize = MAX_WORK, R = Sound> {
    /// The limit, and its version. `None` before the first request.
    limit: Option<(Limit, u64)>,
    slots: Slots,
    /// Expired permits stay until a step reaps them.
    permits: TimedMap<Held<T>>,
    queue: Queue<T>,
    /// The attempts that are refused, and until when.
    tombstones: TimedMap<()>,
    rules: R,
}

/// A permit in the record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Held<T> {
    permit: Permit,
    /// True if its holder has confirmed it.
    confirmed: bool,
    tag: T,
}

impl<T, const CAP: usize, R: Default> Default for Record<T, CAP, R> {
    fn default() -> Self {
        Self::with_rules(R::default())
    }
}

impl<T, const CAP: usize, R> Record<T, CAP, R> {
    /// Creates an empty record, with a planted bug if `rules` says so.
    #[doc(hidden)]
    pub fn with_rules(rules: R) -> Self {
        Self {
            limit: None,
            slots: Slots::default(),
            permits: TimedMap::default(),
            queue: Queue::default(),
            tombstones: TimedMap::default(),
            rules,
        }
    }

    /// Returns the stored limit; `None` before the first request.
    pub fn limit(&self) -> Option<Limit> {
        self.limit.map(|(limit, _)| limit)
    }

    /// Returns the version of the limit. It grows by one with each change. 0: no limit is stored.
    pub fn limit_version(&self) -> u64 {
        self.limit.map_or(0, |(_, version)| version)
    }

    /// Returns how many slots permits have, including expired permits that no step has reaped yet.
    pub fn held(&self) -> u32 {
        self.slots.held()
    }

    /// Iterates over the permits that have not expired, in the order of their attempts' ids.
    pub fn holders(&self, now: Now) -> impl Iterator<Item = Holder<'_, T>> {
        self.permits.iter().filter(move |(_, until_ns, _)| *until_ns > now.steady_ns).map(
            move |(attempt, until_ns, held)| Holder {
                attempt,
                permit: &held.permit,
                remaining: Duration::from_nanos(until_ns - now.steady_ns),
                confirmed: held.confirmed,
                tag: &held.tag,
            },
        )
    }

    /// Iterates over the waiters in queue order.
    pub fn waiters(&self) -> impl ExactSizeIterator<Item = &Waiter<T>> {
        self.queue.iter()
    }

    /// Returns whether the record refuses requests of this attempt.
    pub fn is_refused(&self, now: Now, attempt: AttemptId) -> bool {
        self.tombstones.get(attempt).is_some_and(|(until_ns, ())| until_ns > now.steady_ns)
    }

    /// Returns true if a step did as much as one step may, and waiters are left whom another step may
    /// serve. Any acquire, release or change of the limit goes on, even for an attempt that the record
    /// does not know.
    pub fn needs_another_step(&self, now: Now) -> bool {
        let Some(head) = self.queue.first() else { return false };
        let expired = self.permits.first().is_some_and(|(until_ns, _)| until_ns <= now.steady_ns);
        let leaves = head.has_lapsed(now) || head.slots > self.limit_or_zero();
        let is_due = || self.fits(head.slots) && self.next_permit(now, head.slots, 1).is_some();
        expired || leaves || is_due()
    }

    /// Returns the limit; no permit fits before it is stored.
    fn limit_or_zero(&self) -> u32 {
        self.limit().map_or(0, Limit::get)
    }

    /// Returns the time until the first permit expires; zero if it has, `None` without permits.
    fn next_end(&self, now: Now) -> Option<Duration> {
        let (until_ns, _) = self.permits.first()?;
        Some(Duration::from_nanos(until_ns.saturating_sub(now.steady_ns)))
    }
}

const _: () = assert!(
    SLOW_POLL.as_nanos() * 2 < WAIT_LEASE.as_nanos(),
    "a waiter whose request is delayed by as long as its poll would leave the queue"
);

#[cfg(test)]
#[path = "semaphore_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "semaphore_random_tests.rs"]
mod random_tests;
