//! The requests of the client, by attempt; one attempt may be tried many times at the nodes.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;
use leasehold_proto::AttemptId;
use tokio::sync::oneshot;

use leasehold_core::Result;
use leasehold_core::backend::{Answer, Verdict};

/// How many ended attempts are remembered, as in the table of [`EndedAttempts`]: the requests of some
/// seconds under full load, in about a megabyte. The nodes refuse late requests themselves; this
/// answers repetitions without asking them.
///
/// [`EndedAttempts`]: leasehold_core::backend::EndedAttempts
const REMEMBERED: usize = 16_384;

/// The state of one attempt of the client.
#[derive(Debug)]
pub(super) enum AttemptState {
    /// The nodes are being asked.
    Asking { run: usize, round: u32, asker: oneshot::Sender<Result<Answer>> },
    /// It holds the lock.
    Held { run: usize, round: u32 },
    /// The nodes refused; the next try uses this round.
    Refused { round: u32, waits: bool },
    /// It is being released.
    Releasing { run: usize },
    /// It has ended.
    Ended(Verdict),
}

impl AttemptState {
    /// Returns true if the entry is needed only for the answer to a late repetition.
    fn is_forgettable(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Refused { waits: false, .. })
    }
}

/// All attempts that the client may ask about.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    known: HashMap<AttemptId, AttemptState, RandomState>,
    forgettable: VecDeque<AttemptId>,
    forgot: bool,
}

impl Attempts {
    pub(super) fn get(&self, attempt: AttemptId) -> Option<&AttemptState> {
        self.known.get(&attempt)
    }

    pub(super) fn get_mut(&mut self, attempt: AttemptId) -> Option<&mut AttemptState> {
        self.known.get_mut(&attempt)
    }

    /// Sets the state of an attempt, and returns the previous state.
    pub(super) fn set(&mut self, attempt: AttemptId, state: AttemptState) -> Option<AttemptState> {
        if state.is_forgettable() {
            self.forgettable.push_back(attempt);
            if self.forgettable.len() > REMEMBERED {
                self.forget_one();
            }
        }
        self.known.insert(attempt, state)
    }

    /// Returns the round in which an unknown attempt begins. After entries were forgotten it may be
    /// any round, since this attempt may be one of them, with releases still on their way.
    pub(super) fn first_round(&self) -> u32 {
        if self.forgot { fastrand::u32(..) } else { 0 }
    }

    fn forget_one(&mut self) {
        let Some(oldest) = self.forgettable.pop_front() else { return };
        if self.known.get(&oldest).is_some_and(AttemptState::is_forgettable) {
            self.known.remove(&oldest);
            self.forgot = true;
        }
    }
}

/// Returns the id of an attempt at the nodes in this round. An attempt id that a node has released
/// once never gets a lease there again. Client and sequence number stay the same.
pub(super) fn in_round(attempt: AttemptId, round: u32) -> AttemptId {
    let all = u128::from_be_bytes(attempt.to_bytes());
    let random = (all as u32).wrapping_add(round);
    AttemptId::from_bytes((all >> 32 << 32 | u128::from(random)).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use leasehold_proto::ClientId;

    use super::*;

    #[test]
    fn rounds_of_an_attempt_have_ids_of_their_own() {
        let attempt = AttemptId::new(ClientId::from_bits(7), 3, u32::MAX);
        assert_eq!(in_round(attempt, 0), attempt);
        assert_eq!(in_round(attempt, 1), AttemptId::new(ClientId::from_bits(7), 3, 0));
    }

    #[test]
    fn what_is_over_is_forgotten_in_time_and_nothing_else() {
        let mut attempts = Attempts::default();
        let id = |number| AttemptId::new(ClientId::from_bits(1), number, 0);
        attempts.set(id(0), AttemptState::Ended(Verdict::Gone));
        attempts.set(id(0), AttemptState::Held { run: 0, round: 1 });
        attempts.set(id(1), AttemptState::Refused { round: 1, waits: true });
        for number in 2..2 * REMEMBERED as u32 {
            attempts.set(id(number), AttemptState::Ended(Verdict::Released));
        }
        assert_eq!(attempts.known.len(), REMEMBERED + 2);
        assert!(attempts.get(id(0)).is_some() && attempts.get(id(1)).is_some());
        assert!(attempts.get(id(2)).is_none());
    }
}
