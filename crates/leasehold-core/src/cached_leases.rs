//! The leases that a client keeps though no task of it holds them, for its next task.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;
use leasehold_proto::{AttemptId, Deadline, Now};

use crate::Name;
use crate::hold::Hold;
use crate::table_capacity::shrink_map;

/// The most leases that a client caches.
const MOST: usize = 10_000;

/// The cached leases of a client, by name, by the time of their release and by the time when each is
/// given back.
#[derive(Debug, Default)]
pub(crate) struct CachedLeases {
    by_name: HashMap<Name, Cached, RandomState>,
    by_release: BTreeMap<u64, Name>,
    /// The ends on the steady clock, and the numbers of the releases.
    by_end: BTreeSet<(u64, u64)>,
    /// How many leases have been released into this table.
    released: u64,
}

#[derive(Debug)]
struct Cached {
    hold: Arc<Hold>,
    until: Deadline,
    /// The number of its release.
    number: u64,
}

impl CachedLeases {
    /// Adds a lease that its last holder has just released. Returns a lease that must be given back:
    /// an earlier one of the lock, or the one that was used least recently, if the table was full.
    pub(crate) fn insert(&mut self, hold: Arc<Hold>, until: Deadline) -> Option<Arc<Hold>> {
        let earlier = self.take(&hold.name);
        self.released += 1;
        let (number, name) = (self.released, hold.name.clone());
        self.by_end.insert((until.steady_ns(), number));
        self.by_release.insert(number, name.clone());
        self.by_name.insert(name, Cached { hold, until, number });
        if earlier.is_some() || self.by_name.len() <= MOST {
            return earlier;
        }
        let (_, oldest) = self.by_release.first_key_value()?;
        let oldest = oldest.clone();
        self.take(&oldest)
    }

    /// Removes and returns the lease of a lock.
    pub(crate) fn take(&mut self, name: &Name) -> Option<Arc<Hold>> {
        if self.by_name.is_empty() {
            return None;
        }
        let Cached { hold, until, number } = self.by_name.remove(name)?;
        self.by_end.remove(&(until.steady_ns(), number));
        self.by_release.remove(&number);
        Some(hold)
    }

    /// Removes and returns the lease of a lock, if it belongs to this attempt.
    pub(crate) fn take_of(&mut self, name: &Name, attempt: AttemptId) -> Option<Arc<Hold>> {
        self.by_name.get(name).filter(|cached| cached.hold.attempt == attempt)?;
        self.take(name)
    }

    /// Removes and returns the leases whose time has passed.
    pub(crate) fn take_due(&mut self, now: Now) -> Vec<Arc<Hold>> {
        let mut due = Vec::new();
        while let Some(&(end, number)) = self.by_end.first()
            && end <= now.steady_ns
        {
            let name = self.by_release.get(&number).cloned();
            match name.and_then(|name| self.take(&name)) {
                Some(hold) => due.push(hold),
                None => drop(self.by_end.pop_first()),
            }
        }
        shrink_map(&mut self.by_name);
        due
    }

    /// Removes and returns all leases.
    pub(crate) fn take_all(&mut self) -> Vec<Arc<Hold>> {
        let Self { by_name, .. } = std::mem::take(self);
        by_name.into_values().map(|cached| cached.hold).collect()
    }

    /// Returns when the first lease is given back, on the steady clock.
    pub(crate) fn next_end(&self) -> Option<u64> {
        self.by_end.first().map(|(end, _)| *end)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }
}
