//! Moments on the steady clock, which a jump of the wall clock does not move.

use std::time::Duration;

use leasehold::clock::Clock;

/// A moment on the steady clock.
///
/// A [`leasehold::Deadline`] passes early if the wall clock jumps forward. A lease that a client
/// was promised must not end early, so this server counts by the steady clock alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Returns the current moment.
    pub(crate) fn now(clock: &Clock) -> Self {
        Self(clock.now().steady_ns)
    }

    /// Returns the moment this much later.
    pub(crate) fn later(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Returns the time since an earlier moment.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Waits until it has passed.
    pub(crate) async fn passed(self, clock: &Clock) {
        loop {
            let left = self.since(Self::now(clock));
            if left.is_zero() {
                return;
            }
            clock.sleep(left).await;
        }
    }
}

/// Returns whole milliseconds.
pub(crate) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
