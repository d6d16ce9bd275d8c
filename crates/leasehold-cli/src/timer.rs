//! Timers on the clock that counts suspend.

use std::time::Duration;

use leasehold::Deadline;
use leasehold::clock::Clock;

/// Returns the moment this much later than now.
pub(crate) fn after(pause: Duration) -> Deadline {
    Deadline::after(Clock::system().now(), pause)
}

/// Returns true if a moment has come.
pub(crate) fn has_come(moment: Deadline) -> bool {
    moment.has_passed(Clock::system().now())
}

/// Returns the time left to a moment.
pub(crate) fn left(moment: Deadline) -> Duration {
    moment.remaining(Clock::system().now())
}

/// Waits for a moment; without one, forever.
pub(crate) async fn until(moment: Option<Deadline>) {
    match moment {
        Some(moment) => Clock::system().sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Returns the clock that counts suspend, in nanoseconds; the same for all processes of this
/// machine.
pub(crate) fn now_steady_ns() -> u64 {
    Clock::system().now().steady_ns
}

/// Returns the wall clock, in milliseconds since the Unix epoch.
pub(crate) fn now_unix_ms() -> u64 {
    Clock::system().now().unix_ms()
}
