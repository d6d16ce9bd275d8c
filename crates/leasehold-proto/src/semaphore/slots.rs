//! The numbered slots: which are free, and which tokens they have had.

use std::collections::{BTreeMap, BTreeSet};

use super::Permit;
use crate::handoff::tokens_above;
use crate::{Now, TokenBlock};

/// The tokens of one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    /// The highest token that was ever reserved; 0 before the first permit.
    pub top: u64,
    /// The first token of the last permit that ended without a release.
    pub lost: u64,
}

/// All slots that were ever used, and how many of them permits have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Slots {
    marks: BTreeMap<u32, Mark>,
    /// The slots that were used and are free. Slots above a lowered limit stay here, since the limit
    /// may grow again.
    free: BTreeSet<u32>,
    held: u32,
}

impl Slots {
    /// Rebuilds the slots from their marks and from the slots that permits have.
    pub(super) fn new(
        marks: impl IntoIterator<Item = (u32, Mark)>,
        held: impl IntoIterator<Item = u32>,
    ) -> Self {
        let marks: BTreeMap<u32, Mark> = marks.into_iter().collect();
        let mut slots = Self { free: marks.keys().copied().collect(), marks, held: 0 };
        for slot in held {
            slots.held += 1;
            slots.free.remove(&slot);
            slots.marks.entry(slot).or_default();
        }
        slots
    }

    /// Returns how many slots permits have.
    pub(super) fn held(&self) -> u32 {
        self.held
    }

    /// Returns the tokens of a slot; zeros if it was never used.
    pub(super) fn mark(&self, slot: u32) -> Mark {
        self.marks.get(&slot).copied().unwrap_or_default()
    }

    /// Iterates over the slots that were ever used, ascending.
    pub(super) fn marks(&self) -> impl Iterator<Item = (u32, Mark)> {
        self.marks.iter().map(|(slot, mark)| (*slot, *mark))
    }

    /// Returns the `count` lowest free slots.
    pub(super) fn lowest_free(&self, count: u32) -> Vec<u32> {
        let unused = self.marks.last_key_value().map_or(0, |(last, _)| last + 1);
        self.free.iter().copied().chain(unused..).take(count as usize).collect()
    }

    /// Reserves `count` tokens above those of all these slots; `None` if no token is left.
    pub(super) fn tokens_above(&self, now: Now, slots: &[u32], count: u32) -> Option<TokenBlock> {
        let top = slots.iter().map(|slot| self.mark(*slot).top).max().unwrap_or(0);
        tokens_above(top, now, count)
    }

    /// Gives the free slots of a permit out.
    pub(super) fn take(&mut self, permit: &Permit) {
        self.held += permit.slots.len() as u32;
        for slot in &permit.slots {
            self.free.remove(slot);
            let mark = self.marks.entry(*slot).or_default();
            if mark.top == 0 {
                // An earlier record may have been removed: how its permits ended is unknown.
                mark.lost = permit.tokens.base().get() - 1;
            }
        }
    }

    /// Records the highest token of a permit.
    pub(super) fn raise(&mut self, permit: &Permit, top: u64) {
        for slot in &permit.slots {
            self.marks.entry(*slot).or_default().top = top;
        }
    }

    /// Records that a permit ended without a release.
    pub(super) fn lose(&mut self, permit: &Permit) {
        for slot in &permit.slots {
            self.marks.entry(*slot).or_default().lost = permit.tokens.base().get();
        }
    }

    /// Takes the slots of an ended permit back; those that `stays` refuses are dropped.
    pub(super) fn give_back(&mut self, permit: &Permit, stays: impl Fn(u32) -> bool) {
        self.held = self.held.saturating_sub(permit.slots.len() as u32);
        self.free.extend(permit.slots.iter().copied().filter(|slot| stays(*slot)));
    }
}
