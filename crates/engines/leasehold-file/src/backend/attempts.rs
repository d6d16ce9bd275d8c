//! The state of each attempt of this process. Acquire and release synchronize only here.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use leasehold_core::backend::{EndedAttempts, Verdict};
use leasehold_core::clock::Clock;
use leasehold_core::{AttemptId, Token};

use super::lock_file::LockFile;

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
    /// Creates a lease on a file that is locked and marked with the token.
    pub(crate) fn new(file: LockFile, path: PathBuf, token: Token) -> Self {
        Self { file, path, token, lost: AtomicBool::new(false), duplicated: AtomicBool::new(false) }
    }

    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// Returns false once the path has pointed to another file or none. Another process may have
    /// locked that file, so the lease stays lost even if this file is restored.
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

    /// Returns another descriptor that keeps the lock.
    pub(crate) fn duplicate(&self) -> std::io::Result<std::os::fd::OwnedFd> {
        self.duplicated.store(true, Ordering::Release);
        self.file.duplicate()
    }

    /// Releases the lock, even if other processes have the descriptor.
    fn give_back(&self) -> Verdict {
        let healthy = self.is_healthy();
        let unlocked = self.file.unlock();
        if self.duplicated.load(Ordering::Acquire) {
            // Another process has the descriptor, so our close does not notify the waiters. This
            // does.
            let _ = std::fs::OpenOptions::new().write(true).open(&self.path);
        }
        match (healthy, unlocked) {
            (Ok(true), Ok(())) => Verdict::Released,
            (Ok(false), _) => Verdict::Lost,
            _ => Verdict::Unknown,
        }
    }
}

/// All attempts of a backend; `S` is the state of a waiting attempt between two requests.
#[derive(Debug)]
pub(crate) struct Attempts<S> {
    table: Mutex<Table<S>>,
    idle: Condvar,
    clock: Clock,
}

#[derive(Debug)]
struct Table<S> {
    known: HashMap<AttemptId, Entry<S>>,
    ended: EndedAttempts,
}

#[derive(Debug)]
enum Entry<S> {
    /// A request is in progress; `ended` is set if the attempt was ended meanwhile.
    Asking {
        ended: bool,
    },
    Waiting(S),
    Held(Arc<Lease>),
    Over(Verdict),
}

/// The state that a request finds.
pub(crate) enum Begun<'a, S> {
    /// This request may proceed, with the state that the last one left.
    Go(AttemptGuard<'a, S>, S),
    /// The attempt already holds the lock.
    Granted(Token),
    /// The attempt has ended.
    Ended,
}

/// The exclusive right to process an attempt, until it is dropped.
pub(crate) struct AttemptGuard<'a, S> {
    attempts: &'a Attempts<S>,
    attempt: AttemptId,
}

impl<S: Default> Attempts<S> {
    pub(crate) fn new(clock: Clock) -> Self {
        let table = Table { known: HashMap::new(), ended: EndedAttempts::default() };
        Self { table: Mutex::new(table), idle: Condvar::new(), clock }
    }

    /// Begins a request; waits while another request of the same attempt is in progress.
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
                    return Begun::Go(AttemptGuard { attempts: self, attempt }, left);
                }
                None => {
                    table.known.insert(attempt, Entry::Asking { ended: false });
                    return Begun::Go(AttemptGuard { attempts: self, attempt }, S::default());
                }
            }
        }
    }

    /// Ends an attempt. With `patience`, it waits for a request in progress, so that nothing is held
    /// when it returns. Without `patience`, the request in progress cleans up when it finishes.
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
            // The verdict is set below, after the lock is released.
            Some(Entry::Held(_)) => Verdict::Unknown,
            // The table would contain a recent grant of this process.
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
            // The waiter's state is dropped here, outside the table's mutex.
            _ => verdict,
        }
    }

    /// Returns the lease of an attempt, if it has one.
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

impl<S> AttemptGuard<'_, S> {
    /// Records that the attempt holds the lock. Returns false if it has ended meanwhile; the lock is
    /// released then.
    pub(crate) fn granted(self, lease: Lease) -> bool {
        match self.leave(Entry::Held(Arc::new(lease))) {
            Some(Entry::Held(lease)) => {
                lease.give_back();
                false
            }
            _ => true,
        }
    }

    /// Records that the attempt continues to wait, with this state; false if it has ended meanwhile.
    pub(crate) fn waits(self, left: S) -> bool {
        self.leave(Entry::Waiting(left)).is_none()
    }

    /// Sets the attempt's state. If the attempt has ended meanwhile, returns `next`, which the caller
    /// must undo before it drops this turn: the task that ended the attempt waits for the drop.
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

impl<S> Drop for AttemptGuard<'_, S> {
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
        self.ended.push(now, attempt);
        while let Some(oldest) = self.ended.pop_due(now) {
            self.known.remove(&oldest);
        }
    }
}
