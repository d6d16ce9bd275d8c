//! One ask worked through, start to end, with calls that block.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_core::backend::{Answer, Ask, EventSink, Grant, Term};
use leasehold_core::clock::Clock;
use leasehold_core::{Name, Result, Token, TokenBlock};

use crate::attempts::{Attempts, Begun, Lease};
use crate::directory::{Directory, Files};
use crate::lockfile::{LockFile, Seen, is_absent, look};
use crate::oserror::failed;
use crate::record::{Record, next_token};
use crate::status::Here;
use crate::watch::{Watch, Watcher};

/// When a waiter asks again although nothing was pushed; and where nothing can be.
const SAFETY_NET: Duration = Duration::from_millis(500);
const POLL: Duration = Duration::from_millis(100);

/// How often a lock file that somebody removes under our hands is made anew in one ask.
const REMADE: usize = 16;

/// Everything that the calls of a backend share.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) directory: Directory,
    pub(crate) here: Here,
    pub(crate) attempts: Attempts<Seat>,
    clock: Clock,
    watching: Mutex<Watching>,
}

/// What a waiting attempt keeps from one ask to the next.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    /// Stands first to be dropped first: closing the file must not wake ourselves.
    watch: Option<Watch>,
    /// Kept open, since closing a file that was open for writing wakes everybody.
    file: Option<LockFile>,
}

#[derive(Debug)]
enum Watching {
    Unattached,
    Attached(EventSink),
    Started(Arc<Watcher>),
    /// The system has no more inotify instances for this user.
    Impossible,
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

    /// Where events go from now on.
    pub(crate) fn attach(&self, events: EventSink) {
        *self.watching.lock().unwrap_or_else(PoisonError::into_inner) = Watching::Attached(events);
    }

    /// Answers an ask.
    pub(crate) fn acquire(&self, ask: &Ask) -> Result<Answer> {
        let (turn, mut seat) = match self.attempts.begin(ask.attempt) {
            Begun::Go(turn, seat) => (turn, seat),
            Begun::Granted(token) => return Ok(granted(token)),
            Begun::Ended => return Ok(Answer::Ended),
        };
        let files = self.directory.files(&ask.name);
        match self.take(ask, &files, &mut seat) {
            Ok(Some(lease)) => {
                let token = lease.token();
                Ok(if turn.granted(lease) { granted(token) } else { Answer::Ended })
            }
            Ok(None) if ask.wait => {
                let ask_again = if seat.watch.is_some() { SAFETY_NET } else { POLL };
                let busy = Answer::Busy { ask_again: Some(ask_again) };
                Ok(if turn.waits(seat) { busy } else { Answer::Ended })
            }
            Ok(None) => Ok(Answer::Busy { ask_again: None }),
            Err(error) => {
                if ask.wait {
                    turn.waits(seat);
                }
                Err(error)
            }
        }
    }

    fn take(&self, ask: &Ask, files: &Files, seat: &mut Seat) -> Result<Option<Lease>> {
        if seat.file.is_none() {
            let seen = look(&files.lock).map_err(|error| failed("look at", &files.lock, error))?;
            if matches!(seen, Seen::Held(_)) && !ask.wait {
                return Ok(None);
            }
        }
        for _ in 0..REMADE {
            let Some(file) = self.lock(ask, files, seat)? else { return Ok(None) };
            if let Some(lease) = self.settle(ask, files, file)? {
                return Ok(Some(lease));
            }
        }
        Err(failed(
            "keep",
            &files.lock,
            io::Error::other("somebody removes this file again and again"),
        ))
    }

    /// Locks the lock file; `None` when somebody has it, and then the seat watches it.
    fn lock(&self, ask: &Ask, files: &Files, seat: &mut Seat) -> Result<Option<LockFile>> {
        let locking = |error| failed("lock", &files.lock, error);
        let file = match seat.file.take() {
            Some(file) if file.is_at(&files.lock).map_err(locking)? => file,
            _ => {
                seat.watch = None;
                self.open(files)?
            }
        };
        if ask.wait && seat.watch.is_none() {
            // Before trying, so that a release in between is not missed.
            seat.watch = self.watch(&files.lock, &ask.name);
        }
        if file.try_lock().map_err(locking)? {
            return Ok(Some(file));
        }
        seat.file = Some(file);
        Ok(None)
    }

    fn open(&self, files: &Files) -> Result<LockFile> {
        let opened = match LockFile::open(&files.lock) {
            Err(error) if is_absent(&error) => {
                // The directory was removed since it was opened.
                self.directory.prepare()?;
                LockFile::open(&files.lock)
            }
            opened => opened,
        };
        opened.map_err(|error| failed("open", &files.lock, error))
    }

    /// Makes a locked file a lease: token, record, mark. `None` when the file turns out not to be
    /// the one that the path leads to, so that somebody else may have locked that one.
    fn settle(&self, ask: &Ask, files: &Files, file: LockFile) -> Result<Option<Lease>> {
        let settled = self.write_record(ask, files, &file);
        if !matches!(settled, Ok(Some(_))) {
            // Closing is not enough while a child of another thread is between fork and exec.
            let _ = file.unlock();
        }
        Ok(settled?.map(|token| Lease::new(file, files.lock.clone(), token)))
    }

    fn write_record(&self, ask: &Ask, files: &Files, file: &LockFile) -> Result<Option<Token>> {
        let locking = |error| failed("lock", &files.lock, error);
        if !file.is_at(&files.lock).map_err(locking)? {
            return Ok(None);
        }
        let last = Record::read(&files.record, &ask.name)?;
        let now = self.clock.now();
        let token = next_token(last.as_ref(), now, files)?;
        // Another process id than ours means nothing that we know the name space of.
        let ours = ask.holder.pid == std::process::id();
        let pid_namespace = self.here.pid_namespace.filter(|_| ours);
        Record::new(&ask.name, token, &ask.holder, pid_namespace, now).write(files)?;
        file.mark(token).map_err(locking)?;
        Ok(file.is_at(&files.lock).map_err(locking)?.then_some(token))
    }

    /// `None` where files cannot be watched: the waiter polls then.
    fn watch(&self, path: &std::path::Path, name: &Name) -> Option<Watch> {
        let watcher = {
            let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
            match &*watching {
                Watching::Started(watcher) => watcher.clone(),
                Watching::Attached(events) => {
                    match Watcher::start(events.clone(), self.clock.clone()) {
                        Ok(watcher) => {
                            let watcher = Arc::new(watcher);
                            *watching = Watching::Started(watcher.clone());
                            watcher
                        }
                        Err(error) => {
                            tracing::warn!(%error, "no file events; waiters poll");
                            *watching = Watching::Impossible;
                            return None;
                        }
                    }
                }
                Watching::Unattached | Watching::Impossible => return None,
            }
        };
        watcher.watch(path, name).ok()
    }
}

fn granted(token: Token) -> Answer {
    Answer::Granted(Grant { tokens: TokenBlock::single(token), term: Term::Session })
}
