//! The attempts of a client that hold a lock, and how those that have ended did.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_core::backend::{EndedAttempts, Origin, Verdict};
use leasehold_core::{AttemptId, Deadline, Now, Token};

/// The attempts of one client.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// The number of the last round.
    round: u32,
    held: HashMap<AttemptId, Held>,
    /// The servers that may still receive a request of an attempt, by their numbers.
    suspects: HashMap<AttemptId, Vec<bool>>,
    ended: HashMap<AttemptId, Verdict>,
    order: EndedAttempts,
}

/// A lease.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// The value of the round that acquired it.
    pub(super) me: String,
    pub(super) token: Token,
    /// Until then a majority surely has the lease.
    pub(super) until: Deadline,
    pub(super) origin: Arc<Origin>,
}

impl Attempts {
    /// Returns the number of the next round.
    pub(super) fn next_round(&self) -> u32 {
        let mut table = self.lock();
        table.round = table.round.wrapping_add(1);
        table.round
    }

    pub(super) fn hold(&self, attempt: AttemptId, held: Held) {
        self.lock().held.insert(attempt, held);
    }

    pub(super) fn held(&self, attempt: AttemptId) -> Option<Held> {
        self.lock().held.get(&attempt).cloned()
    }

    /// Notes that the lease lasts until then.
    pub(super) fn extend(&self, attempt: AttemptId, until: Deadline) {
        if let Some(held) = self.lock().held.get_mut(&attempt) {
            held.until = until;
        }
    }

    pub(super) fn forget(&self, attempt: AttemptId) {
        self.lock().held.remove(&attempt);
    }

    /// Notes that a request of the attempt may still reach this server.
    pub(super) fn suspect(&self, attempt: AttemptId, server: usize) {
        let mut table = self.lock();
        let suspects = table.suspects.entry(attempt).or_default();
        if suspects.len() <= server {
            suspects.resize(server + 1, false);
        }
        suspects[server] = true;
    }

    /// Forgets that for all servers.
    pub(super) fn trust(&self, attempt: AttemptId) {
        self.lock().suspects.remove(&attempt);
    }

    pub(super) fn suspects(&self, attempt: AttemptId) -> Vec<bool> {
        self.lock().suspects.get(&attempt).cloned().unwrap_or_default()
    }

    /// Notes how the attempt has ended.
    pub(super) fn end(&self, now: Now, attempt: AttemptId, verdict: Verdict) {
        let mut table = self.lock();
        table.held.remove(&attempt);
        table.suspects.remove(&attempt);
        if table.ended.insert(attempt, verdict).is_none() {
            table.order.push(now, attempt);
        }
        while let Some(oldest) = table.order.pop_due(now) {
            table.ended.remove(&oldest);
        }
    }

    /// Returns how the attempt has ended, if it has.
    pub(super) fn verdict(&self, attempt: AttemptId) -> Option<Verdict> {
        self.lock().ended.get(&attempt).copied()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
