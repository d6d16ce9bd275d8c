//! When a client has last extended the time of the limits that it uses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_core::{Deadline, Now};

/// A client extends the time of a limit at most this often.
const EXTEND: Duration = Duration::from_secs(600);
/// The number of limits whose last extension a client remembers.
const REMEMBERED: usize = 10_000;

/// When this client has last extended the time of each limit, by its lease.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptLimits(Arc<Mutex<HashMap<i64, Now>>>);

impl KeptLimits {
    /// Returns true if the time of a limit is to be extended now.
    pub(crate) fn is_due(&self, lease: i64, now: Now) -> bool {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |kept: &Now| !Deadline::after(*kept, EXTEND).has_passed(now);
        if lease == 0 || kept.get(&lease).is_some_and(is_fresh) {
            return false;
        }
        if kept.len() >= REMEMBERED {
            kept.retain(|_, kept| is_fresh(kept));
        }
        kept.insert(lease, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::clock::ManualClock;

    use super::*;

    #[test]
    fn a_limit_is_extended_once_in_ten_minutes() {
        let hand = ManualClock::new();
        let kept = KeptLimits::default();
        assert!(!kept.is_due(0, hand.clock().now()), "a limit without an end");
        assert!(kept.is_due(7, hand.clock().now()));
        assert!(!kept.is_due(7, hand.clock().now()));
        assert!(kept.is_due(8, hand.clock().now()));
        hand.advance(EXTEND);
        assert!(kept.is_due(7, hand.clock().now()));
    }
}
