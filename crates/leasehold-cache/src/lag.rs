//! Holds that outlast a write while replicas are behind. Redis may lose one; an old value that was filled
//! then goes when the replicas have caught up.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::proto::{Deadline, Now};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cache::Inner;
use crate::redrive::PAGE;
use crate::remote::Step;

/// How much longer a hold lasts on the server than the replicas' lag, so that the process that set it finds it
/// there when the lag is over. When that one is dead, it ends then.
pub(crate) const MARGIN: Duration = Duration::from_secs(1);
/// What is warned of once.
pub(crate) const LOST: &str = "the hold of a write was gone before the replicas had caught up (Redis lost it, or this process was \
     late): readers may have seen the value from before the write until now, when it was invalidated again; \
     this warning comes once";
/// Holds remembered at most. Of more, the surplus ends by itself, and is not looked at.
const MOST: usize = 10_000;

/// Holds that are to be ended, each when its lag is over. One task ends them.
#[derive(Debug)]
pub(crate) struct Lags<T>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T> {
    /// The first to be over comes first.
    holds: VecDeque<(Deadline, T)>,
    /// Whether a task ends them.
    works: bool,
}

impl<T> Default for Lags<T> {
    fn default() -> Self {
        Self(Mutex::new(State { holds: VecDeque::new(), works: false }))
    }
}

impl<T> Lags<T> {
    /// Adds these, which are over after `lag`; true when a task must begin to end them.
    pub(crate) fn add(&self, now: Now, lag: Duration, holds: impl Iterator<Item = T>) -> bool {
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

    /// When the first of them is over. When there are none, the task that asks must end.
    fn next(&self) -> Option<Deadline> {
        let mut state = self.lock();
        let next = state.holds.front().map(|(until, _)| *until);
        state.works = next.is_some();
        next
    }

    /// Takes some that are over.
    fn over(&self, now: Now) -> Vec<T> {
        let mut state = self.lock();
        let over = state.holds.partition_point(|(until, _)| until.has_passed(now)).min(PAGE);
        state.holds.drain(..over).map(|(_, hold)| hold).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends holds as they are over, until there are none or `to` is dropped. `end` must not fail: what it cannot
/// do it leaves to others.
pub(crate) async fn end_as_they_are_over<T, O, F: Future<Output = ()>>(
    to: Weak<O>,
    clock: Clock,
    lags: impl Fn(&O) -> &Lags<T>,
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

/// A hold of a cache: key and token.
pub(crate) type Hold = (String, String);

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Inner<V> {
    /// Ends the holds of these keys when the replicas' lag is over.
    pub(crate) fn hold_for_lag(self: &Arc<Self>, keys: &[String], token: &str, lag: Duration) {
        let holds = keys.iter().map(|key| (key.clone(), token.to_owned()));
        if !lag.is_zero() && self.lags.add(self.clock.now(), lag, holds) {
            let (this, clock) = (Arc::downgrade(self), self.clock.clone());
            tokio::spawn(end_as_they_are_over(this, clock, |inner| &inner.lags, Self::end_lags));
        }
    }

    /// Ends holds; where one was lost, removes what was filled meanwhile.
    async fn end_lags(self: Arc<Self>, holds: Vec<Hold>) {
        let ends = holds
            .iter()
            .map(|(key, token)| async { self.remote.write(key, token, &Step::Settled).await });
        let ended = futures_util::future::join_all(ends).await;
        let mut failed = Vec::new();
        for ((key, _), ended) in holds.iter().zip(ended) {
            match ended {
                Ok(false) => {}
                Ok(true) => {
                    self.counters.lost_holds.add();
                    self.lost.call_once(|| self.user.warn(LOST));
                    self.forget(key);
                }
                Err(_) => failed.push(key.clone()),
            }
        }
        if !failed.is_empty() {
            self.redrive(failed);
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::clock::ManualClock;

    use super::*;

    #[test]
    fn holds_are_taken_when_they_are_over_and_have_a_bound() {
        let (clock, lags) = (ManualClock::new(), Lags::default());
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
