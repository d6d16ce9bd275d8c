//! The parts of a record, for engines that keep it in a table.

use super::Record;
use super::messages::{State, Waiter};
use crate::AttemptId;

/// The parts of a [`Record`]. Times are on the steady clock of the steps.
///
/// An engine with a long queue may leave out waiters that are neither among the first few nor take
/// part in the step. Steps use the others only to count places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts<T> {
    /// The state as it was last stored: held, kept or free.
    pub state: State,
    /// The current or the last holder.
    pub owner: Option<(AttemptId, T)>,
    /// The first token of the current or last lease; 0 before the first lease.
    pub base: u64,
    /// The highest token that was ever reserved; 0 before the first lease.
    pub top: u64,
    /// When the lease, or the keep after a release, ends.
    pub until_ns: u64,
    /// True if the owner has confirmed its lease.
    pub confirmed: bool,
    /// The first token of the last lease that ended without a release.
    pub lost: u64,
    /// The waiters in queue order.
    pub queue: Vec<Waiter<T>>,
    /// The attempts that are refused, and until when.
    pub tombstones: Vec<(AttemptId, u64)>,
}

impl<T, const CAP: usize> From<Parts<T>> for Record<T, CAP> {
    fn from(parts: Parts<T>) -> Self {
        let Parts { state, owner, base, top, until_ns, confirmed, lost, .. } = parts;
        let queue = parts.queue.into();
        let tombstones = parts.tombstones.into_iter().collect();
        Self { state, owner, base, top, until_ns, confirmed, lost, queue, tombstones }
    }
}

impl<T, const CAP: usize> From<Record<T, CAP>> for Parts<T> {
    fn from(record: Record<T, CAP>) -> Self {
        let Record { state, owner, base, top, until_ns, confirmed, lost, .. } = record;
        let queue = record.queue.into();
        let tombstones = record.tombstones.into_iter().collect();
        Self { state, owner, base, top, until_ns, confirmed, lost, queue, tombstones }
    }
}

impl<T> Default for Parts<T> {
    fn default() -> Self {
        Record::<T>::default().into()
    }
}
