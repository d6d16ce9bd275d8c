//! The leases that a client keeps though no task of it holds them, for its next task.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;
use leasehold_proto::{AttemptId, Deadline, Now};

use crate::Name;
use crate::hold::Hold;
use crate::table_capacity::shrink_map;

/// The lists have at most twice as many entries as there are leases, and so many more.
const SPARE: usize = 64;

/// Cached leases of a client, by name, by the time of their release and by the time when each is
/// given back.
///
/// A lease that is taken leaves its entries in the lists, since most leases are taken soon: entries that belong to no lease are
/// skipped, and removed together when they are the greater part.
#[derive(Debug, Default)]
pub(crate) struct CachedLeases {
    by_name: HashMap<Name, Cached, RandomState>,
    /// The releases in their order.
    by_release: VecDeque<Release>,
    /// The ends on the steady clock, the soonest first.
    by_end: BinaryHeap<Reverse<(u64, Release)>>,
}

#[derive(Debug)]
struct Cached {
    hold: Arc<Hold>,
    /// The number of its release.
    release: u64,
}

/// The number of a release, and the lock.
type Release = (u64, Name);

impl CachedLeases {
    /// Adds a lease that its last holder has just released, with the number of that release. Returns an earlier lease of the lock,
    /// which must be given back.
    pub(crate) fn insert(
        &mut self,
        hold: Arc<Hold>,
        until: Deadline,
        release: u64,
    ) -> Option<Arc<Hold>> {
        let name = hold.name.clone();
        self.by_release.push_back((release, name.clone()));
        self.by_end.push(Reverse((until.steady_ns(), (release, name.clone()))));
        let earlier = self.by_name.insert(name, Cached { hold, release });
        self.clean();
        earlier.map(|earlier| earlier.hold)
    }

    /// Returns the number of the release of the lease that was used least recently.
    pub(crate) fn oldest(&mut self) -> Option<u64> {
        while let Some((release, name)) = self.by_release.front() {
            if self.by_name.get(name).is_some_and(|cached| cached.release == *release) {
                return Some(*release);
            }
            self.by_release.pop_front();
        }
        None
    }

    /// Removes and returns the lease that was used least recently.
    pub(crate) fn take_oldest(&mut self) -> Option<Arc<Hold>> {
        let release = self.oldest()?;
        let (_, name) = self.by_release.pop_front()?;
        self.take_release(release, &name)
    }

    /// Removes the entries without a lease, once they are the greater part.
    fn clean(&mut self) {
        let Self { by_name, by_release, by_end, .. } = self;
        if by_release.len().max(by_end.len()) <= 2 * by_name.len() + SPARE {
            return;
        }
        let is_current = |(release, name): &Release| {
            by_name.get(name).is_some_and(|cached| cached.release == *release)
        };
        by_release.retain(is_current);
        by_end.retain(|Reverse((_, release))| is_current(release));
        by_release.shrink_to(by_name.len() + SPARE);
        by_end.shrink_to(by_name.len() + SPARE);
    }

    /// Removes and returns the lease of a lock.
    pub(crate) fn take(&mut self, name: &Name) -> Option<Arc<Hold>> {
        if self.by_name.is_empty() {
            return None;
        }
        self.by_name.remove(name).map(|cached| cached.hold)
    }

    /// Removes and returns the lease that came with this release, unless it was taken since.
    fn take_release(&mut self, release: u64, name: &Name) -> Option<Arc<Hold>> {
        self.by_name.get(name).filter(|cached| cached.release == release)?;
        self.take(name)
    }

    /// Removes and returns the lease of a lock, if it belongs to this attempt.
    pub(crate) fn take_of(&mut self, name: &Name, attempt: AttemptId) -> Option<Arc<Hold>> {
        self.by_name.get(name).filter(|cached| cached.hold.attempt == attempt)?;
        self.take(name)
    }

    /// Removes and returns the leases whose time has passed.
    pub(crate) fn take_due(&mut self, now: Now) -> Vec<Arc<Hold>> {
        let mut due = Vec::new();
        while let Some(Reverse((end, _))) = self.by_end.peek()
            && *end <= now.steady_ns
        {
            let Some(Reverse((_, (release, name)))) = self.by_end.pop() else { break };
            due.extend(self.take_release(release, &name));
        }
        self.clean();
        shrink_map(&mut self.by_name);
        due
    }

    /// Removes and returns all leases.
    pub(crate) fn take_all(&mut self) -> Vec<Arc<Hold>> {
        let Self { by_name, .. } = std::mem::take(self);
        by_name.into_values().map(|cached| cached.hold).collect()
    }

    /// Returns the time of the next look for leases to give back, on the steady clock: no lease has an earlier end.
    pub(crate) fn next_end(&self) -> Option<u64> {
        self.by_end.peek().map(|Reverse((end, _))| *end)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }
}
