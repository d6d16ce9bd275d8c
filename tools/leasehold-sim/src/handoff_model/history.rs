//! What has happened, kept beside the state so that promises can be checked against it.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_proto::AttemptId;
use leasehold_proto::handoff::Verdict;

/// What became of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It is the current one.
    Current,
    /// Its owner ended it in time.
    Released,
    /// It ended otherwise.
    Lost,
}

/// A promise that a step has broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    /// A token was used twice.
    Duplicate,
    /// A token was used, or a block reserved, below one that was used before.
    Order,
    /// A release was told what is not so.
    Verdict,
    /// The lease was handed to a client that no push could reach.
    Unreached,
}

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// Every lease by its first token.
    pub fates: BTreeMap<u64, Fate>,
    /// Attempts whose end has been carried out.
    pub ended: BTreeSet<AttemptId>,
    /// The tokens that were used.
    used: BTreeSet<u64>,
    /// Leases that an operator ended, by their first tokens: their holders learn of it later.
    pub forced: BTreeSet<u64>,
    /// The lease that was granted last before a clean-up: the server cannot tell any more how it ended.
    forgotten: u64,
    /// The first promise that was broken.
    pub broken: Option<Broken>,
}

impl History {
    /// A holder uses a token for the first time. `ordered` when it must be the highest so far.
    pub(super) fn uses(&mut self, token: u64, ordered: bool) {
        let highest = self.highest();
        if !self.used.insert(token) {
            self.breaks(Broken::Duplicate);
        } else if ordered && token < highest {
            self.breaks(Broken::Order);
        }
    }

    /// The server reserves a block.
    pub(super) fn grants(&mut self, base: u64) {
        if base <= self.highest() {
            self.breaks(Broken::Order);
        }
        self.fates.insert(base, Fate::Current);
    }

    /// The lease that starts with `base` is over; a later fate does not replace an earlier one.
    pub(super) fn ends(&mut self, base: u64, fate: Fate) {
        if let Some(current @ Fate::Current) = self.fates.get_mut(&base) {
            *current = fate;
        }
    }

    /// The server tells what became of the lease that starts with `base`.
    pub(super) fn tells(&mut self, base: Option<u64>, verdict: Verdict) {
        let Some(base) = base else { return };
        let fate = self.fates.get(&base).copied();
        // The record that could tell was removed: nothing better than Unknown or Lost can be told, but a
        // lease that was lost must not be called released.
        let removed = base <= self.forgotten;
        let wrong = match verdict {
            Verdict::Released => fate != Some(Fate::Released),
            Verdict::Lost => fate != Some(Fate::Lost) && !removed,
            Verdict::Gone => true,
            Verdict::Unknown => false,
        };
        if wrong {
            self.breaks(Broken::Verdict);
        }
    }

    /// A clean-up removes the record.
    pub(super) fn forget(&mut self) {
        self.forgotten = self.fates.last_key_value().map_or(0, |(base, _)| *base);
    }

    /// How many tokens were used.
    pub fn used(&self) -> usize {
        self.used.len()
    }

    fn highest(&self) -> u64 {
        self.used.last().copied().unwrap_or(0)
    }

    pub(super) fn breaks(&mut self, broken: Broken) {
        self.broken.get_or_insert(broken);
    }
}
