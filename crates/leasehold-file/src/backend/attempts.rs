//! What became of each attempt of this process: the one place where an acquire meets its release.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::backend::Verdict;
use leasehold_core::clock::Clock;
use leasehold_core::{AttemptId, Deadline, Token};

use super::lockfile::LockFile;

/// How long the end of an attempt is remembered, for an acquire that arrives late and for a
/// release that is repeated; and how many ends are.
const REMEMBER: Duration = Duration::from_secs(300);
const REMEMBER_COUNT: usize = 16_384;

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Lease {
    file: LockFile,
    path: PathBuf,
    token: Token,
    lost: AtomicBool,
    duplicated: AtomicBool,
}

impl Lease {
    /// A lease on a file that has been locked and marked with the token.
    pub(crate) fn new(file: LockFile, path: PathBuf, token: Token) -> Self {
        Self { file, path, token, lost: AtomicBool::new(false), duplicated: AtomicBool::new(false) }
    }

    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// False once the path has led elsewhere: somebody else may hold the lock then, so it stays
    /// lost even if the file is put back.
    pub(crate) fn is_healthy(&self) -> std::io::Result<bool> {
        if self.lost.load(Ordering::Acquire) {
            return Ok(false);
        }
        let healthy = self.file.is_at(&self.path)?;
        if !healthy {
            self.lost.store(true, Ordering::Release);
        }
        Ok(healthy)
    }

    /// Another descriptor that keeps the lock.
    pub(crate) fn duplicate(&self) -> std::io::Result<std::os::fd::OwnedFd> {
        self.duplicated.store(true, Ordering::Release);
        self.file.duplicate()
    }

    /// Gives the lock back, whoever else has the descriptor.
    fn give_back(&self) -> Verdict {
        let healthy = self.is_healthy();
        let unlocked = self.file.unlock();
        if self.duplicated.load(Ordering::Acquire) {
            // Closing ours is not the last close then, which is what wakes the waiters.
            let _ = std::fs::OpenOptions::new().write(true).open(&self.path);
        }
        match (healthy, unlocked) {
            (Ok(true), Ok(())) => Verdict::Released,
            (Ok(false), _) => Verdict::Lost,
            _ => Verdict::Unknown,
        }
    }
}

/// All attempts of a backend; `S` is what a waiting attempt keeps between two asks.
#[derive(Debug)]
pub(crate) struct Attempts<S> {
    table: Mutex<Table<S>>,
    idle: Condvar,
    clock: Clock,
}

#[derive(Debug)]
struct Table<S> {
    known: HashMap<AttemptId, Entry<S>>,
    /// Those that have ended, oldest first.
    over: VecDeque<(Deadline, AttemptId)>,
}

#[derive(Debug)]
enum Entry<S> {
    /// An ask is being worked on; `ended` when the attempt was ended meanwhile.
    Asking {
        ended: bool,
    },
    Waiting(S),
    Held(Arc<Lease>),
    Over(Verdict),
}

/// What an ask finds.
pub(crate) enum Begun<'a, S> {
    /// It is this ask's turn to work on the attempt, with what the last one left.
    Go(Turn<'a, S>, S),
    /// The attempt has the lock already.
    Granted(Token),
    /// The attempt has ended.
    Ended,
}

/// The right to work on an attempt; given back when dropped.
pub(crate) struct Turn<'a, S> {
    attempts: &'a Attempts<S>,
    attempt: AttemptId,
}

impl<S: Default> Attempts<S> {
    pub(crate) fn new(clock: Clock) -> Self {
        let table = Table { known: HashMap::new(), over: VecDeque::new() };
        Self { table: Mutex::new(table), idle: Condvar::new(), clock }
    }

