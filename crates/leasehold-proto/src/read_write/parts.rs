//! The parts of a record, for engines that keep it in tables.

use super::messages::{Member, Mode, Phase, Waiter};
use super::{Record, Rules};
use crate::{AttemptId, handoff};

/// The parts of a [`Record`]. Times are on the steady clock of the steps.
///
/// An engine with long queues may leave out waiters that are neither among the first few of their
/// mode nor take part in the step. Steps use the others only to count places and waiters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts<T> {
    /// The phase as it was last stored.
    pub phase: Phase,
    /// The mode that goes first when the phase ends.
    pub turn: Mode,
    /// The first token of the current or last phase; 0 before the first one.
    pub base: u64,
    /// The highest token that was ever reserved; 0 before the first phase.
    pub top: u64,
    /// The members of the phase. A kept lock has its former writer as member, until the keep ends.
    pub members: Vec<Member<T>>,
    /// The attempt that acquired last.
    pub last: Option<(AttemptId, T)>,
    /// The first token of the last phase in which a lease ended without a release.
    pub lost: u64,
    /// The mode of that phase.
    pub lost_mode: Mode,
    /// The waiters of both modes in the order of arrival.
    pub queue: Vec<Waiter<T>>,
    /// The attempts that are refused, and until when.
    pub tombstones: Vec<(AttemptId, u64)>,
}

/// The waiters of the new record lapse after [`WAITER_LEASE`](super::WAITER_LEASE).
impl<T, const CAP: usize, R: Rules> From<Parts<T>> for Record<T, CAP, R> {
    fn from(parts: Parts<T>) -> Self {
        let Parts { phase, turn, base, top, members, last, lost, lost_mode, queue, tombstones } =
            parts;
        Self {
            phase,
            turn,
            base,
            top,
            members: members.into_iter().collect(),
            last,
            lost,
            lost_mode,
            queues: queue.into_iter().collect(),
            tombstones: tombstones.into_iter().collect(),
            ..Self::default()
        }
    }
}

impl<T: Clone, const CAP: usize, R> From<Record<T, CAP, R>> for Parts<T> {
    fn from(record: Record<T, CAP, R>) -> Self {
        let Record { phase, turn, base, top, members, last, lost, lost_mode, .. } = record;
        Self {
            phase,
            turn,
            base,
            top,
            members: members.into_values().collect(),
            last,
            lost,
            lost_mode,
            queue: record.queues.iter().cloned().collect(),
            tombstones: record.tombstones.into_iter().collect(),
        }
    }
}

impl<T: Clone> Default for Parts<T> {
    fn default() -> Self {
        Record::<T>::default().into()
    }
}

/// Converts an exclusive record to a read-write record in which all attempts write. The engine sets
/// `seen_ns` of the waiters, which is 0, to the present time.
impl<T: Clone> From<handoff::Parts<T>> for Parts<T> {
    fn from(parts: handoff::Parts<T>) -> Self {
        let handoff::Parts { state, owner, base, top, until_ns, confirmed, lost, .. } = parts;
        let phase = match state {
            handoff::State::Free => Phase::Free,
            handoff::State::Held => Phase::Write,
            handoff::State::Kept => Phase::Kept,
        };
        let member = owner.clone().filter(|_| phase != Phase::Free);
        let member = member.map(|(attempt, tag)| Member { attempt, until_ns, confirmed, tag });
        let waits = |waiter: handoff::Waiter<T>| {
            let handoff::Waiter { attempt, ttl, tokens, tag } = waiter;
            Waiter { attempt, mode: Mode::Write, ttl, tokens, seen_ns: 0, tag }
        };
        Self {
            phase,
            base,
            top,
            members: member.into_iter().collect(),
            last: owner,
            lost,
            queue: parts.queue.into_iter().map(waits).collect(),
            tombstones: parts.tombstones,
            ..Self::default()
        }
    }
}
