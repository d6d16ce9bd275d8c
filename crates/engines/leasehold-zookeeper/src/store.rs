//! The state that a backend's operations share: the current session and the attempts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use leasehold_core::backend::{Event, EventSink};
use leasehold_core::clock::Clock;
use leasehold_core::{AttemptId, Deadline, Error, Name, Result, Token};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use zookeeper_client::Error as ZkError;

use crate::address::Address;
use crate::attempts::{Attempts, Line};
use crate::error::{from_zk, no_connection};
use crate::format::Format;
use crate::path;
use crate::session::Session;

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) address: Address,
    pub(crate) clock: Clock,
    /// The longest lease of a grant or renewal.
    pub(crate) term: Duration,
    book: Mutex<Attempts>,
    slot: Mutex<Slot>,
    sink: OnceLock<EventSink>,
    /// Wakes the janitor for new work.
    pub(crate) bell: Arc<Notify>,
    /// When the janitor wakes without the bell, by the steady clock.
    asleep_until: AtomicU64,
    tasks: OnceLock<[AbortHandle; 2]>,
}

/// The current session, and the reason of the last failed attempt to connect.
#[derive(Debug)]
struct Slot {
    session: Option<Arc<Session>>,
    why: Option<String>,
}

impl Store {
    pub(crate) fn new(address: Address, clock: Clock, session: Session) -> Self {
        Self {
            address,
            clock,
            term: session.term(),
            book: Mutex::default(),
            slot: Mutex::new(Slot { session: Some(Arc::new(session)), why: None }),
            sink: OnceLock::new(),
            bell: Arc::default(),
            asleep_until: AtomicU64::new(0),
            tasks: OnceLock::new(),
        }
    }

    /// Adds the tasks that end with the store.
    pub(crate) fn keep(&self, tasks: [AbortHandle; 2]) {
        self.tasks.set(tasks).ok();
    }

    pub(crate) fn attach(&self, events: EventSink) {
        self.sink.set(events).ok();
    }

    pub(crate) fn tell(&self, event: Event) {
        if let Some(sink) = self.sink.get() {
            sink.send(event);
        }
    }

    /// Locks the book. Do not hold the guard across an await.
    pub(crate) fn book(&self) -> MutexGuard<'_, Attempts> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current session if it is connected; without one, no new request begins.
    pub(crate) fn session(&self) -> Result<Arc<Session>> {
        let slot = self.slot();
        match &slot.session {
            Some(session) if session.is_connected() => Ok(session.clone()),
            _ => Err(no_connection(slot.why.as_deref())),
        }
    }

    /// Replaces the session that has ended.
    pub(crate) fn replace(&self, session: Option<Session>) {
        *self.slot() = Slot { session: session.map(Arc::new), why: None };
    }

    /// Records why no session could be opened.
    pub(crate) fn note_failure(&self, why: &Error) {
        self.slot().why = Some(why.message().to_owned());
    }

    /// Records until when the janitor sleeps; `None` means until it is woken.
    pub(crate) fn note_asleep(&self, until: Option<Deadline>) {
        let until = until.map_or(u64::MAX, Deadline::steady_ns);
        self.asleep_until.store(until, Ordering::SeqCst);
    }

    /// Wakes the janitor if it would sleep for longer than until `due`.
    pub(crate) fn due_at(&self, due: Deadline) {
        if due.steady_ns() < self.asleep_until.load(Ordering::SeqCst) {
            self.bell.notify_one();
        }
    }

    /// Returns the layout of the nodes of locks.
    pub(crate) fn format(&self) -> Format {
        self.address.format
    }

    /// Returns the node of a lock.
    pub(crate) fn lock_path(&self, name: &Name) -> String {
        self.address.lock(name)
    }

    /// Returns the node below which the attempts of a queue have theirs.
    pub(crate) fn parent(&self, line: &Line) -> String {
        match line.permits {
            true => path::semaphore(&self.lock_path(&line.name)),
            false => self.lock_path(&line.name),
        }
    }

    /// Returns how long a lease of this client lasts without renewal.
    pub(crate) fn remaining(&self, attempt: AttemptId, token: Token) -> Option<Duration> {
        let now = self.clock.now();
        self.book().lease(attempt, token).map(|lease| lease.ends.remaining(now))
    }

    /// Converts the error of a request about a lock.
    pub(crate) fn failed(&self, name: &Name, error: ZkError) -> Error {
        from_zk(error, &self.lock_path(name))
    }

    /// Handles a fired watch: the attempt that waits for it reads the queue again.
    pub(crate) fn fired(&self, attempt: AttemptId, watch: u64) {
        let name = self.book().fire(attempt, watch);
        if let Some(name) = name {
            self.tell(Event::Next { name, attempt, ask_again: Duration::ZERO });
        }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.tasks.get().into_iter().flatten().for_each(AbortHandle::abort);
    }
}
