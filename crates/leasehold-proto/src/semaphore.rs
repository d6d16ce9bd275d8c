//! The semaphore record: one semaphore on one server, with its stored limit, its numbered slots, its
//! permits and its queue of waiters.
//!
//! A permit has one or more slots, one lease and one token, which is above every earlier token of
//! each of its slots. Waiters are served in order: a waiter for many slots is never passed by one
//! for fewer slots. As in [`handoff`](crate::handoff), time and the function that sends to a client
//! are arguments, a tag `T` of a request stays with the attempt, and the network may repeat, delay
//! and reorder every step.
//!
//! # Cost
//!
//! Ordered maps find permits, slots, tombstones and waiters by key, and an index finds the first
//! permit to expire. So a step for a permit of n slots takes O(n log s) operations for s slots (at
//! most [`MAX_LIMIT`]), for any number of permits. A step removes at most `CAP` expired permits and
//! serves at most `CAP` waiters, at the same cost for each. A waiter that leaves from the middle of
//! the queue moves the entries behind it. [`Record::force_release`] searches all permits.

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

/// The most expired permits that one step removes, and the most waiters that it serves.
pub const MAX_WORK: usize = 256;
/// How long a waiter stays in the queue without sending its request again: 45 s, which is three
/// times [`SLOW_POLL`], the longest interval at which waiters send it.
pub const WAIT_LEASE: Duration = SLOW_POLL.saturating_mul(3);

/// Sends a push to a client. Returns false if no client receives it.
pub type Reach<'a> = &'a mut dyn FnMut(AttemptId, Push) -> bool;

/// One semaphore on one server. In one step it removes at most `CAP` expired permits, serves at
/// most `CAP` waiters, and sends one message more. `CAP` is [`MAX_WORK`], or less in a model checker. `R` selects a planted
/// bug.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record<T = (), const CAP: usize = MAX_WORK, R = Sound> {
    /// The limit, and its version. `None` before the first request.
    limit: Option<(Limit, u64)>,
    slots: Slots,
    /// Expired permits stay until a step removes them.
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
    /// Creates an empty record with the rules `rules`, which may plant a bug.
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

    /// Returns how many slots permits have, including expired permits that no step has removed yet.
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

    /// Returns true if a step did as much as one step may, and another step may serve waiters. Any
    /// acquire, release or change of the limit continues, even for an attempt that the record does
    /// not know.
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
    "WAIT_LEASE must be more than twice SLOW_POLL: a waiter with one late request must stay in \
     the queue"
);

#[cfg(test)]
#[path = "semaphore_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "semaphore_random_tests.rs"]
mod random_tests;
