//! The retry schedule: exponential back-off with full jitter; random bits are arguments.

use core::time::Duration;

/// Computes exponential back-off with "full jitter": each pause is drawn evenly between zero and a
/// bound that doubles from `base` to `cap`.
///
/// Source: Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    round: u32,
}

impl Backoff {
    /// Creates a schedule whose first pause is at most `base` and whose later pauses are at most
    /// `cap`.
    pub fn new(base: Duration, cap: Duration) -> Self {
        Self { base: base.min(cap), cap, round: 0 }
    }

    /// Returns the next pause. `bits` (64 random bits) choose it between zero and the bound of the
    /// round.
    pub fn next(&mut self, bits: u64) -> Duration {
        let bound = self.bound();
        self.round = self.round.saturating_add(1);
        let ns = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(((u128::from(ns) * u128::from(bits)) >> 64) as u64)
    }

    /// Returns the longest possible next pause.
    pub fn bound(&self) -> Duration {
        let factor = 1u32.checked_shl(self.round).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.cap)
    }

    /// Records how long the connection was up. After at least the longest pause, pauses start again
    /// from the first.
    pub fn lasted(&mut self, time: Duration) {
        if time >= self.cap {
            self.reset();
        }
    }

    /// Starts again from the first pause, after a success.
    pub fn reset(&mut self) {
        self.round = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_stay_below_a_bound_that_doubles_to_the_cap() {
        let mut backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(5));
        let bounds: Vec<_> = (0..5)
            .map(|_| {
                let bound = backoff.bound().as_millis();
                assert!(backoff.next(u64::MAX).as_millis() <= bound);
                bound
            })
            .collect();
        assert_eq!(bounds, [1, 2, 4, 5, 5]);
        assert_eq!(backoff.next(0), Duration::ZERO);
        backoff.reset();
        assert_eq!(backoff.bound().as_millis(), 1);
    }

    #[test]
    fn only_what_has_lasted_starts_the_pauses_again() {
        let mut backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(5));
        for _ in 0..5 {
            backoff.next(0);
            backoff.lasted(Duration::from_millis(4));
        }
        assert_eq!(backoff.bound().as_millis(), 5);
        backoff.lasted(Duration::from_millis(5));
        assert_eq!(backoff.bound().as_millis(), 1);
    }

    #[test]
    fn a_thousand_rounds_do_not_overflow() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::MAX);
        for _ in 0..1000 {
            backoff.next(u64::MAX);
        }
    }
}
