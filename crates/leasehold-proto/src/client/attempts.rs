//! How many attempts one call makes whose grants arrive too late.

use core::time::Duration;

use crate::Backoff;

/// The first and longest pause before another attempt.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));

/// Counts the attempts of one call. Each ended before its grant arrived.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempts {
    made: u32,
    pauses: Backoff,
}

impl Attempts {
    /// After this many attempts whose grants arrived too late, the call fails.
    pub const MAX: u32 = 4;

    /// Begins with the first attempt.
    #[allow(clippy::new_without_default, reason = "it counts the first attempt")]
    pub fn new() -> Self {
        Self { made: 1, pauses: Backoff::new(PAUSES.0, PAUSES.1) }
    }

    /// Begins another attempt. Returns how long to wait before it asks, or `None` if the call fails
    /// instead. The second attempt asks at once. `bits` draws random bits.
    pub fn next(&mut self, bits: impl FnOnce() -> u64) -> Option<Duration> {
        self.made += 1;
        match self.made {
            2 => Some(Duration::ZERO),
            made if made > Self::MAX => None,
            _ => Some(self.pauses.next(bits())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_attempt_asks_at_once_and_there_is_no_fifth() {
        let mut attempts = Attempts::new();
        let pauses: Vec<_> = (0..4).map(|_| attempts.next(|| u64::MAX)).collect();
        let almost = |ms: u64| Duration::from_millis(ms) - Duration::from_nanos(1);
        assert_eq!(pauses, [Some(Duration::ZERO), Some(almost(2)), Some(almost(4)), None]);
    }
}
