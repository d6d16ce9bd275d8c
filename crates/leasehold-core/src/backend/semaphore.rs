//! What engines with semaphores share: the requests that concern a limit, and the record's answers as
//! answers, events and errors of the interface.

use leasehold_proto::semaphore::{self, Conflict, Demand, Limit};
use leasehold_proto::{AttemptId, Deadline, Now, drift};

use super::{Answer, Event, Grant, Term};
use crate::{Error, ErrorKind, Name, Result};

/// The stored limit of a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredLimit {
    /// How many slots may be in use at once.
    pub limit: Limit,
    /// Its version, which grows by one with each change.
    pub version: u64,
}

impl StoredLimit {
    /// Creates it from its parts.
    pub fn new(limit: Limit, version: u64) -> Self {
        Self { limit, version }
    }
}

/// A request to change the limit of a semaphore.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitChange {
    /// The name of the semaphore.
    pub name: Name,
    /// The version of the limit that it replaces; 0 if none is stored. The engine changes nothing if
    /// the limit has another version. A repeated change has the same answer.
    pub version: u64,
    /// The new limit.
    pub limit: Limit,
}

impl LimitChange {
    /// Creates a request to replace the limit that has this version.
    pub fn new(name: Name, version: u64, limit: Limit) -> Self {
        Self { name, version, limit }
    }
}

/// The answer to a [`LimitChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitChanged {
    /// The limit is stored, with this version.
    Changed(u64),
    /// Another change came first; nothing has changed.
    Conflict(Conflict),
}

impl From<Result<u64, Conflict>> for LimitChanged {
    fn from(changed: Result<u64, Conflict>) -> Self {
        changed.map_or_else(Self::Conflict, Self::Changed)
    }
}

/// Returns the answer for what a semaphore record answers to a request with this demand.
///
/// # Errors
/// `Invalid` if the stored limit is another one, and `Foreign` if no token is left.
pub fn answer_of_semaphore(answer: semaphore::Answer, demand: Demand) -> Result<Answer> {
    let ask_again = answer.ask_again();
    match answer {
        semaphore::Answer::Granted(semaphore::Permit { tokens, slots }) => {
            Ok(Answer::Permit { grant: Grant::new(tokens, Term::Ttl, false), slots })
        }
        semaphore::Answer::Queued { place, .. } => {
            let place = Some(place as u64);
            Ok(Answer::Queued { place, ask_again: ask_again.unwrap_or_default() })
        }
        semaphore::Answer::Busy(_) => Ok(Answer::Busy { ask_again }),
        semaphore::Answer::Invalid(stored) => Err(refused_by_limit(stored, demand)),
        semaphore::Answer::Ended => Ok(Answer::Ended),
        semaphore::Answer::UsedUp => Err(Error::new(
            ErrorKind::Foreign,
            "the semaphore has no token left (2^53-1 was reached); use another name",
        )),
    }
}

/// Returns the event for a push of a semaphore record to this attempt.
pub fn event_of_semaphore(
    now: Now,
    name: &Name,
    attempt: AttemptId,
    push: semaphore::Push,
) -> Event {
    let name = name.clone();
    match push {
        semaphore::Push::Granted { permit, offer, waiters } => {
            let term = Term::Offer(Deadline::after(now, offer.saturating_sub(drift(offer))));
            let grant = Grant::new(permit.tokens, term, waiters > 0);
            Event::Permit { name, attempt, grant, slots: permit.slots }
        }
        semaphore::Push::Next { remaining } => Event::Next { name, attempt, ask_again: remaining },
        semaphore::Push::Refused { limit } => Event::Refused { name, attempt, limit },
        semaphore::Push::Lost { base } => Event::Lost { attempt, base: Some(base) },
    }
}

/// Returns the error for a request whose demand does not fit the stored limit.
pub fn refused_by_limit(stored: Limit, demand: Demand) -> Error {
    let message = format!(
        "the semaphore has limit {stored}, and this client asks for {} of {}: use the same limit \
         in all clients, or change the stored one (`leasehold limit NAME N`, or set_limit)",
        demand.slots(),
        demand.limit()
    );
    Error::new(ErrorKind::Invalid, message)
}

/// Returns the error for a permit of a name under which a lock is stored.
pub fn is_a_lock() -> Error {
    let message = "the name belongs to a lock, and this client uses it for a semaphore: use another name \
                   for the semaphore";
    Error::new(ErrorKind::Invalid, message)
}

/// Returns the error for a lock of a name under which a semaphore is stored.
pub fn is_a_semaphore() -> Error {
    let message = "the name belongs to a semaphore, and this client asks for a lock: use another \
                   name for the lock";
    Error::new(ErrorKind::Invalid, message)
}
