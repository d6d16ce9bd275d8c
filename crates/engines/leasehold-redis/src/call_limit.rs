//! How long a call to the server may take.

use std::time::Duration;

use leasehold_core::Deadline;
use leasehold_core::clock::Clock;

/// The bounds of the time limit of one call, which is a third of the ttl within them.
pub(crate) const LIMITS: (Duration, Duration) =
    (Duration::from_millis(200), Duration::from_secs(5));

/// Returns the time limit of one call.
pub(crate) fn limit(ttl: Duration) -> Duration {
    (ttl / 3).clamp(LIMITS.0, LIMITS.1)
}

/// Returns the limit of the second call for a request that was to be sent by `until`, in a batch. A call
/// in a batch takes its limit twice at most, and a second call, which is made alone, takes it once: both
/// end within the time that one call may take.
pub(crate) fn rest(clock: &Clock, until: Deadline, limit: Duration) -> Duration {
    let now = clock.now();
    let late = now.steady_ns.saturating_sub(until.steady_ns());
    let left = until.remaining(now) + (2 * LIMITS.1).saturating_sub(limit);
    limit.min(left.saturating_sub(Duration::from_nanos(late)))
}

#[cfg(test)]
mod tests {
    use leasehold_core::clock::ManualClock;

    use super::*;

    #[test]
    fn two_calls_of_one_request_end_within_the_time_of_one() {
        for (limit, passed, left) in [
            (5_000, 0, 5_000),
            (5_000, 4_000, 5_000),
            (5_000, 7_000, 3_000),
            (5_000, 10_000, 0),
            (200, 400, 200),
            (200, 9_900, 100),
        ] {
            let (manual, limit) = (ManualClock::new(), Duration::from_millis(limit));
            let until = Deadline::after(manual.clock().now(), limit);
            manual.advance(Duration::from_millis(passed));
            assert_eq!(rest(&manual.clock(), until, limit), Duration::from_millis(left));
        }
    }
}
