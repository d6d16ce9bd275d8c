//! Recent writes, which a server may lack after a failover.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::proto::{Deadline, Now};

/// The most keys that are remembered; the oldest are dropped first.
const MOST: usize = 10_000;

/// The writes shortly before the server last answered, oldest first. After a failover the new
/// server has all older writes. No write is dropped while the server does not answer.
#[derive(Debug)]
pub struct RecentWrites<T = String>(Mutex<VecDeque<(Deadline, T)>>);

impl<T> Default for RecentWrites<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> RecentWrites<T> {
    /// Adds writes made now. A server that takes over within `span` may lack them.
    pub fn note(&self, clock: &Clock, span: Duration, keys: &[T]) {
        let until = Deadline::after(clock.now(), span);
        let mut recent = self.lock();
        recent.extend(keys.iter().map(|key| (until, key.clone())));
        let surplus = recent.len().saturating_sub(MOST);
        recent.drain(..surplus);
    }

    /// Records that the server answered at that time, and drops writes that are older than their
    /// span.
    pub fn server_answered(&self, then: Now) {
        let mut recent = self.lock();
        while recent.front().is_some_and(|(until, _)| until.has_passed(then)) {
            recent.pop_front();
        }
    }

    /// Takes all writes, for a server that may lack them.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.lock()).into_iter().map(|(_, key)| key).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Deadline, T)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::clock::ManualClock;

    use super::*;

    #[test]
    fn what_was_long_before_the_server_was_last_there_is_forgotten() {
        let (clock, recent) = (ManualClock::new(), RecentWrites::default());
        let now = || clock.clock().now();
        let (second, ms) = (Duration::from_secs(1), Duration::from_millis);
        recent.note(&clock.clock(), second, &["a".into()]);
        clock.advance(ms(600));
        recent.note(&clock.clock(), second, &["b".into()]);
        clock.advance(ms(300));
        recent.server_answered(now());
        clock.advance(ms(100));
        recent.server_answered(now());
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
