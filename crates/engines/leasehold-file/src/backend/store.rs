//! The state that a backend's calls share.

use std::sync::{Mutex, PoisonError};

use leasehold_core::backend::{Changes, EventSink};
use leasehold_core::clock::Clock;
use leasehold_core::{Name, Token};

use super::attempts::Attempts;
use super::directory::Directory;
use super::here::Here;
use super::lock_file::LockFile;
use super::waiter_queue::QueuePlace;
use super::watch::{Watch, Watching};

/// The state that all calls of a backend share.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) directory: Directory,
    pub(crate) here: Here,
    pub(crate) attempts: Attempts<WaitingAttempt>,
    pub(crate) clock: Clock,
    pub(crate) watching: Mutex<Watching>,
}

/// The state of a waiting attempt between two requests. Dropping it leaves the queue.
#[derive(Debug, Default)]
pub(crate) struct WaitingAttempt {
    /// The first field, so that it is dropped first: closing the files must not wake this attempt.
    pub(crate) watch: Option<(std::path::PathBuf, Watch)>,
    /// The lock file, kept open, because closing it notifies the first waiter.
    pub(crate) file: Option<LockFile>,
    pub(crate) place: Option<QueuePlace>,
    /// Since when (steady clock) the lock has been free, and its last token.
    pub(crate) free_since: Option<(u64, Option<Token>)>,
}

impl Store {
    pub(crate) fn new(directory: Directory, clock: Clock) -> Self {
        Self {
            directory,
            here: Here::find(),
            attempts: Attempts::new(clock.clone()),
            clock,
            watching: Mutex::new(Watching::Unattached),
        }
    }

    /// Sets the sink of events.
    pub(crate) fn attach(&self, events: EventSink) {
        *self.watching.lock().unwrap_or_else(PoisonError::into_inner) = Watching::Attached(events);
    }

    /// Returns what later changes of a lock mark; `None` if that is not possible.
    pub(crate) fn observe(&self, name: &Name) -> Option<Changes> {
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        watching.observe(&self.directory.files(name).lock, &self.clock)
    }
}
