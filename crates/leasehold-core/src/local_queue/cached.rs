//! The cached leases in the tables of the local queues.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use leasehold_proto::{AttemptId, Deadline, Now};

use super::{LocalQueues, Released, Table};
use crate::Name;
use crate::backend::{Mode, mode_of};
use crate::cached_leases::CachedLeases;
use crate::hold::{ByName, Hold};

/// The most leases that a client caches.
const MOST_CACHED: usize = 10_000;

/// A lease that was cached until now.
#[derive(Debug)]
pub(crate) enum TakenCached {
    /// The task has it with a new hold.
    Fits { from: Arc<Hold>, hold: Arc<Hold> },
    /// The task cannot use it.
    Unfit(Arc<Hold>),
}

impl LocalQueues {
    /// Caches a lease that its holder has released, if `cache` says so.
    pub(super) fn cache<T>(
        &self,
        mut queues: MutexGuard<'_, Table>,
        cache: impl FnOnce() -> Option<(Arc<Hold>, Deadline)>,
    ) -> Released<T> {
        let Some((hold, until)) = (!queues.deaf).then(cache).flatten() else {
            return Released::Gone;
        };
        let number = self.releases.fetch_add(1, Ordering::Relaxed);
        let earlier = queues.cached.insert(hold, until, number);
        if earlier.is_some() {
            return Released::Cached(until, earlier);
        }
        let is_full = self.cached.fetch_add(1, Ordering::Relaxed) >= MOST_CACHED;
        drop(queues);
        Released::Cached(until, is_full.then(|| self.evict()).flatten())
    }

    /// Caches a read lease that its last reader has released, if `cache` says so. It knows whether a task of
    /// this process waits to write.
    pub(crate) fn cache_read<T>(
        &self,
        name: &Name,
        cache: impl FnOnce(bool) -> Option<(Arc<Hold>, Deadline)>,
    ) -> Released<T> {
        let queues = self.lock(name);
        let cached = cache(queues.is_awaited(name));
        self.cache(queues, || cached)
    }

    /// Takes out the cached lease that was used least recently.
    fn evict(&self) -> Option<Arc<Hold>> {
        let oldest = |(at, mut queues): (usize, MutexGuard<'_, Table>)| {
            queues.cached.oldest().map(|number| (number, at))
        };
        let (_, at) = self.lock_each().enumerate().filter_map(oldest).min()?;
        let mut queues = self.lock_each().nth(at)?;
        self.uncache(&mut queues, CachedLeases::take_oldest)
    }

    /// Removes something from the cached leases.
    pub(super) fn uncache<T>(
        &self,
        queues: &mut Table,
        remove: impl FnOnce(&mut CachedLeases) -> T,
    ) -> T {
        let before = queues.cached.len();
        let removed = remove(&mut queues.cached);
        self.cached.fetch_sub(before - queues.cached.len(), Ordering::Relaxed);
        removed
    }

    /// Returns how many leases are cached.
    pub(crate) fn cached(&self) -> usize {
        self.cached.load(Ordering::Relaxed)
    }

    /// Takes the cached lease of a lock. `fit` returns the hold of a task that can use it; a writer then
    /// leads the queue.
    pub(crate) fn take_cached(
        &self,
        name: &Name,
        fit: impl FnOnce(&Hold) -> Option<Arc<Hold>>,
    ) -> Option<TakenCached> {
        let mut queues = self.lock(name);
        let from = self.uncache(&mut queues, |cached| cached.take(name))?;
        Some(match fit(&from) {
            Some(hold) => {
                if mode_of(hold.attempt) == Mode::Exclusive {
                    queues.quiet.insert(ByName(hold.clone()));
                }
                TakenCached::Fits { from, hold }
            }
            None => TakenCached::Unfit(from),
        })
    }

    /// Takes out the cached lease of an attempt.
    pub(crate) fn take_cached_of(&self, name: &Name, attempt: AttemptId) -> Option<Arc<Hold>> {
        if self.cached() == 0 {
            return None;
        }
        self.uncache(&mut self.lock(name), |cached| cached.take_of(name, attempt))
    }

    /// Takes out the cached lease of an attempt; without one, calls `otherwise` in the same step.
    pub(crate) fn take_cached_or<T>(
        &self,
        name: &Name,
        attempt: AttemptId,
        otherwise: impl FnOnce() -> T,
    ) -> Result<Arc<Hold>, T> {
        let mut queues = self.lock(name);
        let cached = self.uncache(&mut queues, |cached| cached.take_of(name, attempt));
        cached.ok_or_else(otherwise)
    }

    /// Caches no lease from now on, until [`reset`](Self::reset), and takes out those that are cached.
    pub(crate) fn deafen(&self) -> Vec<Arc<Hold>> {
        let all = |mut queues: MutexGuard<'_, Table>| {
            queues.deaf = true;
            self.uncache(&mut queues, CachedLeases::take_all)
        };
        self.lock_each().flat_map(all).collect()
    }

    /// Takes out the cached leases whose time has passed. Also returns when the next one's will have.
    pub(crate) fn take_due_cached(&self, now: Now) -> (Vec<Arc<Hold>>, Option<u64>) {
        if self.cached() == 0 {
            return (Vec::new(), None);
        }
        let (mut due, mut next) = (Vec::new(), None);
        for mut queues in self.lock_each() {
            due.extend(self.uncache(&mut queues, |cached| cached.take_due(now)));
            next = next.into_iter().chain(queues.cached.next_end()).min();
        }
        (due, next)
    }

    /// Takes out all cached leases.
    pub(crate) fn take_all_cached(&self) -> Vec<Arc<Hold>> {
        let all =
            |mut queues: MutexGuard<'_, Table>| self.uncache(&mut queues, CachedLeases::take_all);
        self.lock_each().flat_map(all).collect()
    }
}
