//! What the attempts of one client hold of the two locks.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_proto::{AttemptId, Token};

use crate::random;

/// What an attempt that holds the foreign lock has of the native one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Native {
    /// It was asked for.
    Asked,
    /// It is held, with this token.
    Held(Token),
    /// The mark of clients with `wire` stands for it.
    Marked,
}

impl Native {
    pub(super) fn token(self) -> Option<Token> {
        match self {
            Self::Held(token) => Some(token),
            Self::Asked | Self::Marked => None,
        }
    }
}

/// How many attempts are remembered that gave the foreign lock back without an end.
const MOST: usize = 1000;

/// The attempts that hold the foreign lock, each with its token.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    table: Mutex<HashMap<AttemptId, (Token, Native)>>,
    /// Attempts that gave the foreign lock back since they did not wait for the native one, with the attempts that ask for
    /// it instead from then on: engines refuse an attempt that has ended.
    instead: Mutex<Vec<(AttemptId, AttemptId)>>,
}

impl Attempts {
    pub(super) fn get(&self, attempt: AttemptId) -> Option<(Token, Native)> {
        self.lock().get(&attempt).copied()
    }

    pub(super) fn set(&self, attempt: AttemptId, foreign: Token, native: Native) {
        self.lock().insert(attempt, (foreign, native));
    }

    pub(super) fn forget(&self, attempt: AttemptId) {
        self.lock().remove(&attempt);
    }

    /// Returns the attempt that asks for the foreign lock.
    pub(super) fn foreign(&self, attempt: AttemptId) -> AttemptId {
        let instead = self.instead();
        instead.iter().rev().find(|(one, _)| *one == attempt).map_or(attempt, |(_, other)| *other)
    }

    /// Has another attempt ask for the foreign lock from now on.
    pub(super) fn replace(&self, attempt: AttemptId) {
        let (table, mut instead) = (self.lock(), self.instead());
        instead.retain(|(one, _)| *one != attempt);
        if instead.len() >= MOST {
            instead.retain(|(one, _)| table.contains_key(one));
        }
        let other = AttemptId::new(attempt.client(), random::fresh() as u32, attempt.random());
        instead.push((attempt, other));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AttemptId, (Token, Native)>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn instead(&self) -> MutexGuard<'_, Vec<(AttemptId, AttemptId)>> {
        self.instead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
