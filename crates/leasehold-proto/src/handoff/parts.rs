//! A record taken apart, for engines that keep it in a table.

use super::Record;
use super::words::{State, Waiter};
use crate::AttemptId;

/// What a [`Record`] is made of; times are on the steady clock of the steps.
///
/// An engine whose line is long may leave out waiters between the first few and those whose
/// attempts take part in the step: no step looks at them but to tell a place in line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts<T> {
    /// Held, kept or free, as last written down.
    pub state: State,
    /// The holder, or the last one.
    pub owner: Option<(AttemptId, T)>,
    /// First token of the current or last lease; 0 before the first.
    pub base: u64,
    /// The highest token that was ever reserved; 0 before the first.
    pub top: u64,
    /// When the lease, or the time that the lock is kept, ends.
    pub until_ns: u64,
    /// The owner has shown that it knows of its lease.
    pub confirmed: bool,
    /// First token of the last lease that ended other than by its release.
    pub lost: u64,
    /// Those who wait, first in line first.
    pub queue: Vec<Waiter<T>>,
    /// Attempts that are refused, and until when.
    pub tombstones: Vec<(AttemptId, u64)>,
}

impl<T> From<Parts<T>> for Record<T> {
    fn from(parts: Parts<T>) -> Self {
        let Parts { state, owner, base, top, until_ns, confirmed, lost, .. } = parts;
        let queue = parts.queue.into();
        let tombstones = parts.tombstones.into_iter().collect();
        Self { state, owner, base, top, until_ns, confirmed, lost, queue, tombstones }
    }
}

impl<T> From<Record<T>> for Parts<T> {
    fn from(record: Record<T>) -> Self {
        let Record { state, owner, base, top, until_ns, confirmed, lost, .. } = record;
        let queue = record.queue.into();
        let tombstones = record.tombstones.into_iter().collect();
        Self { state, owner, base, top, until_ns, confirmed, lost, queue, tombstones }
    }
}

impl<T> Default for Parts<T> {
    fn default() -> Self {
        Record::default().into()
    }
}
