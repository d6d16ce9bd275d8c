//! The state of each attempt of this process. Acquire and release synchronize only here.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use leasehold_core::backend::{EndedAttempts, Verdict};
use leasehold_core::clock::Clock;
use leasehold_core::{AttemptId, Token};

use super::lease::Lease;

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
    /// Boxed: most attempts hold a lock, and a table of many must be small.
    Waiting(Box<S>),
    Held(Arc<Lease>),
    /// A held lock that is being converted for another attempt; `ended` as above.
    Converting {
        lease: Arc<Lease>,
        ended: bool,
    },
    Over(Verdict),
}

impl<S> Entry<S> {
    /// Returns true while a request of the attempt is in progress.
    fn is_busy(&self) -> bool {
        matches!(self, Self::Asking { .. } | Self::Converting { .. })
    }
}

/// The state that a request finds.
pub(crate) enum Begun<'a, S> {
    /// This request may proceed, with the state that the last one left.
    Go(AttemptGuard<'a, S>, S),
    /// The attempt already holds the lock.
    Granted(Arc<Lease>),
    /// The attempt has ended.
    Ended,
}

/// The exclusive right to process an attempt, until it is dropped.
pub(crate) struct AttemptGuard<'a, S> {
    attempts: &'a Attempts<S>,
    attempt: AttemptId,
}

/// The exclusive right to convert an attempt's lease, until it is dropped. The attempt holds again
/// then, unless it was ended meanwhile or the lease was converted.
pub(crate) struct ConversionGuard<'a, S> {
    attempts: &'a Attempts<S>,
    attempt: AttemptId,
    pub(crate) lease: Arc<Lease>,
    verdict: Option<Verdict>,
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
                Some(Entry::Held(lease)) => return Begun::Granted(lease.clone()),
                Some(
                    Entry::Over(_)
                    | Entry::Asking { ended: true }
                    | Entry::Converting { ended: true, .. },
                ) => return Begun::Ended,
                Some(Entry::Asking { ended: false } | Entry::Converting { ended: false, .. }) => {
                    table = self.idle.wait(table).unwrap_or_else(PoisonError::into_inner);
                }
                Some(entry @ Entry::Waiting(_)) => {
                    let before = std::mem::replace(entry, Entry::Asking { ended: false });
                    let Entry::Waiting(left) = before else { continue };
                    return Begun::Go(AttemptGuard { attempts: self, attempt }, *left);
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
            Some(Entry::Asking { ended } | Entry::Converting { ended, .. }) => {
                *ended = true;
                while patience && table.known.get(&attempt).is_some_and(Entry::is_busy) {
                    table = self.idle.wait(table).unwrap_or_else(PoisonError::into_inner);
                }
                return match table.known.get(&attempt) {
                    Some(Entry::Over(verdict)) => *verdict,
                    _ => Verdict::Gone,
                };
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
            Some(Entry::Held(lease) | Entry::Converting { lease, .. }) => Some(lease.clone()),
            _ => None,
        }
    }

    /// Begins to convert the lease of an attempt, whose token is `base`; `None` if it has none. Waits
    /// while a request of the attempt is in progress.
    pub(crate) fn convert(
        &self,
        attempt: AttemptId,
        base: Option<Token>,
    ) -> Option<ConversionGuard<'_, S>> {
        let mut table = self.lock();
        while table.known.get(&attempt).is_some_and(Entry::is_busy) {
            table = self.idle.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        let Some(entry @ Entry::Held(_)) = table.known.get_mut(&attempt) else { return None };
        let Entry::Held(lease) = &*entry else { return None };
        let lease = lease.clone();
        if Some(lease.token()) != base {
            return None;
        }
        *entry = Entry::Converting { lease: lease.clone(), ended: false };
        Some(ConversionGuard { attempts: self, attempt, lease, verdict: None })
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
        self.leave(Entry::Waiting(Box::new(left))).is_none()
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

impl<S> AttemptGuard<'_, S> {
    /// Ends the attempt: later requests of it are refused.
    pub(crate) fn seal(self) {
        let mut table = self.attempts.lock();
        if let Some(Entry::Asking { ended }) = table.known.get_mut(&self.attempt) {
            *ended = true;
        }
    }
}

impl<S> ConversionGuard<'_, S> {
    /// Ends the attempt with this verdict: its lease was converted, or is lost.
    pub(crate) fn close(mut self, verdict: Verdict) {
        self.verdict = Some(verdict);
    }
}

impl<S> Drop for ConversionGuard<'_, S> {
    fn drop(&mut self) {
        let mut table = self.attempts.lock();
        let Some(entry @ Entry::Converting { .. }) = table.known.get_mut(&self.attempt) else {
            return;
        };
        let ended = matches!(entry, Entry::Converting { ended: true, .. });
        let verdict = match self.verdict {
            Some(verdict) => verdict,
            None if ended => self.lease.give_back(),
            None => {
                *entry = Entry::Held(self.lease.clone());
                drop(table);
                self.attempts.idle.notify_all();
                return;
            }
        };
        *entry = Entry::Over(verdict);
        table.remember(self.attempts.clock.now(), self.attempt);
        drop(table);
        self.attempts.idle.notify_all();
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
