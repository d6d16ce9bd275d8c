//! A circuit breaker: sends no calls to Redis while it is down.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::proto::Deadline;

/// How many failures in a row open the breaker.
const FAILURES: u32 = 3;
/// How long the breaker stays open before one call may try.
const PAUSE: Duration = Duration::from_millis(500);

/// A circuit breaker: after some failures in a row, calls fail at once during a pause, then one
/// call may try.
#[derive(Debug)]
pub(crate) struct Breaker {
    clock: Clock,
    state: Mutex<State>,
}

/// The change that the result of a call made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Opened,
    Closed,
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

    /// Returns the time until one call may try.
    pub(crate) fn pause_left(&self) -> Duration {
        let until = self.state().open_until;
        until.map_or(Duration::ZERO, |until| until.remaining(self.clock.now()))
    }

    /// Returns true if a call may be made now. After a pause, only one caller gets true.
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

    /// Records the result of a call. Returns whether that opened or closed the breaker.
    pub(crate) fn note(&self, well: bool) -> Option<Change> {
        let mut state = self.state();
        let was_open = state.open_until.is_some();
        if well {
            *state = State::default();
            return was_open.then_some(Change::Closed);
        }
        state.failures = state.failures.saturating_add(1);
        if state.failures < FAILURES {
            return None;
        }
        state.open_until = Some(Deadline::after(self.clock.now(), PAUSE));
        (!was_open).then_some(Change::Opened)
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
        let mut opened = None;
        for _ in 0..FAILURES {
            assert_eq!(opened, None);
            assert!(breaker.lets_through());
            opened = breaker.note(false);
        }
        assert_eq!(opened, Some(Change::Opened));
        assert_eq!(breaker.note(false), None, "it was open");
        assert!(!breaker.lets_through());
        clock.advance(PAUSE);
        assert!(breaker.lets_through(), "one may try");
        assert!(!breaker.lets_through(), "and no other");
        assert_eq!(breaker.note(true), Some(Change::Closed));
        assert_eq!(breaker.note(true), None);
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
