//! The waiters for a lock, and when they are notified.
//!
//! Each node reports a release. The waiters are woken once, when a majority has reported it.
//! Waiters that wake at the same moment may split the votes. A waiter that got some votes but not
//! the lock is woken after a random pause the next time, and the pause grows.
//!
//! A client that has released to waiters of other clients lets them go first: if it wants the lock again at once, it
//! would meet them at the nodes. The nodes have noted it, and report the next release.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use foldhash::fast::RandomState;
use leasehold_proto::quorum::majority;
use leasehold_proto::{Backoff, Deadline, Now};

use leasehold_core::Name;

/// The first and longest pause after votes were split.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(64));

/// The shortest and longest time for which other clients go first. Twice a round trip is enough: a waiter needs one to
/// hold the lock.
const FIRST: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));
/// How many locks with other clients first are remembered.
const PASSED: usize = 1024;

/// The locks that the client waits for.
#[derive(Debug)]
pub(super) struct Waits {
    nodes: usize,
    /// The locks that were released to other clients: until when these go first, by steady time, and the nodes that
    /// notified them.
    passed: HashMap<Name, (u64, u64), RandomState>,
    locks: HashMap<Name, Wait, RandomState>,
    /// The notifications for later, by steady time.
    due: BTreeMap<(u64, Name), ()>,
}

#[derive(Debug, Default)]
struct Wait {
    /// The nodes that reported the lock as free since the last request.
    freed: u64,
    /// The nodes that refused since then because another client holds it; only they will report it
    /// as free.
    busy: u64,
    /// The answer to the last try is not complete.
    asking: bool,
    pauses: Option<Backoff>,
}

impl Waits {
    pub(super) fn new(nodes: usize) -> Self {
        Self { nodes, passed: HashMap::default(), locks: HashMap::default(), due: BTreeMap::new() }
    }

    /// Begins a request for a lock: earlier reports do not count any more.
    pub(super) fn asked(&mut self, name: &Name) {
        if let Some(wait) = self.locks.get_mut(name) {
            (wait.freed, wait.busy, wait.asking) = (0, 0, true);
        }
    }

    /// Records that a lock was released, by a request that was sent at `asked`, and that these nodes notified waiters of
    /// other clients.
    pub(super) fn passed(&mut self, now: Now, asked: Now, name: &Name, nodes: u64) {
        if self.locks.contains_key(name) {
            return; // Another task of this client waits, and is notified too.
        }
        if self.passed.len() >= PASSED {
            self.passed.retain(|_, (until, _)| *until > now.steady_ns);
        }
        if self.passed.len() < PASSED {
            let took = Duration::from_nanos(now.steady_ns.saturating_sub(asked.steady_ns));
            let first = Deadline::after(now, (2 * took).clamp(FIRST.0, FIRST.1));
            self.passed.insert(name.clone(), (first.steady_ns(), nodes));
        }
    }

    /// Begins to wait for a lock without a request, if other clients go first; returns for how long at most.
    pub(super) fn lets_go_first(&mut self, now: Now, name: &Name) -> Option<Duration> {
        let (until, nodes) = self.passed.remove(name)?;
        let left = until.checked_sub(now.steady_ns).filter(|left| *left > 0)?;
        if self.locks.contains_key(name) {
            return None;
        }
        self.locks.insert(name.clone(), Wait { busy: nodes, ..Wait::default() });
        Some(Duration::from_nanos(left))
    }

    /// Records that a node refused; it reports when the lock becomes free. While it `asks`, other
    /// nodes are still outstanding; otherwise the waiter may have left.
    pub(super) fn busy(&mut self, node: usize, name: &Name, asks: bool) {
        if asks && !self.locks.contains_key(name) {
            self.locks.insert(name.clone(), Wait { asking: true, ..Wait::default() });
        }
        if let Some(wait) = self.locks.get_mut(name) {
            wait.busy |= 1 << node.min(63);
        }
    }

    /// Records that a lock was refused though `granted` nodes gave it, and that the client waits.
    /// Returns true if it has become free meanwhile and the client must be notified.
    pub(super) fn refused(&mut self, now: Now, name: &Name, granted: usize, jitter: u64) -> bool {
        let wait = self.locks.entry(name.clone()).or_default();
        wait.asking = false;
        match granted {
            0 => wait.pauses = None,
            _ => drop(wait.pauses.get_or_insert_with(|| Backoff::new(PAUSES.0, PAUSES.1))),
        }
        self.ripe(now, name, jitter)
    }

