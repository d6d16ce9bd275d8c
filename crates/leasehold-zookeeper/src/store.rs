//! What the operations of a backend share: the session of the moment, and the book of attempts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use leasehold_core::backend::{Event, EventSink};
use leasehold_core::clock::Clock;
use leasehold_core::{AttemptId, Deadline, Error, Name, Result};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use zookeeper_client::Error as ZkError;

use crate::address::Address;
use crate::book::Book;
use crate::error::{from_zk, no_connection};
use crate::session::Session;

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) address: Address,
    pub(crate) clock: Clock,
    /// The longest time that a grant or renewal promises.
    pub(crate) term: Duration,
    book: Mutex<Book>,
    slot: Mutex<Slot>,
    sink: OnceLock<EventSink>,
    /// The janitor has something new to look at.
    pub(crate) bell: Arc<Notify>,
    /// Until when it sleeps otherwise, by the steady clock.
    asleep_until: AtomicU64,
    tasks: OnceLock<[AbortHandle; 2]>,
}

/// The session of the moment, and why there is no connection, if one was tried in vain.
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

    /// The tasks that end with the store.
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

    /// Not to be held over an await.
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session of the moment, if it is connected: without, nothing new is begun.
    pub(crate) fn session(&self) -> Result<Arc<Session>> {
        let slot = self.slot();
        match &slot.session {
            Some(session) if session.is_connected() => Ok(session.clone()),
            _ => Err(no_connection(slot.why.as_deref())),
        }
    }

    /// Puts another session in the place of the one that has ended.
    pub(crate) fn replace(&self, session: Option<Session>) {
        *self.slot() = Slot { session: session.map(Arc::new), why: None };
    }

    /// Notes why no session could be had.
    pub(crate) fn note_failure(&self, why: &Error) {
        self.slot().why = Some(why.message().to_owned());
    }

    /// The janitor sleeps until this moment, or without end.
    pub(crate) fn note_asleep(&self, until: Option<Deadline>) {
        let until = until.map_or(u64::MAX, Deadline::steady_ns);
        self.asleep_until.store(until, Ordering::SeqCst);
    }

    /// Something is due at this moment: the janitor is woken if it would sleep for longer.
    pub(crate) fn due_at(&self, due: Deadline) {
        if due.steady_ns() < self.asleep_until.load(Ordering::SeqCst) {
            self.bell.notify_one();
        }
    }

    /// The node of a lock.
    pub(crate) fn lock_path(&self, name: &Name) -> String {
        self.address.root.lock(name)
    }

    /// What an error of a request about a lock means.
    pub(crate) fn failed(&self, name: &Name, error: ZkError) -> Error {
        from_zk(error, &self.lock_path(name))
    }

    /// A watch has fired: whoever waits by it is to look again.
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
