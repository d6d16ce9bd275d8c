//! The queue of waiters: found by attempt, served in order.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};

use super::Waiter;
use crate::AttemptId;

/// The waiters in order. Tickets only grow along the queue, so a waiter is found by binary search.
#[derive(Clone, Debug)]
pub(super) struct Queue<T> {
    waiters: VecDeque<(u64, Waiter<T>)>,
    tickets: BTreeMap<AttemptId, u64>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { waiters: VecDeque::new(), tickets: BTreeMap::new() }
    }
}

impl<T> Queue<T> {
    /// Returns the first waiter.
    pub(super) fn first(&self) -> Option<&Waiter<T>> {
        self.get(0)
    }

    /// Returns the waiter at this place.
    pub(super) fn get(&self, place: usize) -> Option<&Waiter<T>> {
        self.waiters.get(place).map(|(_, waiter)| waiter)
    }

    /// Iterates over the waiters in order.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Waiter<T>> {
        self.waiters.iter().map(|(_, waiter)| waiter)
    }

    /// Takes the queue apart.
    pub(super) fn into_waiters(self) -> impl Iterator<Item = Waiter<T>> {
        self.waiters.into_iter().map(|(_, waiter)| waiter)
    }

    /// Returns how many waiters precede the attempt; `None` if it does not wait.
    pub(super) fn place(&self, attempt: AttemptId) -> Option<usize> {
        let ticket = self.tickets.get(&attempt)?;
        Some(self.waiters.partition_point(|(other, _)| other < ticket))
    }

    /// Adds a waiter at the end, unless its attempt waits already.
    pub(super) fn push(&mut self, waiter: Waiter<T>) {
        if self.tickets.contains_key(&waiter.attempt) {
            return;
        }
        let ticket = self.waiters.back().map_or(0, |(last, _)| last + 1);
        self.tickets.insert(waiter.attempt, ticket);
        self.waiters.push_back((ticket, waiter));
    }

    /// Records that a waiter has asked. Returns false if the attempt does not wait.
    pub(super) fn touch(&mut self, attempt: AttemptId, seen_ns: u64) -> bool {
        let waiter = self.place(attempt).and_then(|place| self.waiters.get_mut(place));
        waiter.map(|(_, waiter)| waiter.seen_ns = seen_ns).is_some()
    }

    /// Removes the waiter at this place.
    pub(super) fn remove(&mut self, place: usize) -> Option<Waiter<T>> {
        let (_, waiter) = self.waiters.remove(place)?;
        self.tickets.remove(&waiter.attempt);
        Some(waiter)
    }
}

/// Equal queues have equal waiters in the same order; tickets may differ.
impl<T: PartialEq> PartialEq for Queue<T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Eq> Eq for Queue<T> {}

impl<T: Hash> Hash for Queue<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.waiters.len().hash(state);
        self.iter().for_each(|waiter| waiter.hash(state));
    }
}
