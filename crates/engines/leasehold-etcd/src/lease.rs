//! Leases of etcd: one for each attempt, reused when the earlier attempt has certainly ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::{Deadline, Now, random};

/// The number of idle leases that are kept for each duration. They are not renewed, so those that
/// are not reused soon expire.
const IDLE: usize = 10_000;

/// A lease that the server has granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) id: i64,
    /// The duration after each keep-alive as the server granted it, in whole seconds.
    pub(crate) secs: i64,
}

impl Lease {
    /// Returns the duration after each keep-alive.
    pub(crate) fn time(self) -> Duration {
        Duration::from_secs(u64::try_from(self.secs).unwrap_or(0))
    }
}

/// Returns the duration to request for this ttl: whole seconds, at least the ttl.
pub(crate) fn seconds(ttl: Duration) -> i64 {
    let up = u64::from(ttl.subsec_nanos() > 0);
    i64::try_from(ttl.as_secs() + up).unwrap_or(i64::MAX).max(1)
}

/// Draws the id of a lease, so that each copy of a request grants the same one.
pub(crate) fn new_id() -> i64 {
    (random::fresh() >> 1).max(1).cast_signed()
}

/// A lease, and when its last keep-alive was sent.
type Idle = (Lease, Now);

/// Leases without a key, by their requested duration in seconds.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    idle: Arc<Mutex<HashMap<i64, Vec<Idle>>>>,
    clock: Clock,
}

impl Pool {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { idle: Arc::default(), clock }
    }

    /// Takes a lease that has not expired, and when its last keep-alive was sent.
    pub(crate) fn take(&self, asked: i64) -> Option<Idle> {
        let now = self.clock.now();
        let mut idle = self.idle();
        let leases = idle.get_mut(&asked)?;
        let (lease, alive) = leases.pop()?;
        // Less than half of its duration is too short for a new attempt.
        if Deadline::after(alive, lease.time() / 2).has_passed(now) {
            // The entries below are older.
            leases.clear();
            return None;
        }
        Some((lease, alive))
    }

    /// Keeps a lease whose key is deleted and that no request in flight refers to. Returns false if
    /// enough are kept; the caller must revoke it then.
    pub(crate) fn put(&self, asked: i64, lease: Lease, alive: Now) -> bool {
        let mut idle = self.idle();
        let leases = idle.entry(asked).or_default();
        if leases.len() >= IDLE {
            return false;
        }
        leases.push((lease, alive));
        true
    }

    /// Removes all leases, which the caller must revoke.
    pub(crate) fn drain(&self) -> Vec<Lease> {
        self.idle().drain().flat_map(|(_, leases)| leases).map(|(lease, _)| lease).collect()
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<i64, Vec<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::clock::ManualClock;

    #[test]
    fn a_lease_is_never_shorter_than_the_ttl() {
        for (ms, secs) in [(10, 1), (1_000, 1), (1_001, 2), (30_000, 30), (86_400_000, 86_400)] {
            assert_eq!(seconds(Duration::from_millis(ms)), secs);
        }
    }

    #[test]
    fn an_idle_lease_is_used_again_while_it_lasts() {
        let hand = ManualClock::new();
        let pool = Pool::new(hand.clock());
        let lease = Lease { id: 7, secs: 30 };
        assert!(pool.put(30, lease, hand.clock().now()));
        assert_eq!(pool.take(29), None);
        assert_eq!(pool.take(30).map(|(lease, _)| lease), Some(lease));
        assert_eq!(pool.take(30), None);
        assert!(pool.put(30, lease, hand.clock().now()));
        hand.advance(Duration::from_secs(15));
        assert_eq!(pool.take(30), None);
    }
}
