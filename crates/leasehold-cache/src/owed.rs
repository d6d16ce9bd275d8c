//! Failed invalidations that must be repeated.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_cache_redis::invalidation::PAGE;
use leasehold_core::proto::{Deadline, Now};

/// The most keys that are remembered.
const MOST: usize = 10_000;

/// Failed invalidations, each with the time until which it matters. One task repeats them.
#[derive(Debug, Default)]
pub(crate) struct Owed(Mutex<HashMap<String, Deadline>>);

impl Owed {
    /// Adds keys. Returns true if there were none, so that the caller must start a task for them.
    /// Drops keys above [`MOST`], with a warning.
    pub(crate) fn add(&self, keys: Vec<String>, until: Deadline) -> bool {
        let mut owed = self.lock();
        let idle = owed.is_empty();
        for key in keys {
            if owed.len() >= MOST && !owed.contains_key(&key) {
                tracing::warn!(key, "too many failed invalidations; this one is not retried");
                continue;
            }
            owed.insert(key, until);
        }
        idle && !owed.is_empty()
    }

    /// Returns some keys that still matter; forgets the others.
    pub(crate) fn page(&self, now: Now) -> Vec<(String, Deadline)> {
        let mut owed = self.lock();
        owed.retain(|_, until| !until.has_passed(now));
        owed.iter().take(PAGE).map(|(key, until)| (key.clone(), *until)).collect()
    }

    /// Removes the keys of `page` except `failed`. Keys that were added again meanwhile stay.
    pub(crate) fn done(&self, page: &[(String, Deadline)], failed: &[String]) {
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

    use std::time::Duration;

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
}
