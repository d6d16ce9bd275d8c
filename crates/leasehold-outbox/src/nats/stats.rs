//! Counts what a receiver has done, and what is left to do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The counts of a [`Receiver`](super::Receiver) since it was created, and the state at its last
/// check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiverStats {
    /// Messages that were applied and acknowledged.
    pub applied: u64,
    /// Messages that were refused; each is retried, and dropped after its last try.
    pub refused: u64,
    /// Messages that this receiver has dropped; the stream keeps them for as long as its limits
    /// allow.
    pub given_up: u64,
    /// Batches that failed as a whole: NATS or the Redis server of the cache could not be reached.
    pub failures: u64,
    /// Messages that wait in the stream.
    pub waiting: u64,
    /// The age of the oldest message that the receiver has taken and not applied, by the clocks of
    /// the two machines; zero if there is none.
    pub oldest: Duration,
    /// The error of the last batch; `None` if it did not fail.
    pub problem: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    applied: AtomicU64,
    refused: AtomicU64,
    given_up: AtomicU64,
    failures: AtomicU64,
    waiting: AtomicU64,
    oldest_ms: AtomicU64,
    problem: Mutex<Option<String>>,
}

impl Counters {
    pub(super) fn batch(&self, applied: usize, refused: usize, given_up: usize) {
        let count = |counter: &AtomicU64, name: &'static str, by: usize| {
            let by = by as u64;
            counter.fetch_add(by, Ordering::Relaxed);
            metrics::counter!(name).increment(by);
        };
        count(&self.applied, "leasehold_cache_receiver_applied_total", applied);
        count(&self.refused, "leasehold_cache_receiver_refused_total", refused);
        count(&self.given_up, "leasehold_cache_receiver_given_up_total", given_up);
    }

    pub(super) fn well(&self) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns true if the previous batch did not fail.
    pub(super) fn failed(&self, problem: String) -> bool {
        self.failures.fetch_add(1, Ordering::Relaxed);
        metrics::counter!("leasehold_cache_receiver_failures_total").increment(1);
        let mut last = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        last.replace(problem).is_none()
    }

    pub(super) fn oldest(&self, oldest: Duration) {
        let ms = u64::try_from(oldest.as_millis()).unwrap_or(u64::MAX);
        self.oldest_ms.store(ms, Ordering::Relaxed);
        metrics::gauge!("leasehold_cache_receiver_oldest_seconds").set(oldest.as_secs_f64());
    }

    pub(super) fn behind(&self, waiting: u64) {
        self.waiting.store(waiting, Ordering::Relaxed);
        metrics::gauge!("leasehold_cache_receiver_waiting").set(waiting as f64);
    }

    pub(super) fn stats(&self) -> ReceiverStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ReceiverStats {
            applied: read(&self.applied),
            refused: read(&self.refused),
            given_up: read(&self.given_up),
            failures: read(&self.failures),
            waiting: read(&self.waiting),
            oldest: Duration::from_millis(read(&self.oldest_ms)),
            problem: self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
