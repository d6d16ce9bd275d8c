//! How long a waiter may wait at worst, according to `docs/redis.md`.

use std::time::Duration;

use super::watch::{Span, Watch};
use super::{PROCESSES, TTL};

/// The turns of the processes ahead, each 20 ms plus the hand-off. A process with more tasks than
/// one turn can serve takes several rounds. The bound allows for a busy machine.
const ROUNDS: Duration = Duration::from_millis(PROCESSES as u64 * 50 * 6);
/// A connection is re-established within a second; a task whose turn came meanwhile waits for
/// another round.
pub(super) const CUT: Duration = Duration::from_millis(1000 + PROCESSES as u64 * 50);
/// The same, and a third of the ttl until it is detected, and the lease of a holder that was cut
/// off.
pub(super) const RESTART: Duration = CUT.saturating_add(TTL).saturating_add(TTL);

/// The events so far, and the longest wait relative to its bound.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    disturbed: Vec<(Span, Duration)>,
    /// The largest share of its bound that a wait has used.
    pub(crate) nearest: f64,
}

impl Bound {
    /// Records an event in this time that may cost this much more.
    pub(crate) fn disturbed(&mut self, when: Span, costs: Duration) {
        self.disturbed.push((when, costs));
    }

    /// Returns the bound of a wait: its rounds, the cost of all events in its time, and all the
    /// time in which the holders were dead or stopped.
    pub(crate) fn check(&mut self, who: &str, wait: Span, watch: &Watch) {
        // An event shortly before may still cost time.
        let begins = wait.0.saturating_sub(RESTART.as_micros() as u64);
        let met = self.disturbed.iter().filter(|((from, to), _)| *from < wait.1 && *to > begins);
        let events: Duration = met
            .map(|((from, to), costs)| costs.saturating_add(Duration::from_micros(to - from)))
            .sum();
        let allowed = ROUNDS + events + watch.stalled_within((begins, wait.1));
        let waited = Duration::from_micros(wait.1 - wait.0);
        self.nearest = self.nearest.max(waited.as_secs_f64() / allowed.as_secs_f64());
        assert!(
            waited <= allowed,
            "{who} has waited for {waited:?}; {allowed:?} was to be the most"
        );
    }
}
