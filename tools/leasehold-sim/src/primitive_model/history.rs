//! What has happened, kept beside the state so that promises can be checked against it.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_proto::AttemptId;
use leasehold_proto::handoff::{ReleaseRequest, Verdict};

use super::{Lease, Want};

/// A promise that a step has broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    /// A token was used twice, but not by readers of one phase.
    Duplicate,
    /// A token was used or reserved below one that was used before.
    Order,
    /// A release was told what is not so.
    Verdict,
    /// A step changed the lease of an attempt that did not ask for it.
    Prolonged,
    /// A step sent more messages than it may.
    Work,
    /// A waiter was overtaken.
    Overtaken,
    /// More slots than the limit were granted.
    Limit,
    /// A downgrade of a valid lease did not succeed, or let others in.
    Downgrade,
}

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// Attempts whose end has been carried out.
    pub ended: BTreeSet<AttemptId>,
    /// Leases that their holders ended in time, by attempt, token and first slot.
    released: BTreeSet<(AttemptId, u64, u32)>,
    /// The tokens that were used, by slot, and whether readers did.
    used: BTreeMap<(u32, u64), bool>,
    /// How many phases of the other mode may still begin before each waiter's.
    pub(crate) patience: BTreeMap<AttemptId, usize>,
    /// A task has taken a cached lease.
    pub taken: bool,
    /// The first promise that was broken.
    pub broken: Option<Broken>,
}

/// The slots whose tokens a lease uses. A lock is as one slot.
fn marks(slots: &[u32]) -> &[u32] {
    if slots.is_empty() { &[0] } else { slots }
}

impl History {
    /// A holder begins to use its token. `in_order`: the token must be the highest so far.
    pub(super) fn uses(&mut self, slots: &[u32], token: u64, reads: bool, in_order: bool) {
        for slot in marks(slots) {
            let highest = self.highest(*slot);
            match self.used.insert((*slot, token), reads) {
                Some(others_read) if !(reads && others_read) => self.breaks(Broken::Duplicate),
                _ if in_order && token < highest => self.breaks(Broken::Order),
                _ => {}
            }
        }
    }

    /// The server grants a lease: its tokens start above those that were used before.
    pub(super) fn grants(&mut self, lease: &Lease) {
        for slot in marks(&lease.slots) {
            let shares = lease.want == Want::Read
                && self.used.get(&(*slot, lease.base)).is_some_and(|reads| *reads);
            let highest = self.highest(*slot);
            if lease.base < highest || lease.base == highest && !shares {
                self.breaks(Broken::Order);
            }
        }
    }

    /// A holder ends its lease in time.
    pub(super) fn releases(&mut self, attempt: AttemptId, leases: &[Lease]) {
        let own = |lease: &&Lease| lease.attempt == attempt;
        let name = |lease: &Lease| (attempt, lease.base, marks(&lease.slots)[0]);
        self.released.extend(leases.iter().find(own).map(name));
    }

    /// The server tells what became of the lease that a release names.
    pub(super) fn tells(&mut self, release: &ReleaseRequest, slot: Option<u32>, verdict: Verdict) {
        let Some(base) = release.base else { return };
        let released = self.released.contains(&(release.attempt, base.get(), slot.unwrap_or(0)));
        let wrong = match verdict {
            Verdict::Released => !released,
            Verdict::Lost => released,
            Verdict::Gone => true,
            Verdict::Unknown => false,
        };
        if wrong {
            self.breaks(Broken::Verdict);
        }
    }

    /// How many different tokens were used.
    pub fn used(&self) -> usize {
        self.used.len()
    }

    fn highest(&self, slot: u32) -> u64 {
        let last = self.used.range((slot, 0)..=(slot, u64::MAX)).next_back();
        last.map_or(0, |((_, token), _)| *token)
    }

    pub(super) fn breaks(&mut self, broken: Broken) {
        self.broken.get_or_insert(broken);
    }
}
