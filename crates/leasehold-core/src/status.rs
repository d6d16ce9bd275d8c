//! The state of a lock as people see it: its holder, its waiters, and the result of a forced release.

use std::time::Duration;

use leasehold_proto::{AttemptId, Token, handoff};

use crate::Name;

/// The state of one lock, as `status`, `watch` and `list` show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The name of the lock.
    pub name: Name,
    /// Held, kept, or free.
    pub state: State,
    /// The current holder, or the last known holder. If several clients read, one of them.
    pub holder: Option<Holder>,
    /// The clients that hold the lock to read, at most the first hundred. Empty unless the state is
    /// [`State::Shared`].
    pub readers: Vec<Holder>,
    /// The current token, or the last known token.
    pub token: Option<Token>,
    /// When the holder acquired it: milliseconds since the Unix epoch, by the clock of the engine.
    pub since_unix_ms: Option<u64>,
    /// How long the lease lasts without renewal; `None` for sessions and free locks.
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
            token: None,
            since_unix_ms: None,
            remaining: None,
            waiters: None,
            more_waiters: 0,
            note: None,
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
    /// The holder has released the lock, which stays taken until its minimum hold ends.
    Kept,
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
}

impl Waiter {
    /// Creates a waiter for an exclusive lease that has waited since this time, in milliseconds since
    /// the Unix epoch.
    pub fn new(holder: Holder, since_unix_ms: u64) -> Self {
        Self { holder, since_unix_ms, shared: false }
    }

    /// Sets [`shared`](Self::shared).
    #[must_use]
    pub fn with_shared(self, shared: bool) -> Self {
        Self { shared, ..self }
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
