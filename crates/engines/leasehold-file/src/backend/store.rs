//! The state that a backend's calls share, and the processing of one acquire request.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, Answer, EventSink, Grant, Term};
use leasehold_core::clock::Clock;
use leasehold_core::{ErrorKind, Result, Token, TokenBlock};

use super::attempts::{Attempts, Begun, Lease};
use super::directory::Directory;
use super::lock_file::LockFile;
use super::status::Here;
use super::waiter_queue::QueuePlace;
use super::watch::{Watch, Watching};

/// The state that all calls of a backend share.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) directory: Directory,
    pub(crate) here: Here,
    pub(crate) attempts: Attempts<Seat>,
    pub(crate) clock: Clock,
    pub(crate) watching: Mutex<Watching>,
}

/// The state of a waiting attempt between two requests. Dropping it leaves the queue.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    /// The first field, so that it is dropped first: closing the files must not wake this attempt.
    pub(crate) watch: Option<(std::path::PathBuf, Watch)>,
    /// The lock file, kept open, because closing it notifies the first waiter.
    pub(crate) file: Option<LockFile>,
    pub(crate) place: Option<QueuePlace>,
    /// Since when (steady clock) the lock has been free, and its last token.
    pub(crate) free_since: Option<(u64, Option<Token>)>,
}

/// The result of a request.
pub(crate) enum Taken {
    Lease(Lease),
    InLine { place: u64, ask_again: Duration },
    Busy,
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

    /// Processes one acquire request.
    pub(crate) fn acquire(&self, request: &AcquireRequest) -> Result<Answer> {
        let (turn, mut seat) = match self.attempts.begin(request.attempt) {
            Begun::Go(turn, seat) => (turn, seat),
            Begun::Granted(token) => return Ok(granted(token)),
            Begun::Ended => return Ok(Answer::Ended),
        };
        let files = self.directory.files(&request.name);
        match self.take(request, &files, &mut seat) {
            Ok(Taken::Lease(lease)) => {
                drop(seat);
                let token = lease.token();
                Ok(if turn.granted(lease) { granted(token) } else { Answer::Ended })
            }
            Ok(Taken::InLine { place, ask_again }) => {
                let queued = Answer::Queued { place: Some(place), ask_again };
                Ok(if turn.waits(seat) { queued } else { Answer::Ended })
            }
            Ok(Taken::Busy) => Ok(Answer::Busy { ask_again: None }),
            Err(error) => {
                // Otherwise the caller considers the attempt ended, and its place would stay in the queue.
                if error.kind() == ErrorKind::Unavailable {
                    turn.waits(seat);
                }
                Err(error)
            }
        }
    }
}

fn granted(token: Token) -> Answer {
    Answer::Granted(Grant::new(TokenBlock::single(token), Term::Session, false))
}
