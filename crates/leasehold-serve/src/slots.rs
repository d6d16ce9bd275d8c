//! How many leases and waiting requests there may be: in all, for each token, and for each lock.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use crate::problem::Problem;
use crate::settings::Limits;

/// The leases and waiting requests of this server.
#[derive(Debug)]
pub(crate) struct Slots {
    limits: Limits,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    of_caller: HashMap<String, usize>,
    waiting: HashMap<(String, String), usize>,
}

/// A lease or a waiting request, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
    caller: String,
}

/// A request that waits for a lock, until it is dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    slots: Arc<Slots>,
    lock: (String, String),
    /// How many requests of this server waited before it.
    pub(crate) ahead: usize,
}

impl Slots {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, counts: Mutex::default() }
    }

    /// Takes a slot for a caller.
    pub(crate) fn take(self: &Arc<Self>, caller: &str) -> Result<Slot, Problem> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.all >= self.limits.holds {
            return Err(Problem::limit(format!(
                "the server has {} leases and waiting requests, its limit (--max-holds)",
                counts.all
            )));
        }
        let own = counts.of_caller.entry(caller.to_owned()).or_default();
        if *own >= self.limits.holds_per_token {
            return Err(Problem::limit(format!(
                "this caller has {own} leases and waiting requests, its limit \
                 (--max-holds-per-token)"
            )));
        }
        *own += 1;
        counts.all += 1;
        Ok(Slot { slots: self.clone(), caller: caller.to_owned() })
    }

    /// Counts a request that waits for a lock.
    pub(crate) fn wait(self: &Arc<Self>, store: &str, name: &str) -> Result<Waiting, Problem> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let lock = (store.to_owned(), name.to_owned());
        let waiting = counts.waiting.entry(lock.clone()).or_default();
        if *waiting >= self.limits.queue {
            return Err(Problem::limit(format!(
                "{waiting} requests wait for this lock at this server, its limit (--max-queue)"
            )));
        }
        let ahead = *waiting;
        *waiting += 1;
        Ok(Waiting { slots: self.clone(), lock, ahead })
    }

    /// Returns the leases and waiting requests, and of these the waiting ones.
    pub(crate) fn count(&self) -> (usize, usize) {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        (counts.all, counts.waiting.values().sum())
    }

    /// Returns how many requests of this server wait for a lock.
    pub(crate) fn waiting(&self, store: &str, name: &str) -> usize {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.waiting.get(&(store.to_owned(), name.to_owned())).copied().unwrap_or_default()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut counts = self.slots.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all -= 1;
        take_one(&mut counts.of_caller, &self.caller);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut counts = self.slots.counts.lock().unwrap_or_else(PoisonError::into_inner);
        take_one(&mut counts.waiting, &self.lock);
    }
}

fn take_one<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_holds_and_what_is_dropped_makes_room() {
        let mut limits = Limits::default();
        (limits.holds, limits.holds_per_token, limits.queue) = (3, 2, 1);
        let slots = Arc::new(Slots::new(limits));
        let held = [slots.take("a").unwrap(), slots.take("a").unwrap()];
        assert!(slots.take("a").unwrap_err().detail().contains("--max-holds-per-token"));
        let other = slots.take("b").unwrap();
        assert!(slots.take("b").unwrap_err().detail().contains("(--max-holds)"));
        drop(held);
        let waiting = slots.wait("s", "x").unwrap();
        assert!(slots.wait("s", "x").unwrap_err().detail().contains("--max-queue"));
        assert_eq!((slots.count(), slots.waiting("s", "x")), ((1, 1), 1));
        drop((waiting, other));
        assert_eq!(slots.count(), (0, 0));
        assert!(slots.counts.lock().unwrap().of_caller.is_empty());
    }
}
