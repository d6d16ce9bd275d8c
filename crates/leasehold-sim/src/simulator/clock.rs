//! A clock of somebody's own: a rate, an offset, and jumps of its wall clock.

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
        let local = (i128::from(time) * i128::from(1_000_000 + self.ppm) / 1_000_000) as u64;
        Now {
            steady_ns: local.saturating_add_signed(self.steady),
            wall_ns: (EPOCH + local).saturating_add_signed(self.wall),
        }
    }

    /// The true time at which a deadline has passed by this clock, if it does not jump.
    pub(super) fn when(&self, time: u64, deadline: Deadline) -> u64 {
        let left = deadline.remaining(self.read(time)).as_nanos();
        let left = left * 1_000_000 / u128::from((1_000_000 + self.ppm).unsigned_abs().max(1));
        time.saturating_add(u64::try_from(left).unwrap_or(u64::MAX)).saturating_add(2)
    }
}
