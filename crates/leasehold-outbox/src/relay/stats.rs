//! Counts what a relay has done, and what is left to do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The counts of a [`Relay`](crate::Relay) since it was created, and the state at its last check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayStats {
    /// Rows that were delivered and deleted.
    pub delivered: u64,
    /// Rows that were refused; each is retried, and parked after the last try.
    pub refused: u64,
    /// Rows that this relay has parked.
    pub parked: u64,
    /// Batches that failed as a whole: the database or the transport could not be reached.
    pub failures: u64,
    /// Rows that are parked in the table.
    pub parked_rows: u64,
    /// The age of the oldest row that is not parked; zero if there is none.
    pub oldest: Duration,
    /// The error of the last batch; `None` if it did not fail.
    pub problem: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    delivered: AtomicU64,
    refused: AtomicU64,
    parked: AtomicU64,
    failures: AtomicU64,
    parked_rows: AtomicU64,
    oldest_us: AtomicU64,
    problem: Mutex<Option<String>>,
}

impl Counters {
    pub(super) fn batch(&self, delivered: usize, refused: usize, parked: usize) {
        let count = |counter: &AtomicU64, name: &'static str, by: usize| {
            counter.fetch_add(by as u64, Ordering::Relaxed);
            metrics::counter!(name).increment(by as u64);
        };
        count(&self.delivered, "leasehold_cache_outbox_delivered_total", delivered);
        count(&self.refused, "leasehold_cache_outbox_refused_total", refused);
        count(&self.parked, "leasehold_cache_outbox_parked_total", parked);
    }

    pub(super) fn well(&self) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns true if the previous batch did not fail.
    pub(super) fn failed(&self, problem: String) -> bool {
        self.failures.fetch_add(1, Ordering::Relaxed);
        metrics::counter!("leasehold_cache_outbox_failures_total").increment(1);
        let mut last = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        last.replace(problem).is_none()
    }

    pub(super) fn saw(&self, oldest: Duration, parked: u64) {
        let us = u64::try_from(oldest.as_micros()).unwrap_or(u64::MAX);
        self.oldest_us.store(us, Ordering::Relaxed);
        self.parked_rows.store(parked, Ordering::Relaxed);
        metrics::gauge!("leasehold_cache_outbox_oldest_seconds").set(oldest.as_secs_f64());
        metrics::gauge!("leasehold_cache_outbox_parked").set(parked as f64);
    }

    pub(super) fn stats(&self) -> RelayStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RelayStats {
            delivered: read(&self.delivered),
            refused: read(&self.refused),
            parked: read(&self.parked),
            failures: read(&self.failures),
            parked_rows: read(&self.parked_rows),
            oldest: Duration::from_micros(read(&self.oldest_us)),
            problem: self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
