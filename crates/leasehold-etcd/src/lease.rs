//! Leases of etcd: one for each attempt, used again when the attempt before has certainly ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::{Deadline, Now};

/// Idle leases that are kept, of each length. Nobody renews them, so those that are not needed again
/// soon end by themselves.
const IDLE: usize = 10_000;

/// A lease that the server has granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) id: i64,
    /// How long it lasts after each keep-alive, in whole seconds, as the server says.
    pub(crate) secs: i64,
}

impl Lease {
    /// How long it lasts after each keep-alive.
    pub(crate) fn time(self) -> Duration {
        Duration::from_secs(u64::try_from(self.secs).unwrap_or(0))
    }
}

/// The whole seconds that a lease for this ttl is asked for: never fewer than the ttl.
pub(crate) fn seconds(ttl: Duration) -> i64 {
    let up = u64::from(ttl.subsec_nanos() > 0);
    i64::try_from(ttl.as_secs() + up).unwrap_or(i64::MAX).max(1)
}

/// A lease, and when it was last asked to live on.
type Idle = (Lease, Now);

/// Leases without a key, by the seconds that they were asked for.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    idle: Arc<Mutex<HashMap<i64, Vec<Idle>>>>,
    clock: Clock,
}

impl Pool {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { idle: Arc::default(), clock }
    }

    /// One that has not ended, and when it was last asked to live on.
    pub(crate) fn take(&self, asked: i64) -> Option<Idle> {
        let now = self.clock.now();
        let mut idle = self.idle();
        let leases = idle.get_mut(&asked)?;
        let (lease, alive) = leases.pop()?;
        // What is left of the last half of its time is too short to begin with.
        if Deadline::after(alive, lease.time() / 2).has_passed(now) {
            // Those below were put there earlier.
            leases.clear();
            return None;
        }
        Some((lease, alive))
    }

    /// Keeps a lease whose key is gone, and was never asked for by a request that may still be on
    /// its way. False when there are enough: revoke it.
    pub(crate) fn put(&self, asked: i64, lease: Lease, alive: Now) -> bool {
        let mut idle = self.idle();
        let leases = idle.entry(asked).or_default();
        if leases.len() >= IDLE {
            return false;
        }
        leases.push((lease, alive));
        true
    }

    /// All of them, to be revoked.
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
