//! The state of a name as people see it: its holder, its waiters, and the result of a forced release.

use std::time::Duration;

use leasehold_proto::{AttemptId, Token, handoff, semaphore};

use crate::latch_state::{self, LatchState};
use crate::{Error, Name};

/// The state of one lock, as `status`, `watch` and `list` show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The name of the lock.
    pub name: Name,
    /// Whether and how it is held.
    pub state: State,
    /// The current holder, or the last known holder. If several clients read, one of them.
    pub holder: Option<Holder>,
    /// The clients that hold the lock to read, at most the first hundred. Empty unless the state is
    /// [`State::Shared`].
    pub readers: Vec<Holder>,
    /// The limit and the permits, if the name is that of a semaphore.
    pub permits: Option<Permits>,
    /// Which parties are missing, if the name is that of a latch.
    pub latch: Option<LatchState>,
    /// The current token, or the last known token.
    pub token: Option<Token>,
    /// When the holder acquired it: milliseconds since the Unix epoch, by the clock of the engine.
    pub since_unix_ms: Option<u64>,
    /// How long the lease lasts without renewal, or how long the store keeps a latch that does not change; `None` for
    /// sessions and free locks.
    pub remaining: Option<Duration>,
    /// The waiters in queue order, as far as the engine knows; `None` if it does not know.
    pub waiters: Option<Vec<Waiter>>,
    /// How many waiters follow those; an engine may list only the first hundred.
    pub more_waiters: usize,
    /// A hint for the user: for example, the holder is paused, or its clock is far off.
    pub note: Option<String>,
}

impl Status {
    /// Returns the status of a free lock; optional fields are empty.
    pub fn free(name: &Name) -> Self {
        Self {
            name: name.clone(),
            state: State::Free,
            holder: None,
            readers: Vec::new(),
            permits: None,
            latch: None,
            token: None,
            since_unix_ms: None,
            remaining: None,
            waiters: None,
            more_waiters: 0,
            note: None,
        }
    }

    /// Returns the status of a name whose record cannot be read, with the reason as its note.
    pub fn unknown(name: &Name, why: &Error) -> Self {
        let note = Some(why.message().to_owned());
        Self { state: State::Unknown, note, ..Self::free(name) }
    }

    /// Returns the status of a latch that an engine stores as these bytes, and keeps for `remaining` unless it changes.
    /// A latch that a newer version wrote has a note instead of [`latch`](Self::latch). Bytes that are no latch are shown as a
    /// free lock.
    pub fn of_latch(name: &Name, bytes: &[u8], remaining: Option<Duration>) -> Self {
        let (latch, note) = (latch_state::state_of(bytes), latch_state::describe(bytes));
        Self {
            state: if latch.is_some() || note.is_some() { State::Latch } else { State::Free },
            latch,
            remaining,
            note,
            ..Self::free(name)
        }
    }
}

/// Whether a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// No client holds the lock.
    Free,
    /// A client holds the lock.
    Held,
    /// One or more clients hold the lock to read.
    Shared,
    /// One or more clients hold permits of a semaphore.
    Permits,
    /// The name is that of a latch; [`Status::latch`] says which parties are missing.
    Latch,
    /// The holder has released the lock, which stays taken until its minimum hold ends.
    Kept,
    /// The record of the name cannot be read, for example because a newer version wrote it; [`Status::note`] says why.
    Unknown,
}

/// The limit and the permits of a semaphore.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Permits {
    /// How many slots may be in use at once.
    pub limit: u32,
    /// The version of the limit, which grows by one with each change.
    pub version: u64,
    /// How many slots are in use.
    pub held: u32,
    /// The permits, at most the first hundred.
    pub holders: Vec<Permitted>,
}

impl Permits {
    /// Creates it from the stored limit; no slot is in use.
    pub fn new(limit: u32, version: u64) -> Self {
        Self { limit, version, held: 0, holders: Vec::new() }
    }
}

/// A permit of a semaphore.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Permitted {
    /// The client that holds it.
    pub holder: Holder,
    /// The numbers of its slots, ascending from 0.
    pub slots: Vec<u32>,
    /// Its fencing token.
    pub token: Token,
    /// How long it lasts without renewal; `None` for sessions.
    pub remaining: Option<Duration>,
}

impl Permitted {
    /// Creates the description of a permit.
    pub fn new(holder: Holder, slots: Vec<u32>, token: Token, remaining: Option<Duration>) -> Self {
        Self { holder, slots, token, remaining }
    }
}

/// The process that holds or waits, for display only: the protocol does not use it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The attempt that holds or waits.
    pub attempt: AttemptId,
    /// The name of the host, as the host reports it.
    pub host: String,
    /// The process id on that host.
    pub pid: u32,
    /// Text that the program set (at most 1 KiB); `leasehold run` sets the name of the program that it runs.
    pub metadata: Option<String>,
}

impl Holder {
    /// Creates the description of a holder or waiter.
    pub fn new(attempt: AttemptId, host: String, pid: u32, metadata: Option<String>) -> Self {
        Self { attempt, host, pid, metadata }
    }
}

/// A client that waits. The tasks of one client that wait for the same lock have one place in the
/// queue of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// The process that waits.
    pub holder: Holder,
    /// Since when: milliseconds since the Unix epoch.
    pub since_unix_ms: u64,
    /// It waits to read.
    pub shared: bool,
    /// How many slots of a semaphore it waits for; `None` for a lock.
    pub slots: Option<u32>,
}

impl Waiter {
    /// Creates a waiter for an exclusive lease that has waited since this time, in milliseconds since
    /// the Unix epoch.
    pub fn new(holder: Holder, since_unix_ms: u64) -> Self {
        Self { holder, since_unix_ms, shared: false, slots: None }
    }

    /// Sets [`shared`](Self::shared).
    #[must_use]
    pub fn with_shared(self, shared: bool) -> Self {
        Self { shared, ..self }
    }

    /// Sets [`slots`](Self::slots).
    #[must_use]
    pub fn with_slots(self, slots: u32) -> Self {
        Self { slots: Some(slots), ..self }
    }
}

/// The result of a forced release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forced {
    /// The lease has ended.
    Ended,
    /// No client holds the lock.
    NotHeld,
    /// Another lease holds the lock; nothing was changed.
    Other(Token),
    /// Several permits of a semaphore have this token, in different slots; nothing was changed.
    Several,
}

impl From<semaphore::Forced> for Forced {
    fn from(forced: semaphore::Forced) -> Self {
        match forced {
            semaphore::Forced::Ended => Self::Ended,
            semaphore::Forced::NotHeld => Self::NotHeld,
            semaphore::Forced::Several => Self::Several,
        }
    }
}

impl From<handoff::Forced> for Forced {
    fn from(forced: handoff::Forced) -> Self {
        match forced {
            handoff::Forced::Ended => Self::Ended,
            handoff::Forced::NotHeld => Self::NotHeld,
            handoff::Forced::Other(token) => Self::Other(token),
        }
    }
}
