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

#[derive(Debug, Default)]
struct Wait {
    /// Which nodes have said that it is free since it was asked for.
    freed: u64,
    /// Which have refused it since then because somebody has it: nobody else will say anything.
    busy: u64,
    /// The answer to the last try is not complete.
    asking: bool,
    pauses: Option<Backoff>,
}

impl Waits {
    pub(super) fn new(nodes: usize) -> Self {
        Self { nodes, locks: HashMap::default(), due: BTreeMap::new() }
    }

    /// A lock is asked for (again): what was heard before is over.
    pub(super) fn asked(&mut self, name: &Name) {
        if let Some(wait) = self.locks.get_mut(name) {
            (wait.freed, wait.busy, wait.asking) = (0, 0, true);
        }
    }

    /// A node has refused it, and says from now on when it is free. While it `asks` others are still
    /// being waited for, else it may have left.
    pub(super) fn busy(&mut self, node: usize, name: &Name, asks: bool) {
        if asks && !self.locks.contains_key(name) {
            self.locks.insert(name.clone(), Wait { asking: true, ..Wait::default() });
        }
        if let Some(wait) = self.locks.get_mut(name) {
            wait.busy |= 1 << node.min(63);
        }
    }

    /// A lock was refused, though `granted` nodes gave it, and is waited for. True when it has
    /// become free meanwhile, and it is time to tell the client.
    pub(super) fn refused(&mut self, now: Now, name: &Name, granted: usize, jitter: u64) -> bool {
        let wait = self.locks.entry(name.clone()).or_default();
        wait.asking = false;
        match granted {
            0 => wait.pauses = None,
            _ => drop(wait.pauses.get_or_insert_with(|| Backoff::new(PAUSES.0, PAUSES.1))),
        }
        self.ripe(now, name, jitter)
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
        self.ripe(now, name, jitter)
    }

    /// A majority has said that it is free, or all that had refused it: the others gave it
    /// themselves, or are out of reach, and have nothing to say.
    fn ripe(&mut self, now: Now, name: &Name, jitter: u64) -> bool {
        let Some(wait) = self.locks.get_mut(name) else { return false };
        let (enough, open) = (majority(self.nodes), wait.busy & !wait.freed);
        let is_free = wait.freed.count_ones() as usize >= enough || open == 0;
        if wait.asking || wait.freed == 0 || !is_free {
            return false;
        }
        if (wait.busy.count_ones() as usize) < enough {
            // Nobody had the whole lock: others may be trying as well.
            wait.pauses.get_or_insert_with(|| Backoff::new(PAUSES.0, PAUSES.1));
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

    const NOW: Now = Now { steady_ns: 0, wall_ns: 0 };

    /// A try that these nodes have refused, and `granted` gave.
    fn refused(waits: &mut Waits, name: &Name, nodes: &[usize], granted: usize) -> bool {
        waits.asked(name);
        nodes.iter().for_each(|node| waits.busy(*node, name, true));
        waits.refused(NOW, name, granted, 0)
    }

    #[test]
    fn a_release_on_a_majority_is_told_once() {
        let name = Name::new("a").unwrap();
        let mut waits = Waits::new(5);
        assert!(!waits.freed(NOW, 0, &name, 0), "nobody waits");
        refused(&mut waits, &name, &[0, 1, 2, 3, 4], 0);
        let told = (0..5).filter(|node| waits.freed(NOW, *node, &name, 0)).count();
        assert_eq!(told, 1);
        refused(&mut waits, &name, &[0, 1, 2], 0);
        assert!((0..9).all(|_| !waits.freed(NOW, 1, &name, 0)), "one node is no majority");
    }

    #[test]
    fn who_split_the_votes_wakes_after_a_pause() {
        let name = Name::new("a").unwrap();
        let late = Now { steady_ns: u64::MAX, wall_ns: 0 };
        let mut waits = Waits::new(3);
        refused(&mut waits, &name, &[0, 1], 1);
        assert!((0..2).all(|node| !waits.freed(NOW, node, &name, u64::MAX)));
        let at = waits.next().unwrap();
        assert_eq!(waits.take_due(Now { steady_ns: at - 1, wall_ns: 0 }), None);
        assert_eq!(waits.take_due(Now { steady_ns: at, wall_ns: 0 }), Some(name.clone()));
        // Longer the next time, and not at all for somebody who has left.
        refused(&mut waits, &name, &[0, 1], 1);
        assert!((0..2).all(|node| !waits.freed(NOW, node, &name, u64::MAX)));
        assert!(waits.next().unwrap() > at);
        waits.leave(&name);
        assert_eq!(waits.take_due(late), None);
        // Whoever lost to somebody with the whole lock wakes at once again.
        refused(&mut waits, &name, &[0, 1], 1);
        refused(&mut waits, &name, &[0, 1], 0);
        assert!((0..2).any(|node| waits.freed(NOW, node, &name, 0)));
    }

    #[test]
    fn a_release_while_others_are_still_being_asked_is_told_with_the_answer() {
        let name = Name::new("a").unwrap();
        let mut waits = Waits::new(5);
        (0..3).for_each(|node| waits.busy(node, &name, true));
        assert!((0..3).all(|node| !waits.freed(NOW, node, &name, 0)));
        assert!(waits.refused(NOW, &name, 0, 0));
        assert!(!waits.refused(NOW, &name, 0, 0), "once");
    }

    #[test]
    fn nodes_that_have_nothing_to_say_are_not_waited_for() {
        let name = Name::new("a").unwrap();
        let mut waits = Waits::new(3);
        // One is out of reach, one would give it, and the third has the holder's lease.
        assert!(!refused(&mut waits, &name, &[0], 0));
        assert_eq!(waits.next(), None);
        assert!(!waits.freed(NOW, 0, &name, 0));
        assert!(waits.next().is_some(), "after a pause: others may have split the votes");
        // A refusal that comes late, for somebody who has left.
        waits.leave(&name);
        waits.busy(1, &name, false);
        assert!(!waits.freed(NOW, 1, &name, 0));
    }
}
