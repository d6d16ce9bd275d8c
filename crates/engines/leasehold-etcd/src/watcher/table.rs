//! The table of watches, by number on the stream and by attempt.

use std::collections::HashMap;

use leasehold_core::{AttemptId, Name};

/// A key to watch.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) name: Name,
    /// The key, and the revision at which it was last known to exist.
    pub(super) key: Vec<u8>,
    pub(super) revision: i64,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The predecessor in the queue: when its key is deleted, the attempt asks again.
    Before,
    /// The key of a held lock: when it is deleted, the lock is lost.
    Own,
}

/// Watches by their number on the stream and by attempt; each attempt has at most one.
#[derive(Debug, Default)]
pub(super) struct Table {
    by_number: HashMap<i64, (AttemptId, Watched)>,
    by_attempt: HashMap<AttemptId, i64>,
    /// The last number that was assigned; numbers are not reused.
    last: i64,
}

impl Table {
    /// Adds a watch; returns its number.
    pub(super) fn add(&mut self, attempt: AttemptId, watched: Watched) -> i64 {
        self.last += 1;
        self.by_attempt.insert(attempt, self.last);
        self.by_number.insert(self.last, (attempt, watched));
        self.last
    }

    /// Removes an attempt's watch; returns its number, if there was one.
    pub(super) fn remove(&mut self, attempt: AttemptId) -> Option<i64> {
        let number = self.by_attempt.remove(&attempt)?;
        self.by_number.remove(&number);
        Some(number)
    }

    /// Removes the watch of a number; returns its attempt and its key.
    pub(super) fn take(&mut self, number: i64) -> Option<(AttemptId, Watched)> {
        let (attempt, watched) = self.by_number.remove(&number)?;
        self.by_attempt.remove(&attempt);
        Some((attempt, watched))
    }

    /// Returns whether an attempt already watches this key, and records that it existed at this
    /// revision.
    pub(super) fn watches(&mut self, attempt: AttemptId, key: &[u8], revision: i64) -> bool {
        let number = self.by_attempt.get(&attempt);
        let known = number.and_then(|number| self.by_number.get_mut(number));
        let Some((_, watched)) = known.filter(|(_, watched)| watched.key == key) else {
            return false;
        };
        watched.revision = watched.revision.max(revision);
        true
    }

    /// Returns the attempt and the key of a watch.
    pub(super) fn get(&self, number: i64) -> Option<&(AttemptId, Watched)> {
        self.by_number.get(&number)
    }

    /// Returns the numbers of all watches, in no particular order.
    pub(super) fn numbers(&self) -> impl Iterator<Item = i64> + '_ {
        self.by_number.keys().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }
}
