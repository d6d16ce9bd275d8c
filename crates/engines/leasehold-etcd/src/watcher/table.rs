//! The table of watches, by number on the stream and by attempt.

use std::collections::HashMap;

use leasehold_core::{AttemptId, Name};

/// A key to watch, or a range of keys.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) name: Name,
    /// The key, and the end of the range that begins with it.
    pub(super) key: Vec<u8>,
    pub(super) end: Option<Vec<u8>>,
    /// The revision at which the key was last known to exist, or at which the range was read.
    pub(super) revision: i64,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The attempt before ours: when its key is deleted, ours asks again.
    Deletion,
    /// The attempt that ours waits for: when its key is deleted or changed, ours asks again.
    Change,
    /// All keys of a semaphore: when a permit ends or the limit changes, the first waiter asks again.
    Slots,
    /// The key of a held lock: when it is deleted, the lock is lost.
    Own,
    /// The same, if other programs write it too: when it is under another lease, the lock is lost as well.
    Bound,
    /// The writers behind a reader: when one enters the queue, the reader's client is notified.
    Writers,
}

/// Of which kind an attempt has at most one watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Waits,
    Own,
    Writers,
}

const KINDS: [Kind; 3] = [Kind::Waits, Kind::Own, Kind::Writers];

impl What {
    /// Returns true if the attempt waits.
    pub(super) fn waits(self) -> bool {
        self.kind() == Kind::Waits
    }

    fn kind(self) -> Kind {
        match self {
            Self::Deletion | Self::Change | Self::Slots => Kind::Waits,
            Self::Own | Self::Bound => Kind::Own,
            Self::Writers => Kind::Writers,
        }
    }
}

/// Watches by their number on the stream and by attempt.
#[derive(Debug, Default)]
pub(super) struct Table {
    by_number: HashMap<i64, (AttemptId, Watched)>,
    by_attempt: HashMap<(AttemptId, Kind), i64>,
    /// The last number that was assigned; numbers are not reused.
    last: i64,
}

impl Table {
    /// Adds a watch; returns its number, and that of the one of the same kind that it replaces.
    pub(super) fn add(&mut self, attempt: AttemptId, watched: Watched) -> (i64, Option<i64>) {
        self.last += 1;
        let instead = self.by_attempt.insert((attempt, watched.what.kind()), self.last);
        if let Some(instead) = instead {
            self.by_number.remove(&instead);
        }
        self.by_number.insert(self.last, (attempt, watched));
        (self.last, instead)
    }

    /// Removes the watch of an attempt that waits no more; returns its number, if there was one.
    pub(super) fn remove_wait(&mut self, attempt: AttemptId) -> Option<i64> {
        self.remove(attempt, Kind::Waits)
    }

    /// Removes an attempt's watches; returns their numbers.
    pub(super) fn remove_all(&mut self, attempt: AttemptId) -> Vec<i64> {
        KINDS.into_iter().filter_map(|kind| self.remove(attempt, kind)).collect()
    }

    fn remove(&mut self, attempt: AttemptId, kind: Kind) -> Option<i64> {
        let number = self.by_attempt.remove(&(attempt, kind))?;
        self.by_number.remove(&number);
        Some(number)
    }

    /// Removes the watch of a number; returns its attempt and its key.
    pub(super) fn take(&mut self, number: i64) -> Option<(AttemptId, Watched)> {
        let (attempt, watched) = self.by_number.remove(&number)?;
        self.by_attempt.remove(&(attempt, watched.what.kind()));
        Some((attempt, watched))
    }

    /// Returns whether an attempt already watches this key for the same, and records that it existed at this
    /// revision.
    pub(super) fn watches(&mut self, attempt: AttemptId, new: &Watched) -> bool {
        let number = self.by_attempt.get(&(attempt, new.what.kind()));
        let known = number.and_then(|number| self.by_number.get_mut(number));
        let same = |watched: &Watched| watched.key == new.key && watched.what == new.what;
        let Some((_, watched)) = known.filter(|(_, watched)| same(watched)) else {
            return false;
        };
        watched.revision = watched.revision.max(new.revision);
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
