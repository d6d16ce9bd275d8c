//! Acquires a lock of flock(2): locks the file, checks that it is still in its place, and writes the record.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use leasehold_core::backend::wire::only_exclusive;
use leasehold_core::backend::{AcquireRequest, Answer, EventSink, Grant, SweptTable, Term};
use leasehold_core::clock::Clock;
use leasehold_core::{ErrorKind, Name, Result, Token, TokenBlock};

use super::super::attempts::{Attempts, Begun};
use super::super::directory::Files;
use super::super::enter::{ROUNDS, next_record};
use super::super::flock_line::Line;
use super::super::flock_open::open;
use super::super::here::Here;
use super::super::lease::Lease;
use super::super::lock_file::LockFile;
use super::super::os_error::failed;
use super::super::record::{Locker, Record};
use super::super::watch::Watching;
use super::folder::Folder;
use super::place::Place;

/// How often a waiter asks again. A program may unlock the file without closing it, which is no event.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// The same if it cannot be woken.
const POLL: Duration = Duration::from_millis(50);

/// The state that all calls of a backend share.
#[derive(Debug)]
pub(super) struct FlockStore {
    pub(super) folder: Folder,
    pub(super) here: Here,
    pub(super) attempts: Attempts<Option<Place>>,
    pub(super) clock: Clock,
    watching: Mutex<Watching>,
    lines: Mutex<SweptTable<PathBuf, Weak<Line>>>,
}

impl FlockStore {
    pub(super) fn new(folder: Folder, clock: Clock) -> Self {
        Self {
            folder,
            here: Here::find(),
            attempts: Attempts::new(clock.clone()),
            clock,
            watching: Mutex::new(Watching::Unattached),
            lines: Mutex::default(),
        }
    }

    /// Sets the sink of events.
    pub(super) fn attach(&self, events: EventSink) {
        *self.watching.lock().unwrap_or_else(PoisonError::into_inner) = Watching::Attached(events);
    }

    /// Processes one acquire request.
    pub(super) fn acquire(&self, request: &AcquireRequest) -> Result<Answer> {
        only_exclusive(request)?;
        let (turn, mut place) = match self.attempts.begin(request.attempt) {
            Begun::Go(turn, place) => (turn, place),
            Begun::Granted(lease) => return Ok(Answer::Granted(grant(&lease))),
            Begun::Ended => return Ok(Answer::Ended),
        };
        match self.take(request, &mut place) {
            Ok(Some(lease)) => {
                drop(place);
                let grant = grant(&lease);
                Ok(if turn.granted(lease) { Answer::Granted(grant) } else { Answer::Ended })
            }
            Ok(None) => {
                let Some(waits) = &place else { return Ok(Answer::Busy { ask_again: None }) };
                let ask_again = Some(if waits.is_watched() { ASK_AGAIN } else { POLL });
                Ok(if turn.waits(place) { Answer::Busy { ask_again } } else { Answer::Ended })
            }
            Err(error) => {
                // The caller ends the attempt, or asks again.
                if error.kind() == ErrorKind::Unavailable {
                    turn.waits(place);
                }
                Err(error)
            }
        }
    }

    /// Tries to acquire the lock; an attempt that waits then has a place in the line.
    fn take(&self, request: &AcquireRequest, place: &mut Option<Place>) -> Result<Option<Lease>> {
        let (known, files) = self.folder.files(&request.name)?;
        let opening = |error| failed("open", &files.lock, error);
        for _ in 0..ROUNDS {
            let locked = match place {
                Some(place) => self.try_place(place)?,
                None => {
                    let file = open(&files.lock).map_err(opening)?;
                    match file.try_lock().map_err(|error| failed("lock", &files.lock, error))? {
                        true => Some(file),
                        false if request.wait => {
                            let line = self.line(&request.name, &files.lock);
                            *place = Some(Place::enter(line, request.attempt, file));
                            continue;
                        }
                        false => None,
                    }
                }
            };
            let Some(file) = locked else { return Ok(None) };
            if let Some(lease) = self.settle(request, &known, &files, file)? {
                return Ok(Some(lease));
            }
        }
        let why = io::Error::other("another process removed this file repeatedly");
        Err(failed("keep", &files.lock, why))
    }

    /// Tries to lock the file for an attempt that waits, and has it woken if that fails.
    fn try_place(&self, place: &mut Place) -> Result<Option<LockFile>> {
        let locked = place.try_lock()?;
        if locked.is_some() || place.is_watched() {
            return Ok(locked);
        }
        place.watch(|line| {
            let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
            watching.watch_flock(line, &self.clock)
        });
        // It may have been unlocked before it was watched.
        place.try_lock()
    }

    fn line(&self, name: &Name, path: &Path) -> Arc<Line> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = lines.get(path).and_then(Weak::upgrade) {
            return line;
        }
        let line = Arc::new(Line::new(name.clone(), path.to_owned()));
        let weak = Arc::downgrade(&line);
        *lines.entry_or(path.to_owned(), Weak::new, |line| line.strong_count() > 0) = weak;
        line
    }

    /// Turns a locked file into a lease. `None`, and unlocked, if the path points to another file now.
    fn settle(
        &self,
        request: &AcquireRequest,
        known: &Name,
        files: &Files,
        file: LockFile,
    ) -> Result<Option<Lease>> {
        let is_there =
            || file.is_at(&files.lock).map_err(|error| failed("lock", &files.lock, error));
        let write = || match is_there()? {
            true => {
                let token = self.write(request, known, files)?;
                Ok(is_there()?.then_some(token))
            }
            false => Ok(None),
        };
        match write() {
            Ok(Some(token)) => Ok(Some(Lease::new(file, files.lock.clone(), token))),
            other => {
                // Closing is not enough while a child of another thread is between fork and exec.
                let _ = file.unlock();
                other.map(|_| None)
            }
        }
    }

    /// Writes the record of a new holder with the next token. Only the holder may call this.
    fn write(&self, request: &AcquireRequest, known: &Name, files: &Files) -> Result<Token> {
        if !self.folder.is_prepared() {
            self.folder.prepare()?;
        }
        let last = Record::read(&files.record, known)?;
        let now = self.clock.now();
        let record = next_record(&self.here, known, last.as_ref(), request, now, files)?;
        let pid_namespace = self.here.pid_namespace;
        record.with_locker(Locker { pid: std::process::id(), pid_namespace }).write(files)
    }
}

fn grant(lease: &Lease) -> Grant {
    Grant::new(TokenBlock::single(lease.token()), Term::Session, false)
}
