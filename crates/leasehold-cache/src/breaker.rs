//! Leaves Redis alone while it is down.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::proto::Deadline;

/// Failures in a row that open the breaker.
const FAILURES: u32 = 3;
/// How long it stays open before one call may try.
const PAUSE: Duration = Duration::from_millis(500);

/// A circuit breaker: after some failures in a row nobody calls for a while, then one may try.
#[derive(Debug)]
pub(crate) struct Breaker {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    open_until: Option<Deadline>,
}

impl Breaker {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, state: Mutex::default() }
    }

    /// Whether a call may be made now. Of those that ask when the pause is over, one may.
    pub(crate) fn lets_through(&self) -> bool {
        let mut state = self.state();
        let Some(until) = state.open_until else { return true };
        let now = self.clock.now();
        let over = until.has_passed(now);
        if over {
            state.open_until = Some(Deadline::after(now, PAUSE));
        }
        over
    }

    /// What became of a call.
    pub(crate) fn note(&self, well: bool) {
        let mut state = self.state();
        if well {
            *state = State::default();
            return;
        }
        state.failures = state.failures.saturating_add(1);
        if state.failures >= FAILURES {
            state.open_until = Some(Deadline::after(self.clock.now(), PAUSE));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::clock::ManualClock;

    use super::*;

    #[test]
    fn after_failures_in_a_row_one_call_a_pause_may_try() {
        let clock = ManualClock::new();
        let breaker = Breaker::new(clock.clock());
        for _ in 0..FAILURES {
            assert!(breaker.lets_through());
            breaker.note(false);
        }
        assert!(!breaker.lets_through());
        clock.advance(PAUSE);
        assert!(breaker.lets_through(), "one may try");
        assert!(!breaker.lets_through(), "and no other");
        breaker.note(true);
        assert!(breaker.lets_through() && breaker.lets_through());
    }

    #[test]
    fn a_success_in_between_counts_from_nought() {
        let breaker = Breaker::new(ManualClock::new().clock());
        for _ in 0..10 {
            breaker.note(false);
            breaker.note(false);
            breaker.note(true);
        }
        assert!(breaker.lets_through());
    }
}
