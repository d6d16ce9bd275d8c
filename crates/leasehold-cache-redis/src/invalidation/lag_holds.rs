//! Holds that outlast a write while replicas lag. If Redis loses a hold, a reader may fill the old
//! value; it is removed when the replicas have caught up.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::proto::{Deadline, Now};

use super::PAGE;

/// How much longer a hold lasts on the server than the replicas lag. So the process that set the
/// hold still finds it when the lag is over; if the process is dead, the hold expires.
pub(crate) const MARGIN: Duration = Duration::from_secs(1);
/// The warning for the first hold that Redis lost.
pub const LOST_HOLD: &str = "Redis lost the hold of a write before the replicas caught up, or \
                             this process was late: readers may have seen the old value until \
                             now; it was invalidated again; this is logged once";
/// The most holds that are tracked. Further holds expire by themselves, and are not checked.
const MOST: usize = 10_000;

/// Holds that must be ended, each when its lag is over. One task ends them.
#[derive(Debug)]
pub struct LagHolds<T>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T> {
    /// In the order in which their lags end.
    holds: VecDeque<(Deadline, T)>,
    /// Whether a task is running.
    works: bool,
}

impl<T> Default for LagHolds<T> {
    fn default() -> Self {
        Self(Mutex::new(State { holds: VecDeque::new(), works: false }))
    }
}

impl<T> LagHolds<T> {
    /// Adds holds whose lag ends after `lag`. Returns true if the caller must start
    /// [`end_holds_when_over`].
    pub fn add(&self, now: Now, lag: Duration, holds: impl Iterator<Item = T>) -> bool {
        let until = Deadline::after(now, lag);
        let mut state = self.lock();
        let room = MOST.saturating_sub(state.holds.len());
        for hold in holds.take(room) {
            let at = state.holds.partition_point(|(other, _)| other.remaining(now) <= lag);
            state.holds.insert(at, (until, hold));
        }
        let begin = !state.works && !state.holds.is_empty();
        state.works |= begin;
        begin
    }

    /// Returns when the first lag ends. If there are no holds, the calling task must end.
    fn next(&self) -> Option<Deadline> {
        let mut state = self.lock();
        let next = state.holds.front().map(|(until, _)| *until);
        state.works = next.is_some();
        next
    }

    /// Takes some holds whose lag is over.
    fn over(&self, now: Now) -> Vec<T> {
        let mut state = self.lock();
        let over = state.holds.partition_point(|(until, _)| until.has_passed(now)).min(PAGE);
        state.holds.drain(..over).map(|(_, hold)| hold).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends each hold when its lag is over, until there are none or `to` is dropped. `end` must not
/// fail: holds that it cannot end expire by themselves.
pub async fn end_holds_when_over<T, O, F: Future<Output = ()>>(
    to: Weak<O>,
    clock: Clock,
    lags: impl Fn(&O) -> &LagHolds<T>,
    end: impl Fn(Arc<O>, Vec<T>) -> F,
) {
    loop {
        let Some(owner) = to.upgrade() else { return };
        let Some(until) = lags(&owner).next() else { return };
        let now = clock.now();
        if !until.has_passed(now) {
            drop(owner);
            clock.sleep(until.remaining(now)).await;
            continue;
        }
        let over = lags(&owner).over(now);
        end(owner, over).await;
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::clock::ManualClock;

    use super::*;

    #[test]
    fn holds_are_taken_when_they_are_over_and_have_a_bound() {
        let (clock, lags) = (ManualClock::new(), LagHolds::default());
        let add = |secs, name, count| {
            let holds = std::iter::repeat_n(name, count);
            lags.add(clock.clock().now(), Duration::from_secs(secs), holds)
        };
        assert!(add(3, "b", 1), "a task must begin");
        assert!(!add(1, "a", 1), "one has begun");
        assert!(lags.over(clock.clock().now()).is_empty());
        clock.advance(Duration::from_secs(1));
        assert_eq!(lags.over(clock.clock().now()), ["a"]);
        clock.advance(Duration::from_secs(2));
        assert!(lags.next().is_some());
        assert_eq!(lags.over(clock.clock().now()), ["b"]);
        assert!(lags.next().is_none());
        assert!(add(9, "c", 2 * MOST), "the task has ended");
        assert_eq!(lags.lock().holds.len(), MOST);
    }
}
