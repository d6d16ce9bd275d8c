//! Moments on the steady clock, which a jump of the wall clock does not move.

use std::time::Duration;

use leasehold::clock::Clock;
use serde_json::{Value, json};

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

/// A validity that a client is sent, for a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validity {
    /// When the request was received.
    pub(crate) received: Moment,
    /// When the validity ends.
    pub(crate) until: Moment,
    pub(crate) now: Moment,
}

impl Validity {
    /// Returns how long it lasts from now, and from the request on.
    pub(crate) fn json(self) -> Value {
        json!({
            "valid_for_ms": ms(self.until.since(self.now)),
            "valid_until_ms": ms(self.until.since(self.received)),
        })
    }
}

/// Returns whole milliseconds.
pub(crate) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_before_the_answer_shortens_what_is_left_and_never_moves_the_end() {
        let received = Moment(0);
        let until = received.later(Duration::from_secs(3));
        for (paused, left) in [(0, 3_000), (2, 1_000), (5, 0)] {
            let now = received.later(Duration::from_secs(paused));
            let json = Validity { received, until, now }.json();
            assert_eq!(json, json!({ "valid_for_ms": left, "valid_until_ms": 3_000 }));
        }
    }
}
