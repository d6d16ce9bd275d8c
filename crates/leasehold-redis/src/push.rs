//! What the server pushes to this client, and how long a pushed lease may be relied on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use leasehold_core::backend::{Ask, Event, EventSink, Grant, Origin, Term};
use leasehold_core::clock::Clock;
use leasehold_core::proto::drift;
use leasehold_core::{AttemptId, ClientId, Deadline, Now, Result};

use crate::error::strange;
use crate::key::Keys;
use crate::reply;
use crate::request::Member;
use crate::supervisor::Listener;

/// The channel on which a client is pushed to.
pub(crate) fn channel(client: ClientId) -> String {
    format!("leasehold:c:{client}")
}

/// Waiters that room is kept for when there are none.
const ROOM: usize = 128;

/// The attempts that wait or may wait at the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters(Arc<Mutex<HashMap<AttemptId, Waiting, RandomState>>>);

/// One of them: how it stands in the queue, and what a push about it is measured against.
#[derive(Clone, Debug)]
struct Waiting {
    ttl: Duration,
    tokens: u32,
    origin: Arc<Origin>,
    reference: Option<Reference>,
}

/// An ask that was answered `Queued`: when it was sent, and the server's time in its answer.
#[derive(Clone, Copy, Debug)]
struct Reference {
    sent: Now,
    server_us: u64,
}

impl Waiters {
    /// An attempt is about to wait; nothing to measure against yet. True if it is new here.
    pub(crate) fn enter(&self, ask: &Ask) -> bool {
        let mut waiters = self.lock();
        let new = !waiters.contains_key(&ask.attempt);
        if new {
            let (ttl, tokens, origin) = (ask.ttl, ask.tokens, ask.origin.clone());
            waiters.insert(ask.attempt, Waiting { ttl, tokens, origin, reference: None });
        }
        new
    }

    /// Its ask was answered `Queued`.
    pub(crate) fn refer(&self, attempt: AttemptId, sent: Now, server_us: u64) {
        if let Some(waiting) = self.lock().get_mut(&attempt) {
            waiting.reference = Some(Reference { sent, server_us });
        }
    }

    /// How it stands in the queue, if it may.
    pub(crate) fn member(&self, attempt: AttemptId) -> Option<String> {
        self.lock().get(&attempt).map(|waiting| {
            let Waiting { ttl, tokens, origin, .. } = waiting;
            Member { ttl: *ttl, tokens: *tokens, origin }.text(attempt)
        })
    }

    /// It waits no more.
    pub(crate) fn leave(&self, attempt: AttemptId) {
        let mut waiters = self.lock();
        waiters.remove(&attempt);
        if waiters.is_empty() {
            waiters.shrink_to(ROOM);
        }
    }

    /// After a reconnect there is nothing to measure against: who is pushed to, asks.
    pub(crate) fn forget_references(&self) {
        self.lock().values_mut().for_each(|waiting| waiting.reference = None);
    }

    fn reference(&self, attempt: AttemptId) -> Option<Option<Reference>> {
        self.lock().get(&attempt).map(|waiting| waiting.reference)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AttemptId, Waiting, RandomState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Understands pushes.
#[derive(Debug)]
pub(crate) struct Pushes {
    pub(crate) waiters: Waiters,
    pub(crate) keys: Keys,
    pub(crate) clock: Clock,
    pub(crate) events: EventSink,
}

impl Listener for Pushes {
    fn message(&self, payload: &[u8]) {
        let event = std::str::from_utf8(payload).map_err(|_| strange(payload));
        match event.and_then(|text| self.event(text)) {
            Ok(Some(event)) => drop(self.events.send(event)),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "a push was not understood"),
        }
    }

    /// Whoever waits then asks again, since pushes may have been missed.
    fn subscribed(&self) {
        self.events.send(Event::Reset);
    }

    fn broken(&self) {
        self.waiters.forget_references();
        self.events.send(Event::Broken);
    }

    fn moved(&self) {
        self.waiters.forget_references();
    }
}

impl Pushes {
    fn event(&self, text: &str) -> Result<Option<Event>> {
        let kind = text.as_bytes().first();
        let (attempt, rest) = text
            .get(1..)
            .and_then(|rest| rest.split_at_checked(32))
            .ok_or_else(|| strange(text))?;
        let attempt = reply::attempt(attempt)?;
        match kind {
            Some(b'W') => Ok(self.keys.name(rest).map(|name| Event::Wanted { name, attempt })),
            Some(b'N') => {
                let (ms, key) = rest.split_at_checked(10).ok_or_else(|| strange(text))?;
                let ask_again = Duration::from_millis(reply::number(ms)?);
                Ok(self.keys.name(key).map(|name| Event::Next { name, attempt, ask_again }))
            }
            Some(b'G') => self.granted(attempt, rest),
            _ => Err(strange(text)),
        }
    }

    /// `base(16) top(16) now_us(16) offer_ms(8) wanted(1) key`.
    fn granted(&self, attempt: AttemptId, rest: &str) -> Result<Option<Event>> {
        let field = |from: usize, to: usize| rest.get(from..to).ok_or_else(|| strange(rest));
        let server_us = reply::number(field(32, 48)?)?;
        let offer = Duration::from_millis(reply::number(field(48, 56)?)?);
        let Some(name) = self.keys.name(field(57, rest.len())?) else { return Ok(None) };
        let grant = |term| -> Result<_> {
            let wanted = field(56, 57)? == "w";
            Ok(Grant { wanted, ..reply::grant(rest, term)? })
        };
        let now = self.clock.now();
        let reference = match self.waiters.reference(attempt) {
            Some(Some(reference)) => reference,
            // Asking tells for how long it is good.
            Some(None) => return Ok(Some(Event::Freed { name })),
            // Given up (the client ends it) or held already (the client knows): good for nothing.
            None => {
                let grant = grant(Term::Offer(Deadline::after(now, Duration::ZERO)))?;
                return Ok(Some(Event::Granted { name, attempt, grant }));
            }
        };
        let valid = offer.saturating_sub(drift(offer));
        let passed = Duration::from_micros(server_us.saturating_sub(reference.server_us));
        let by_server = Deadline::after(reference.sent, passed - passed / 100 + valid);
        let until = by_server.min(Deadline::after(now, valid));
        if until.has_passed(now) {
            // Too late to be relied on; asking grants it again if nobody else has it.
            return Ok(Some(Event::Freed { name }));
        }
        let grant = grant(Term::Offer(until))?;
        self.waiters.leave(attempt);
        Ok(Some(Event::Granted { name, attempt, grant }))
    }
}
