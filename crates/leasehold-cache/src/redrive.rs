//! Invalidations that Redis may have lost are made again: those that failed, and, when a connection
//! was lost, all of a while ago, since the server that comes back may not know of them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::proto::{Deadline, Now};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cache::Inner;
use crate::remote::Step;
use crate::write::token;

/// Keys remembered at most; the oldest are forgotten first.
const MOST: usize = 10_000;
/// Keys tried at a time.
pub(crate) const PAGE: usize = 256;
/// Pauses between two tries: the first and the longest.
pub(crate) const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// What was written a while before the last time at which the server was known to answer, oldest
/// first. A server that takes over has received what is older. No entry is forgotten while the
/// server does not answer.
#[derive(Debug)]
pub(crate) struct Recent<T = String>(Mutex<VecDeque<(Deadline, T)>>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Recent<T> {
    /// A server that takes over may not know of these if it does so within `span`.
    pub(crate) fn note(&self, clock: &Clock, span: Duration, keys: &[T]) {
        let until = Deadline::after(clock.now(), span);
        let mut recent = self.lock();
        recent.extend(keys.iter().map(|key| (until, key.clone())));
        let surplus = recent.len().saturating_sub(MOST);
        recent.drain(..surplus);
    }

    /// The server was there at that time.
    pub(crate) fn good(&self, then: Now) {
        let mut recent = self.lock();
        while recent.front().is_some_and(|(until, _)| until.has_passed(then)) {
            recent.pop_front();
        }
    }

    /// Takes all of them: a server that may not know of them is there now.
    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.lock()).into_iter().map(|(_, key)| key).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Deadline, T)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Inner<V> {
    /// Makes what was invalidated a while ago invalid once more.
    pub(crate) fn redrive_recent(self: &Arc<Self>) {
        let keys = self.recent.take();
        if !keys.is_empty() {
            self.redrive(keys);
        }
    }

    /// Invalidates these until it has succeeded, or the cache is dropped, or they would not be in
    /// Redis any more.
    pub(crate) fn redrive(self: &Arc<Self>, keys: Vec<String>) {
        let settings = &self.settings;
        let longest = (settings.ttl + settings.stale_for).max(settings.null_ttl);
        let until = Deadline::after(self.clock.now(), longest);
        if !self.owed.add(keys, until) {
            return;
        }
        let (inner, clock) = (Arc::downgrade(self), self.clock.clone());
        tokio::spawn(async move {
            let (token, mut pause) = (token(), PAUSES.0);
            while let Some(inner) = inner.upgrade() {
                let page = inner.owed.page(clock.now());
                if page.is_empty() {
                    return;
                }
                let keys: Vec<String> = page.iter().map(|(key, _)| key.clone()).collect();
                let lag = inner.settings.replica_lag;
                let connects = inner.connects.load(Ordering::SeqCst);
                let (_, failed, _) = inner.try_step(&keys, &token, |_| Step::Committed(lag)).await;
                let made = made(&keys, &failed);
                inner.hold_for_lag(&made, &token, lag);
                inner.recent.note(&clock, inner.settings.write_hold, &made);
                // A task that took the recent entries meanwhile did not see these.
                if inner.connects.load(Ordering::SeqCst) == connects {
                    inner.owed.done(&page, &failed);
                }
                drop(inner);
                if !failed.is_empty() {
                    clock.sleep(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        });
    }

    /// Ends holds whose token is lost, as far as Redis can be reached: a beginning without an
    /// answer may have been carried out.
    pub(crate) fn end_holds(self: &Arc<Self>, keys: Vec<String>, token: String) {
        let inner = Arc::downgrade(self);
        let clock = self.clock.clone();
        let end = Deadline::after(clock.now(), self.settings.write_hold);
        tokio::spawn(async move {
            let (mut keys, mut pause) = (keys, PAUSES.0);
            while let Some(inner) = inner.upgrade().filter(|_| !end.has_passed(clock.now())) {
                let step = |_| Step::Committed(Duration::ZERO);
                (_, keys, _) = inner.try_step(&keys, &token, step).await;
                if keys.is_empty() {
                    return;
                }
                drop(inner);
                clock.sleep(pause).await;
                pause = (pause * 2).min(PAUSES.1);
            }
        });
    }
}

/// Those of the keys that have not failed.
pub(crate) fn made(keys: &[String], failed: &[String]) -> Vec<String> {
    keys.iter().filter(|key| !failed.contains(key)).cloned().collect()
}

/// Invalidations that failed, each until when it matters. One task works them off.
#[derive(Debug, Default)]
pub(crate) struct Owed(Mutex<HashMap<String, Deadline>>);

impl Owed {
    /// Adds these. Returns true if there were none, so that the caller must start a task for them.
    /// Drops what exceeds [`MOST`], with a warning.
    fn add(&self, keys: Vec<String>, until: Deadline) -> bool {
        let mut owed = self.lock();
        let idle = owed.is_empty();
        for key in keys {
            if owed.len() >= MOST && !owed.contains_key(&key) {
                tracing::warn!(key, "too many invalidations are owed; this one is not tried again");
                continue;
            }
            owed.insert(key, until);
        }
        idle && !owed.is_empty()
    }

    /// Some of those that still matter; the others are forgotten.
    fn page(&self, now: Now) -> Vec<(String, Deadline)> {
        let mut owed = self.lock();
        owed.retain(|_, until| !until.has_passed(now));
        owed.iter().take(PAGE).map(|(key, until)| (key.clone(), *until)).collect()
    }

    /// These were tried, and those failed. What was added anew meanwhile stays.
    fn done(&self, page: &[(String, Deadline)], failed: &[String]) {
        let mut owed = self.lock();
        for (key, until) in page {
            if !failed.contains(key) && owed.get(key) == Some(until) {
                owed.remove(key);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Deadline>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::clock::ManualClock;

    use super::*;

    #[test]
    fn what_is_owed_is_worked_off_once_each_and_no_longer_than_it_matters() {
        let (clock, owed) = (ManualClock::new(), Owed::default());
        let soon = Deadline::after(clock.clock().now(), Duration::from_secs(1));
        let late = Deadline::after(clock.clock().now(), Duration::from_secs(9));
        assert!(owed.add(vec!["a".into(), "b".into()], soon), "a task must begin");
        assert!(!owed.add(vec!["a".into()], late), "a task has begun");
        let page = owed.page(clock.clock().now());
        assert_eq!(page.len(), 2);
        owed.add(vec!["b".into()], late);
        owed.done(&page, &[]);
        assert_eq!(owed.page(clock.clock().now()), [("b".to_owned(), late)], "added meanwhile");
        clock.advance(Duration::from_secs(9));
        assert!(owed.page(clock.clock().now()).is_empty());
        let many = (0..2 * MOST).map(|at| at.to_string()).collect();
        assert!(owed.add(many, Deadline::after(clock.clock().now(), Duration::from_secs(1))));
        assert_eq!(owed.lock().len(), MOST);
    }

    #[test]
    fn what_was_long_before_the_server_was_last_there_is_forgotten() {
        let (clock, recent) = (ManualClock::new(), Recent::default());
        let now = || clock.clock().now();
        let (second, ms) = (Duration::from_secs(1), Duration::from_millis);
        recent.note(&clock.clock(), second, &["a".into()]);
        clock.advance(ms(600));
        recent.note(&clock.clock(), second, &["b".into()]);
        clock.advance(ms(300));
        recent.good(now());
        clock.advance(ms(100));
        recent.good(now());
        // From now on the server does not answer, for a long time.
        recent.note(&clock.clock(), second, &["c".into()]);
        clock.advance(second * 60);
        recent.note(&clock.clock(), second, &["d".into()]);
        assert_eq!(recent.take(), ["b", "c", "d"]);
        assert!(recent.take().is_empty(), "once");
        let many: Vec<String> = (0..=MOST).map(|at| at.to_string()).collect();
        recent.note(&clock.clock(), second, &many);
        assert_eq!(recent.take(), many[1..]);
    }
}