    /// Ends the wait for a lock.
    pub(super) fn leave(&mut self, name: &Name) {
        if !self.locks.is_empty() {
            self.locks.remove(name);
        }
    }

    /// Records that a node reports a lock as free. Returns true if the client must be notified now.
    pub(super) fn freed(&mut self, now: Now, node: usize, name: &Name, jitter: u64) -> bool {
        let Some(wait) = self.locks.get_mut(name) else {
            // It was released again before this client asked.
            self.passed.remove(name);
            return false;
        };
        wait.freed |= 1 << node.min(63);
        self.ripe(now, name, jitter)
    }

    /// Returns true if a majority has reported the lock as free, or all nodes that had refused: the
    /// other nodes granted it, or are unreachable, and will report nothing.
    fn ripe(&mut self, now: Now, name: &Name, jitter: u64) -> bool {
        let Some(wait) = self.locks.get_mut(name) else { return false };
        let (enough, open) = (majority(self.nodes), wait.busy & !wait.freed);
        let is_free = wait.freed.count_ones() as usize >= enough || open == 0;
        if wait.asking || wait.freed == 0 || !is_free {
            return false;
        }
        if (wait.busy.count_ones() as usize) < enough {
            // No client held the whole lock: others may be trying too.
            wait.pauses.get_or_insert_with(|| Backoff::new(PAUSES.0, PAUSES.1));
        }
        wait.freed = 0;
        let Some(pauses) = &mut wait.pauses else { return true };
        let pause = u64::try_from(pauses.next(jitter).as_nanos()).unwrap_or(u64::MAX);
        self.due.insert((now.steady_ns.saturating_add(pause), name.clone()), ());
        false
    }

    /// Returns when the next waiter must be notified.
    pub(super) fn next(&self) -> Option<u64> {
        self.due.first_key_value().map(|((at_ns, _), ())| *at_ns)
    }

    /// Takes out a lock that is due and still has a waiter.
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

    /// Records a try that these nodes refused, and that `granted` nodes granted.
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
        assert!((0..9).all(|_| !waits.freed(NOW, 1, &name, 0)), "one node is not a majority");
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
        // The pause is longer the next time; a waiter that has left is not woken.
        refused(&mut waits, &name, &[0, 1], 1);
        assert!((0..2).all(|node| !waits.freed(NOW, node, &name, u64::MAX)));
        assert!(waits.next().unwrap() > at);
        waits.leave(&name);
        assert_eq!(waits.take_due(late), None);
        // A waiter that lost to a holder of the whole lock wakes at once again.
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
    fn who_has_released_to_others_waits_for_their_release() {
        let name = Name::new("a").unwrap();
        let at = |ms: u64| Now { steady_ns: ms * 1_000_000, wall_ns: 0 };
        let mut waits = Waits::new(3);
        assert_eq!(waits.lets_go_first(at(0), &name), None);
        waits.passed(at(3), at(0), &name, 0b011);
        assert_eq!(waits.lets_go_first(at(4), &name), Some(Duration::from_millis(5)));
        assert!(!waits.freed(at(5), 0, &name, 0));
        assert!(waits.freed(at(5), 1, &name, 0), "both nodes that notified the others");
        waits.leave(&name);
        // Once, only for a while, not for a task beside another one, and not after the next release.
        assert_eq!(waits.lets_go_first(at(5), &name), None);
        waits.passed(at(5), at(5), &name, 0b111);
        assert_eq!(waits.lets_go_first(at(7), &name), None);
        waits.passed(at(8), at(8), &name, 0b111);
        assert!(!waits.freed(at(8), 2, &name, 0));
        assert_eq!(waits.lets_go_first(at(8), &name), None);
        refused(&mut waits, &name, &[0, 1, 2], 0);
        waits.passed(at(9), at(9), &name, 0b111);
        assert_eq!(waits.lets_go_first(at(9), &name), None);
    }

    #[test]
    fn nodes_that_have_nothing_to_say_are_not_waited_for() {
        let name = Name::new("a").unwrap();
        let mut waits = Waits::new(3);
        // One node is unreachable, one would grant, and the third has the holder's lease.
        assert!(!refused(&mut waits, &name, &[0], 0));
        assert_eq!(waits.next(), None);
        assert!(!waits.freed(NOW, 0, &name, 0));
        assert!(waits.next().is_some(), "after a pause: others may have split the votes");
        // A late refusal, for a waiter that has left.
        waits.leave(&name);
        waits.busy(1, &name, false);
        assert!(!waits.freed(NOW, 1, &name, 0));
    }
}
