//! How long somebody may have to wait at worst, as `docs/redis.md` says.

use std::time::Duration;

use super::watch::{Span, Watch};
use super::{PROCESSES, TTL};

/// The turns of the processes ahead, each 20 ms and what it takes to hand on; a process with more
/// tasks than one turn has room for takes several rounds. Room for a busy machine is in it.
const ROUNDS: Duration = Duration::from_millis(PROCESSES as u64 * 50 * 6);
/// A connection is made anew within a second; whose turn it was meanwhile waits for another round.
pub(super) const CUT: Duration = Duration::from_millis(1000 + PROCESSES as u64 * 50);
/// The same, and a third of the ttl until it is noticed, and the lease of a holder that has been
/// cut off.
pub(super) const RESTART: Duration = CUT.saturating_add(TTL).saturating_add(TTL);

/// What has happened, and the longest wait beside what was allowed.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    disturbed: Vec<(Span, Duration)>,
    /// The share of what was allowed that a wait has come to.
    pub(crate) nearest: f64,
}

impl Bound {
    /// Something happened in this time that may cost so much more.
    pub(crate) fn disturbed(&mut self, when: Span, costs: Duration) {
        self.disturbed.push((when, costs));
    }

    /// A wait may take its rounds, what everything in its time has cost, and all the time in which
    /// those who had the lock were dead or stopped.
    pub(crate) fn check(&mut self, who: &str, wait: Span, watch: &Watch) {
        // What happened shortly before may still cost.
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
