//! The parts of a record, for engines that keep it in tables.

use super::slots::Slots;
use super::{Held, Limit, MAX_LIMIT, Mark, Permit, Record, Waiter};
use crate::AttemptId;
use crate::client::{Rules, Sound};

/// The parts of a [`Record`]. Times are on the steady clock of the steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts<T> {
    /// The limit and its version; `None` before the first request.
    pub limit: Option<(Limit, u64)>,
    /// All slots that were ever used, with their tokens. A slot without a permit is free.
    pub slots: Vec<(u32, Mark)>,
    /// The permits, including expired ones that no step has removed.
    pub permits: Vec<PermitParts<T>>,
    /// The waiters in queue order.
    pub queue: Vec<Waiter<T>>,
    /// The attempts that are refused, and until when.
    pub tombstones: Vec<(AttemptId, u64)>,
}

/// A permit as a [`Record`] stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermitParts<T> {
    /// The attempt that holds it.
    pub attempt: AttemptId,
    /// Its slots and tokens.
    pub permit: Permit,
    /// When it ends.
    pub until_ns: u64,
    /// True if its holder has confirmed it.
    pub confirmed: bool,
    /// The tag of its request.
    pub tag: T,
}

/// Slot numbers from [`MAX_LIMIT`] on are left out: no record has them.
impl<T, const CAP: usize> From<Parts<T>> for Record<T, CAP, Sound> {
    fn from(parts: Parts<T>) -> Self {
        let mut record = Self { limit: parts.limit, ..Self::default() };
        for PermitParts { attempt, mut permit, until_ns, confirmed, tag } in parts.permits {
            permit.slots.retain(|slot| *slot < MAX_LIMIT);
            record.permits.insert(attempt, until_ns, Held { permit, confirmed, tag });
        }
        let marks = parts.slots.into_iter().filter(|(slot, _)| *slot < MAX_LIMIT);
        let held = record.permits.iter().flat_map(|(_, _, held)| held.permit.slots.iter().copied());
        record.slots = Slots::new(marks, held);
        parts.queue.into_iter().for_each(|waiter| record.queue.push(waiter));
        for (attempt, until_ns) in parts.tombstones {
            record.tombstones.insert(attempt, until_ns, ());
        }
        record
    }
}

impl<T, const CAP: usize, R: Rules<super::Bug>> From<Record<T, CAP, R>> for Parts<T> {
    fn from(record: Record<T, CAP, R>) -> Self {
        let permits = record.permits.into_entries().map(|(attempt, until_ns, held)| {
            let Held { permit, confirmed, tag } = held;
            PermitParts { attempt, permit, until_ns, confirmed, tag }
        });
        Self {
            limit: record.limit,
            slots: record.slots.marks().collect(),
            permits: permits.collect(),
            queue: record.queue.into_waiters().collect(),
            tombstones: record
                .tombstones
                .into_entries()
                .map(|(id, until, ())| (id, until))
                .collect(),
        }
    }
}
