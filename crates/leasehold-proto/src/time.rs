//! Points in time for the machines: a reading of two clocks, and a deadline on both.

use core::fmt;
use core::num::NonZeroU64;
use core::time::Duration;

/// One reading of two clocks: a steady clock that counts suspend, and the wall clock.
///
/// Both are in nanoseconds. The origin of the steady clock is arbitrary and differs between
/// machines and boots. The wall clock counts from the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Now {
    /// The steady clock, in nanoseconds since an arbitrary point; it counts time spent in suspend.
    pub steady_ns: u64,
    /// The wall clock, in nanoseconds since the Unix epoch; it may jump.
    pub wall_ns: u64,
}

/// A moment on both clocks. It has passed as soon as one of the clocks has reached it.
///
/// A wall clock that jumps back therefore changes nothing, and a wall clock that jumps forward
/// causes at worst an early loss. The steady clock alone would miss time on machines where it stops
/// during a snapshot of the virtual machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Deadline {
    /// The time from this point to the last point of the steady clock. It is never zero, so that an
    /// `Option<Deadline>` takes no more space.
    steady_left: NonZeroU64,
    wall_ns: u64,
}

impl Now {
    /// Returns the wall clock in whole milliseconds since the Unix epoch.
    pub fn unix_ms(self) -> u64 {
        self.wall_ns / 1_000_000
    }

    /// Returns the wall clock in whole microseconds since the Unix epoch.
    pub fn unix_us(self) -> u64 {
        self.wall_ns / 1_000
    }
}

impl Deadline {
    /// Returns the moment `after` later than `now`.
    pub fn after(now: Now, after: Duration) -> Self {
        let ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        Self::at(now.steady_ns.saturating_add(ns), now.wall_ns.saturating_add(ns))
    }

    /// Returns the moment `by` later.
    #[must_use]
    pub fn later(self, by: Duration) -> Self {
        let ns = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        Self::at(self.steady_ns().saturating_add(ns), self.wall_ns.saturating_add(ns))
    }

    /// Returns the moment `by` earlier.
    #[must_use]
    pub fn earlier(self, by: Duration) -> Self {
        let ns = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        Self::at(self.steady_ns().saturating_sub(ns), self.wall_ns.saturating_sub(ns))
    }

    /// Returns the same moment on the steady clock alone: no step of the wall clock affects it.
    pub(crate) fn by_steady(self) -> Self {
        Self { wall_ns: u64::MAX, ..self }
    }

    /// Returns the time left by the clock that is further ahead; zero once the deadline has passed.
    pub fn remaining(self, now: Now) -> Duration {
        let steady = self.steady_ns().saturating_sub(now.steady_ns);
        let wall = self.wall_ns.saturating_sub(now.wall_ns);
        Duration::from_nanos(steady.min(wall))
    }

    /// Returns true if either clock has reached the deadline.
    pub fn has_passed(self, now: Now) -> bool {
        now.steady_ns >= self.steady_ns() || now.wall_ns >= self.wall_ns
    }

    /// Returns the earlier of two deadlines, clock by clock.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self::at(self.steady_ns().min(other.steady_ns()), self.wall_ns.min(other.wall_ns))
    }

    /// Returns the later of two deadlines, clock by clock.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self::at(self.steady_ns().max(other.steady_ns()), self.wall_ns.max(other.wall_ns))
    }

    /// Returns the position on the steady clock, for ordering timers.
    pub fn steady_ns(self) -> u64 {
        u64::MAX - self.steady_left.get()
    }

    /// Returns the position on the wall clock in whole milliseconds since the Unix epoch.
    pub fn unix_ms(self) -> u64 {
        self.wall_ns / 1_000_000
    }

    fn at(steady_ns: u64, wall_ns: u64) -> Self {
        let steady_left = NonZeroU64::new(u64::MAX - steady_ns).unwrap_or(NonZeroU64::MIN);
        Self { steady_left, wall_ns }
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Deadline");
        out.field("steady_ns", &self.steady_ns()).field("wall_ns", &self.wall_ns).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(steady: u64, wall: u64) -> Now {
        Now { steady_ns: steady * SECOND, wall_ns: wall * SECOND }
    }

    #[test]
    fn a_wall_clock_that_steps_back_changes_nothing() {
        let deadline = Deadline::after(at(100, 5000), Duration::from_secs(30));
        assert_eq!(deadline.remaining(at(110, 1000)), Duration::from_secs(20));
        assert!(deadline.has_passed(at(130, 1000)));
    }

    #[test]
    fn a_wall_clock_that_steps_forward_ends_it_early() {
        let deadline = Deadline::after(at(100, 5000), Duration::from_secs(30));
        assert!(deadline.has_passed(at(101, 6000)));
        assert_eq!(deadline.remaining(at(101, 6000)), Duration::ZERO);
    }
}
