//! A map from attempts to values that end at a time.

use std::collections::{BTreeMap, BTreeSet};

use crate::AttemptId;

/// Values by attempt, with an index by the time at which they end. The map does not remove an ended
/// value by itself. Each operation takes O(log n) steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TimedMap<V> {
    entries: BTreeMap<AttemptId, (u64, V)>,
    ends: BTreeSet<(u64, AttemptId)>,
}

impl<V> Default for TimedMap<V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), ends: BTreeSet::new() }
    }
}

impl<V> TimedMap<V> {
    /// Stores a value that ends at `until_ns`, in place of an earlier value of the attempt.
    pub(crate) fn insert(&mut self, attempt: AttemptId, until_ns: u64, value: V) {
        self.remove(attempt);
        self.entries.insert(attempt, (until_ns, value));
        self.ends.insert((until_ns, attempt));
    }

    /// Returns the attempt's value, and when it ends.
    pub(crate) fn get(&self, attempt: AttemptId) -> Option<(u64, &V)> {
        self.entries.get(&attempt).map(|(until_ns, value)| (*until_ns, value))
    }

    /// Returns the attempt's value for a change.
    pub(crate) fn get_mut(&mut self, attempt: AttemptId) -> Option<&mut V> {
        self.entries.get_mut(&attempt).map(|(_, value)| value)
    }

    /// Lets the attempt's value end at another time.
    pub(crate) fn set_until(&mut self, attempt: AttemptId, until_ns: u64) {
        if let Some((until, _)) = self.entries.get_mut(&attempt) {
            self.ends.remove(&(*until, attempt));
            *until = until_ns;
            self.ends.insert((until_ns, attempt));
        }
    }

    /// Removes the attempt's value.
    pub(crate) fn remove(&mut self, attempt: AttemptId) -> Option<V> {
        let (until_ns, value) = self.entries.remove(&attempt)?;
        self.ends.remove(&(until_ns, attempt));
        Some(value)
    }

    /// Returns the attempt whose value ends first, and when that is.
    pub(crate) fn first(&self) -> Option<(u64, AttemptId)> {
        self.ends.first().copied()
    }

    /// Iterates over ends and attempts, the latest end first.
    pub(crate) fn latest_first(&self) -> impl Iterator<Item = (u64, AttemptId)> {
        self.ends.iter().rev().copied()
    }

    /// Iterates over attempts, ends and values in the order of the attempts' ids.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (AttemptId, u64, &V)> {
        self.entries.iter().map(|(attempt, (until_ns, value))| (*attempt, *until_ns, value))
    }

    /// Takes the map apart, in the order of the attempts' ids.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = (AttemptId, u64, V)> {
        self.entries.into_iter().map(|(attempt, (until_ns, value))| (attempt, until_ns, value))
    }
}
