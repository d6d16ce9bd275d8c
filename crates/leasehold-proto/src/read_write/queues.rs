//! The queues of readers and writers. One counter orders the waiters of both.

use std::collections::BTreeMap;

use super::messages::{Mode, Waiter};
use crate::AttemptId;

/// Two queues. Every operation takes logarithmic time, except that counting places takes as long as
/// there are places.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Queues<T> {
    tickets: BTreeMap<AttemptId, (Mode, u64)>,
    readers: BTreeMap<u64, Waiter<T>>,
    writers: BTreeMap<u64, Waiter<T>>,
}

impl<T> Default for Queues<T> {
    fn default() -> Self {
        let (readers, writers) = (BTreeMap::new(), BTreeMap::new());
        Self { tickets: BTreeMap::new(), readers, writers }
    }
}

impl<T> Queues<T> {
    fn of(&self, mode: Mode) -> &BTreeMap<u64, Waiter<T>> {
        match mode {
            Mode::Read => &self.readers,
            Mode::Write => &self.writers,
        }
    }

    fn of_mut(&mut self, mode: Mode) -> &mut BTreeMap<u64, Waiter<T>> {
        match mode {
            Mode::Read => &mut self.readers,
            Mode::Write => &mut self.writers,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    pub(super) fn len(&self, mode: Mode) -> usize {
        self.of(mode).len()
    }

    /// Returns the first waiter of a mode.
    pub(super) fn head(&self, mode: Mode) -> Option<&Waiter<T>> {
        self.of(mode).values().next()
    }

    pub(super) fn is_head(&self, mode: Mode, attempt: AttemptId) -> bool {
        self.head(mode).is_some_and(|head| head.attempt == attempt)
    }

    /// Returns the mode in which the attempt waits.
    pub(super) fn mode(&self, attempt: AttemptId) -> Option<Mode> {
        self.tickets.get(&attempt).map(|(mode, _)| *mode)
    }

    /// Returns how many waiters of the same mode precede the attempt; all, if it is not queued.
    pub(super) fn ahead(&self, mode: Mode, attempt: AttemptId) -> usize {
        match self.tickets.get(&attempt) {
            Some((_, ticket)) => self.of(mode).range(..ticket).count(),
            None => self.len(mode),
        }
    }

    /// Adds a waiter behind all others, unless it is queued.
    pub(super) fn push(&mut self, waiter: Waiter<T>) {
        if self.tickets.contains_key(&waiter.attempt) {
            return;
        }
        let last = |mode| self.of(mode).keys().next_back().copied().unwrap_or(0);
        let ticket = last(Mode::Read).max(last(Mode::Write)) + 1;
        self.tickets.insert(waiter.attempt, (waiter.mode, ticket));
        self.of_mut(waiter.mode).insert(ticket, waiter);
    }

    /// Removes a waiter. Returns its mode, and whether it was the first of that mode.
    pub(super) fn remove(&mut self, attempt: AttemptId) -> Option<(Mode, bool)> {
        let (mode, ticket) = self.tickets.remove(&attempt)?;
        let first = self.of(mode).keys().next() == Some(&ticket);
        self.of_mut(mode).remove(&ticket);
        Some((mode, first))
    }

    /// Records that a waiter has asked.
    pub(super) fn handle_asked(&mut self, attempt: AttemptId, seen_ns: u64) {
        let Some((mode, ticket)) = self.tickets.get(&attempt).copied() else { return };
        if let Some(waiter) = self.of_mut(mode).get_mut(&ticket) {
            waiter.seen_ns = seen_ns;
        }
    }

    /// Iterates over the waiters of both modes in the order of their tickets.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiter<T>> {
        let (mut readers, mut writers) = (self.readers.iter(), self.writers.iter());
        let (mut reader, mut writer) = (readers.next(), writers.next());
        core::iter::from_fn(move || {
            let reads = match (reader, writer) {
                (Some((read, _)), Some((write, _))) => read < write,
                (reader, _) => reader.is_some(),
            };
            let next = match reads {
                true => core::mem::replace(&mut reader, readers.next()),
                false => core::mem::replace(&mut writer, writers.next()),
            };
            next.map(|(_, waiter)| waiter)
        })
    }
}

impl<T> FromIterator<Waiter<T>> for Queues<T> {
    fn from_iter<I: IntoIterator<Item = Waiter<T>>>(waiters: I) -> Self {
        let mut all = Self::default();
        waiters.into_iter().for_each(|waiter| all.push(waiter));
        all
    }
}
