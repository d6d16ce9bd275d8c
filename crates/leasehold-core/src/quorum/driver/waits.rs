//! Who waits for a lock to become free, and when they are told.
//!
//! A release is heard of from each node, and wakes everybody once, when a majority has said it. Who
//! wakes at the same moment may split the votes; whoever got some of them and not the lock is woken
//! after a random pause the next time, longer from time to time.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use foldhash::fast::RandomState;
use leasehold_proto::quorum::majority;
use leasehold_proto::{Backoff, Now};

use crate::Name;

/// First and longest pause after votes were split.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(64));

/// The locks that the client waits for.
#[derive(Debug)]
pub(super) struct Waits {
    nodes: usize,
    locks: HashMap<Name, Wait, RandomState>,
    /// Those to be told later, by steady time.
    due: BTreeMap<(u64, Name), ()>,
}

#[derive(Debug)]
struct Wait {
    /// Which nodes have said that it is free since it was asked for.
    freed: u64,
    pauses: Option<Backoff>,
}

impl Waits {
    pub(super) fn new(nodes: usize) -> Self {
        Self { nodes, locks: HashMap::default(), due: BTreeMap::new() }
    }

    /// A lock was refused, though `granted` nodes gave it, and is waited for.
    pub(super) fn refused(&mut self, name: &Name, granted: usize) {
        let fresh = || Wait { freed: 0, pauses: None };
        let wait = self.locks.entry(name.clone()).or_insert_with(fresh);
        match granted {
            0 => wait.pauses = None,
            _ => drop(wait.pauses.get_or_insert_with(|| Backoff::new(PAUSES.0, PAUSES.1))),
        }
    }

    /// A lock is asked for (again): what was heard before is over.
    pub(super) fn asked(&mut self, name: &Name) {
        if let Some(wait) = self.locks.get_mut(name) {
            wait.freed = 0;
        }
    }

    /// It is not waited for any more.
    pub(super) fn leave(&mut self, name: &Name) {
        if !self.locks.is_empty() {
            self.locks.remove(name);
        }
    }

    /// A node says that a lock is free; true when it is time to tell the client.
    pub(super) fn freed(&mut self, now: Now, node: usize, name: &Name, jitter: u64) -> bool {
        let Some(wait) = self.locks.get_mut(name) else { return false };
        wait.freed |= 1 << node.min(63);
        if (wait.freed.count_ones() as usize) < majority(self.nodes) {
            return false;
        }
        wait.freed = 0;
        let Some(pauses) = &mut wait.pauses else { return true };
        let pause = u64::try_from(pauses.next(jitter).as_nanos()).unwrap_or(u64::MAX);
        self.due.insert((now.steady_ns.saturating_add(pause), name.clone()), ());
        false
    }

    /// When somebody is to be told.
    pub(super) fn next(&self) -> Option<u64> {
        self.due.first_key_value().map(|((at_ns, _), ())| *at_ns)
    }

    /// Takes out a lock whose time has come and that is still waited for.
    pub(super) fn take_due(&mut self, now: Now) -> Option<Name> {
        while self.next()? <= now.steady_ns {
            let ((_, name), ()) = self.due.pop_first()?;
            if self.locks.contains_key(&name) {
                return Some(name);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_on_a_majority_is_told_once() {
        let name = Name::new("a").unwrap();
        let mut waits = Waits::new(5);
        let now = Now::default();
        assert!(!waits.freed(now, 0, &name, 0), "nobody waits");
        waits.refused(&name, 0);
        let told = (0..5).filter(|node| waits.freed(now, *node, &name, 0)).count();
        assert_eq!(told, 1);
        waits.asked(&name);
        assert!((0..9).all(|_| !waits.freed(now, 1, &name, 0)), "one node is no majority");
    }

    #[test]
    fn who_split_the_votes_wakes_after_a_pause() {
        let name = Name::new("a").unwrap();
        let mut waits = Waits::new(3);
        waits.refused(&name, 1);
        assert!((0..3).all(|node| !waits.freed(Now::default(), node, &name, u64::MAX)));
        let at = waits.next().unwrap();
        assert_eq!(waits.take_due(Now { steady_ns: at - 1, wall_ns: 0 }), None);
        assert_eq!(waits.take_due(Now { steady_ns: at, wall_ns: 0 }), Some(name.clone()));
        // Longer the next time, and not at all for somebody who has left.
        assert!((0..3).all(|node| !waits.freed(Now::default(), node, &name, u64::MAX)));
        assert!(waits.next().unwrap() > at);
        waits.leave(&name);
        assert_eq!(waits.take_due(Now { steady_ns: u64::MAX, wall_ns: 0 }), None);
        // Whoever lost to somebody with the whole lock wakes at once again.
        waits.refused(&name, 1);
        waits.refused(&name, 0);
        assert!((0..3).any(|node| waits.freed(Now::default(), node, &name, 0)));
    }
}
