//! How many rounds of requests the grants of a quorum needed, by the client's own metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use leasehold::telemetry::QUORUM_GRANTS;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

/// Grants with one round, and with two.
static GRANTS: LazyLock<[Arc<AtomicU64>; 2]> = LazyLock::new(Default::default);

/// Grants of all clients of this process that were made after [`Rounds::count`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    one: u64,
    two: u64,
}

impl Rounds {
    /// Begins to count. A program that records metrics itself keeps its recorder, and nothing is
    /// counted here.
    pub(crate) fn count() {
        metrics::set_global_recorder(Grants).ok();
    }

    /// All until now.
    pub(crate) fn so_far() -> Self {
        let [one, two] = [0, 1].map(|at: usize| GRANTS[at].load(Ordering::Relaxed));
        Self { one, two }
    }

    /// The share of those with one round among all since then; `None` when there were none.
    pub(crate) fn share_of_one_since(self, before: Self) -> Option<f64> {
        let (one, two) = (self.one - before.one, self.two - before.two);
        (one + two > 0).then(|| one as f64 / (one + two) as f64)
    }
}

/// Records these counters and nothing else.
struct Grants;

impl Recorder for Grants {
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let rounds = key.labels().find(|label| label.key() == "rounds").map(metrics::Label::value);
        match (key.name(), rounds) {
            (QUORUM_GRANTS, Some("1")) => Counter::from_arc(GRANTS[0].clone()),
            (QUORUM_GRANTS, Some(_)) => Counter::from_arc(GRANTS[1].clone()),
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }

    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
}
