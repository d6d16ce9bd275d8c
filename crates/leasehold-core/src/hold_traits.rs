//! What most holds have in common, in two bytes of each: what a loss does, whether a request was never
//! answered, and for how long the client caches the lease.

use std::time::Duration;

use crate::OnLoss;

/// From the lowest bit on: two bits for what a loss does, one bit for a request without an answer, 13
/// bits for a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HoldTraits(u16);

const SUSPECT: u16 = 4;
/// The position of the time.
const TIME: u32 = 3;
/// The smallest step of the time. It is stored as a number of steps with nine binary digits, the first
/// of which is not written, and an exponent: 1 ms to more than a day, at most 0.4 % too short.
const STEP_NS: u64 = 3_906;
const DIGITS: u32 = 8;

impl HoldTraits {
    pub(crate) fn new(suspect: bool) -> Self {
        Self(if suspect { SUSPECT } else { 0 })
    }

    pub(crate) fn is_suspect(self) -> bool {
        self.0 & SUSPECT != 0
    }

    pub(crate) fn on_loss(self) -> OnLoss {
        match self.0 & 3 {
            1 => OnLoss::Notify,
            2 => OnLoss::Abort,
            _ => OnLoss::Cancel,
        }
    }

    pub(crate) fn set_on_loss(&mut self, on_loss: OnLoss) {
        let bits = match on_loss {
            OnLoss::Cancel => 0,
            OnLoss::Notify => 1,
            OnLoss::Abort => 2,
        };
        self.0 = self.0 & !3 | bits;
    }

    /// Returns for how long the lease is cached; zero if it is not.
    pub(crate) fn cache(self) -> Duration {
        let time = self.0 >> TIME;
        let (exponent, digits) = (u32::from(time >> DIGITS), u64::from(time & 0xff));
        match exponent.checked_sub(1) {
            Some(exponent) => Duration::from_nanos(((digits | 0x100) << exponent) * STEP_NS),
            None => Duration::ZERO,
        }
    }

    /// Sets for how long the lease is cached: zero, or 1 ms to a day.
    pub(crate) fn set_cache(&mut self, time: Duration) {
        let steps = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) / STEP_NS;
        let time = match steps.max(1).ilog2().checked_sub(DIGITS) {
            Some(exponent) if exponent < 31 => {
                let digits = (steps >> exponent) & 0xff;
                ((exponent + 1) << DIGITS) as u16 | digits as u16
            }
            Some(_) => u16::MAX >> TIME,
            None => 0,
        };
        self.0 = self.0 & !(u16::MAX << TIME) | time << TIME;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_little_shorter_and_the_others_stay() {
        for suspect in [false, true] {
            let mut traits = HoldTraits::new(suspect);
            for on_loss in [OnLoss::Notify, OnLoss::Abort, OnLoss::Cancel] {
                traits.set_on_loss(on_loss);
                for ms in [0, 1, 2, 10, 250, 999, 1_000, 1_001, 60_000, 86_400_000] {
                    let time = Duration::from_millis(ms);
                    traits.set_cache(time);
                    assert!(traits.cache() <= time, "{time:?}: {:?}", traits.cache());
                    assert!(traits.cache() >= time - time / 250, "{time:?}: {:?}", traits.cache());
                }
                assert_eq!((traits.is_suspect(), traits.on_loss()), (suspect, on_loss));
            }
        }
    }
}
