//! The messages that an engine sends without a request, and the channel for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold_proto::semaphore::Limit;
use leasehold_proto::{AttemptId, Token};
use tokio::sync::mpsc;

use super::Grant;
use crate::Name;

/// A message that an engine sends without a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The turn of a waiter has come.
    Granted {
        /// The name of the lock.
        name: Name,
        /// The waiting attempt.
        attempt: AttemptId,
        /// The lease that it was granted.
        grant: Grant,
    },
    /// The turn of a waiter for a permit of a semaphore has come.
    Permit {
        /// The name of the semaphore.
        name: Name,
        /// The waiting attempt.
        attempt: AttemptId,
        /// The lease that it was granted.
        grant: Grant,
        /// The numbers of its slots, ascending from 0.
        slots: Vec<u32>,
    },
    /// The new limit of a semaphore is below the number of slots that a waiter needs. The waiter has
    /// left the queue: it sends its request again, which the engine refuses.
    Refused {
        /// The name of the semaphore.
        name: Name,
        /// The attempt that waited.
        attempt: AttemptId,
        /// The new limit.
        limit: Limit,
    },
    /// A waiter is now the first in the queue, but its turn has not come, or what it waits for has changed. It
    /// sends its request again after this time, which may be zero, if no other message arrives.
    Next {
        /// The name of the lock.
        name: Name,
        /// The waiting attempt.
        attempt: AttemptId,
        /// When to send the request again if no other message arrives.
        ask_again: Duration,
    },
    /// A client of another process waits for a lock that this client holds.
    Wanted {
        /// The name of the lock.
        name: Name,
        /// The holding attempt.
        attempt: AttemptId,
    },
    /// A lock is free, or may be free: waiters send their requests again.
    Freed {
        /// The name of the lock.
        name: Name,
    },
    /// A lease has ended: its session has ended, or an operator has released it.
    Lost {
        /// The attempt that held the lease.
        attempt: AttemptId,
        /// The first token of the ended lease; `None` means any lease of the attempt.
        base: Option<Token>,
    },
    /// The connection or session is broken and is being re-established. Waiters fail if that takes
    /// too long.
    Broken,
    /// The connection or session was re-established, and pushes may have been missed: all waiters
    /// send their requests again.
    Reset,
}

/// Where a backend sends its events.
#[derive(Clone, Debug)]
pub struct EventSink {
    events: mpsc::UnboundedSender<Event>,
    /// How many local tasks wait behind another task; `None` if they are not counted.
    behind: Option<Arc<AtomicUsize>>,
    /// What becomes of an event on its way.
    map: Option<fn(Event) -> Event>,
}

impl EventSink {
    /// Creates a sink, and the receiver that the client (or a test) reads.
    pub fn channel() -> (Self, Events) {
        let (events, receiver) = mpsc::unbounded_channel();
        (Self { events, behind: None, map: None }, Events(receiver))
    }

    pub(crate) fn counting(self, behind: Arc<AtomicUsize>) -> Self {
        Self { behind: Some(behind), ..self }
    }

    /// Replaces each event by what `map` makes of it.
    pub(crate) fn mapped(self, map: fn(Event) -> Event) -> Self {
        Self { map: Some(map), ..self }
    }

    /// Sends an event. Returns false if the client no longer exists.
    pub fn send(&self, event: Event) -> bool {
        let event = match self.map {
            None => event,
            Some(map) => map(event),
        };
        self.events.send(event).is_ok()
    }

    /// Returns false while no local task waits behind another. Then the client hands no lease to
    /// another task and ignores [`Event::Wanted`], so a backend need not look for waiters of other
    /// clients.
    pub fn local_waiters(&self) -> bool {
        self.behind.as_ref().is_none_or(|behind| behind.load(Ordering::Relaxed) > 0)
    }
}

/// The events of a backend, in the order in which it sent them. The channel has no bound: a backend
/// never waits for its client.
#[derive(Debug)]
pub struct Events(mpsc::UnboundedReceiver<Event>);

impl Events {
    /// Waits for the next event. Returns `None` after the last one, once every sink was dropped. If
    /// the future is dropped, no event is lost.
    pub async fn recv(&mut self) -> Option<Event> {
        self.0.recv().await
    }

    /// Waits for the next event, on a thread that is not part of a runtime. Returns `None` after the
    /// last one.
    pub fn blocking_recv(&mut self) -> Option<Event> {
        self.0.blocking_recv()
    }

    /// Returns the next event without waiting, or `None` if none has arrived.
    pub fn try_recv(&mut self) -> Option<Event> {
        self.0.try_recv().ok()
    }
}
