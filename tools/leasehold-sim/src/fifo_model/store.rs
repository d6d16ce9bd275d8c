//! The store: a queue of entries, the record, and one counter of all changes.

use leasehold_proto::fifo::PhaseRecord;

use super::Bug;

/// An entry of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The client that created it.
    pub client: u8,
    /// It is there to read.
    pub reads: bool,
    /// Its place in the queue.
    pub place: u8,
    /// The counter when it was created.
    pub created: u64,
}

/// The queue of one lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Store {
    /// Grows with each change; it survives the queue.
    pub counter: u64,
    /// The place of the next entry.
    pub next: u8,
    /// The entries in the order of the queue.
    pub entries: Vec<Entry>,
    /// The record, if one was stored.
    pub record: Option<PhaseRecord<u8>>,
    /// How often it was stored.
    pub version: u8,
}

/// A request that changes the record, all or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transaction {
    /// The entry that must exist.
    pub own: Entry,
    /// What replaces it, if it is converted.
    pub new: Option<bool>,
    /// The record to store.
    pub record: PhaseRecord<u8>,
    /// The version that the record must have.
    pub version: u8,
}

impl Store {
    /// Creates an entry at the end of the queue.
    pub(super) fn create(&mut self, client: u8, reads: bool) -> Entry {
        self.counter += 1;
        let entry = Entry { client, reads, place: self.next, created: self.counter };
        self.next += 1;
        self.entries.push(entry);
        entry
    }

    pub(super) fn delete(&mut self, entry: Entry) {
        self.counter += 1;
        self.entries.retain(|other| *other != entry);
    }

    pub(super) fn has(&self, entry: Entry) -> bool {
        self.entries.contains(&entry)
    }

    /// Executes a transaction; false if it changes nothing.
    pub(super) fn execute(&mut self, bug: Option<Bug>, transaction: Transaction) -> bool {
        let Transaction { own, new, record, version } = transaction;
        let ignores = match new {
            None => bug == Some(Bug::IgnoresVersion),
            Some(_) => bug == Some(Bug::UpgradeIgnoresVersion),
        };
        let exists = self.has(own) || (bug == Some(Bug::IgnoresOwnEntry) && new.is_none());
        if !exists || (version != self.version && !ignores) {
            return false;
        }
        self.counter += 1;
        let at_end = bug == Some(Bug::DowngradeLeavesPlace) && new == Some(true);
        for entry in self.entries.iter_mut().filter(|entry| **entry == own) {
            if let Some(reads) = new {
                (entry.reads, entry.created) = (reads, self.counter);
                if at_end {
                    entry.place = self.next;
                    self.next += 1;
                }
            }
        }
        self.entries.sort_by_key(|entry| entry.place);
        self.record = Some(record);
        self.version += 1;
        true
    }

    /// Removes the empty queue.
    pub(super) fn remove(&mut self) {
        *self = Self { counter: self.counter + 1, ..Self::default() };
    }
}
