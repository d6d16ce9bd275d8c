//! How long a waiter polls without pauses, on a database that does not notify.

use std::time::Duration;

use leasehold_core::{Name, Now};

use super::{State, nanos};

/// A waiter polls without a pause for this long, unless the database is a file: a client that asks and releases
/// at once has the lock for a shorter time than any timer measures.
const HURRIED: Duration = Duration::from_millis(1);
/// The same for a lock whose last wait was shorter than this: a hand-off takes several packets.
const SWIFT: Duration = Duration::from_millis(4);

/// What is known of a name for which a task waited lately.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contended {
    /// How many releases without a waiter end that.
    pub(super) calm: u8,
    /// The last wait was short.
    swift: bool,
}

impl State {
    /// Records that a local waiter has its turn.
    pub(super) fn note_turn(&mut self, name: &Name, now: Now) {
        let swift = self.waited(now) < nanos(SWIFT);
        if let Some(contended) = self.contended.get_mut(name) {
            contended.swift = swift;
        }
    }

    /// Returns true if the last waiter has begun to wait so recently that a poll follows the other.
    pub(super) fn hurries(&self, now: Now) -> bool {
        let swift = |name: &Name| self.contended.get(name).is_some_and(|contended| contended.swift);
        let waited = self.waited(now);
        waited < nanos(HURRIED) || waited < nanos(SWIFT) && self.waiting.values().any(swift)
    }

    /// Returns how many nanoseconds ago the last waiter began to wait.
    fn waited(&self, now: Now) -> u64 {
        now.steady_ns.saturating_sub(self.waits_since.steady_ns)
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::clock::ManualClock;
    use leasehold_core::{AttemptId, ClientId};

    use super::super::CALM;
    use super::*;

    /// Waits for the lock for this long, and gets it. Returns whether a poll followed the other until then.
    fn wait(state: &mut State, clock: &ManualClock, name: &Name, time: Duration) -> bool {
        let attempt = AttemptId::new(ClientId::from_bits(1), 1, 1);
        state.waits_since = clock.clock().now();
        state.waiting.insert(attempt, name.clone());
        state.contended.entry(name.clone()).or_default().calm = CALM;
        clock.advance(time);
        let hurries = state.hurries(clock.clock().now());
        state.note_turn(name, clock.clock().now());
        state.leave(attempt);
        hurries
    }

    #[test]
    fn only_behind_a_short_wait_a_waiter_polls_for_longer_without_pauses() {
        let clock = ManualClock::new();
        let mut state = State::default();
        let (name, other) = (Name::new("a").unwrap(), Name::new("b").unwrap());
        let ms = Duration::from_millis;
        assert!(wait(&mut state, &clock, &name, ms(1) / 2));
        // The wait before was short.
        assert!(wait(&mut state, &clock, &name, ms(3)));
        assert!(!wait(&mut state, &clock, &other, ms(3)), "it is another lock");
        assert!(!wait(&mut state, &clock, &name, ms(5)));
        // The wait before was long.
        assert!(!wait(&mut state, &clock, &name, ms(3)));
        assert!(wait(&mut state, &clock, &name, ms(1) / 2));
    }
}
