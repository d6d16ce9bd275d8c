//! The clock of one process: a rate, an offset, and jumps of its wall clock.

use leasehold_proto::{Deadline, Now};

/// The wall clock at the beginning: far enough from zero to be set back.
const EPOCH: u64 = 1_000_000 * super::SECOND;

/// One clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// How fast it is, in millionths more than true time.
    pub(super) ppm: i64,
    /// How far the wall clock is off.
    pub(super) wall: i64,
    /// How far the steady clock is off.
    pub(super) steady: i64,
}

impl Clock {
    pub(super) fn read(&self, time: u64) -> Now {
        let drift = (time as i64).saturating_mul(self.ppm).div_euclid(1_000_000);
        let local = time.saturating_add_signed(drift);
        Now {
            steady_ns: local.saturating_add_signed(self.steady),
            wall_ns: (EPOCH + local).saturating_add_signed(self.wall),
        }
    }

    /// The true time at which a deadline has passed by this clock, if it does not jump.
    pub(super) fn when(&self, time: u64, deadline: Deadline) -> u64 {
        self.since(time, self.read(time), deadline)
    }

    /// Does the same for a caller that has just read this clock.
    pub(super) fn since(&self, time: u64, now: Now, deadline: Deadline) -> u64 {
        let left = u64::try_from(deadline.remaining(now).as_nanos()).unwrap_or(u64::MAX);
        let rate = (1_000_000 + self.ppm).unsigned_abs().max(1);
        // Division of 128 bits is slow, and needed for hours alone.
        let left = match left.checked_mul(1_000_000) {
            Some(left) => left / rate,
            None => {
                u64::try_from(u128::from(left) * 1_000_000 / u128::from(rate)).unwrap_or(u64::MAX)
            }
        };
        time.saturating_add(left).saturating_add(2)
    }
}