    /// Begins to work on an ask; waits while another ask of the same attempt is worked on.
    pub(crate) fn begin(&self, attempt: AttemptId) -> Begun<'_, S> {
        let mut table = self.lock();
        loop {
            match table.known.get_mut(&attempt) {
                Some(Entry::Held(lease)) => return Begun::Granted(lease.token),
                Some(Entry::Over(_) | Entry::Asking { ended: true }) => return Begun::Ended,
                Some(Entry::Asking { ended: false }) => {
                    table = self.idle.wait(table).unwrap_or_else(PoisonError::into_inner);
                }
                Some(entry @ Entry::Waiting(_)) => {
                    let before = std::mem::replace(entry, Entry::Asking { ended: false });
                    let Entry::Waiting(left) = before else { continue };
                    return Begun::Go(Turn { attempts: self, attempt }, left);
                }
                None => {
                    table.known.insert(attempt, Entry::Asking { ended: false });
                    return Begun::Go(Turn { attempts: self, attempt }, S::default());
                }
            }
        }
    }

    /// Ends an attempt. With `patience`, an ask that is being worked on is waited for, so that
    /// nothing is held when this returns; without, it cleans up behind itself.
    pub(crate) fn end(&self, attempt: AttemptId, base: Option<Token>, patience: bool) -> Verdict {
        let mut table = self.lock();
        let verdict = match table.known.get_mut(&attempt) {
            Some(Entry::Over(verdict)) => return *verdict,
            Some(Entry::Asking { ended }) => {
                *ended = true;
                while patience && matches!(table.known.get(&attempt), Some(Entry::Asking { .. })) {
                    table = self.idle.wait(table).unwrap_or_else(PoisonError::into_inner);
                }
                return Verdict::Gone;
            }
            Some(Entry::Waiting(_)) => Verdict::Gone,
            // The verdict is put in below, when the lock has been given back.
            Some(Entry::Held(_)) => Verdict::Unknown,
            // Had it been granted by us not long ago, we would know.
            None if base.is_some() => Verdict::Unknown,
            None => Verdict::Gone,
        };
        let before = table.known.insert(attempt, Entry::Over(verdict));
        table.remember(self.clock.now(), attempt);
        drop(table);
        match before {
            Some(Entry::Held(lease)) => {
                let verdict = lease.give_back();
                if let Some(entry) = self.lock().known.get_mut(&attempt) {
                    *entry = Entry::Over(verdict);
                }
                verdict
            }
            // What it waited with is dropped here, outside the table's lock.
            _ => verdict,
        }
    }

    /// The lease of an attempt, if it has one.
    pub(crate) fn lease(&self, attempt: AttemptId) -> Option<Arc<Lease>> {
        match self.lock().known.get(&attempt) {
            Some(Entry::Held(lease)) => Some(lease.clone()),
            _ => None,
        }
    }
}

impl<S> Attempts<S> {
    fn lock(&self) -> MutexGuard<'_, Table<S>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Turn<'_, S> {
    /// The attempt has the lock; false when it has ended meanwhile, and the lock was given back.
    pub(crate) fn granted(self, lease: Lease) -> bool {
        match self.leave(Entry::Held(Arc::new(lease))) {
            Some(Entry::Held(lease)) => {
                lease.give_back();
                false
            }
            _ => true,
        }
    }

    /// The attempt waits on, with this; false when it has ended meanwhile.
    pub(crate) fn waits(self, left: S) -> bool {
        self.leave(Entry::Waiting(left)).is_none()
    }

    /// Puts in what the attempt is to be. If it has ended meanwhile, that comes back, and is to be
    /// undone before this turn is dropped: whoever ended the attempt waits for the drop.
    fn leave(&self, next: Entry<S>) -> Option<Entry<S>> {
        let mut table = self.attempts.lock();
        match table.known.get_mut(&self.attempt) {
            Some(entry @ Entry::Asking { ended: false }) => {
                *entry = next;
                None
            }
            _ => Some(next),
        }
    }
}

impl<S> Drop for Turn<'_, S> {
    fn drop(&mut self) {
        let mut table = self.attempts.lock();
        match table.known.get_mut(&self.attempt) {
            Some(entry @ Entry::Asking { ended: true }) => {
                *entry = Entry::Over(Verdict::Gone);
                table.remember(self.attempts.clock.now(), self.attempt);
            }
            Some(Entry::Asking { ended: false }) => {
                table.known.remove(&self.attempt);
            }
            _ => {}
        }
        drop(table);
        self.attempts.idle.notify_all();
    }
}

impl<S> Table<S> {
    fn remember(&mut self, now: leasehold_core::Now, attempt: AttemptId) {
        self.over.push_back((Deadline::after(now, REMEMBER), attempt));
        while let Some((until, oldest)) = self.over.front().copied() {
            if self.over.len() <= REMEMBER_COUNT && !until.has_passed(now) {
                break;
            }
            self.over.pop_front();
            self.known.remove(&oldest);
        }
    }
}
