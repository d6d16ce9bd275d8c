//! The attempts of this client that have ended, with their results: the table does not tell.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use leasehold_core::AttemptId;
use leasehold_core::backend::{EndedAttempts, Verdict};
use leasehold_core::clock::Clock;

/// The results of releases.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<(HashMap<AttemptId, Verdict>, EndedAttempts)>);

impl Attempts {
    /// Returns the result of an attempt that has ended.
    pub(super) fn ended(&self, attempt: AttemptId) -> Option<Verdict> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.get(&attempt).copied()
    }

    /// Notes that an attempt has ended.
    pub(super) fn end(&self, attempt: AttemptId, verdict: Verdict, clock: &Clock) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, ended) = &mut *table;
        if known.insert(attempt, verdict).is_none() {
            ended.push(clock.now(), attempt);
        }
        while let Some(oldest) = ended.pop_due(clock.now()) {
            known.remove(&oldest);
        }
    }
}
