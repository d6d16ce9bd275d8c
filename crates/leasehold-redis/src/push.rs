//! The pushes of the server to this client, and how long a pushed lease is valid.

use std::time::Duration;

use leasehold_core::backend::{Event, EventSink, Grant, Term};
use leasehold_core::clock::Clock;
use leasehold_core::proto::drift;
use leasehold_core::{AttemptId, ClientId, Deadline, Result};

use crate::error::strange;
use crate::key::Keys;
use crate::reply;
use crate::supervisor::Listener;
use crate::waiters::Waiters;

/// Returns the channel on which a client receives pushes.
pub(crate) fn channel(client: ClientId) -> String {
    format!("leasehold:c:{client}")
}

/// Parses pushes.
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
            Err(error) => tracing::warn!(%error, "the server sent an unexpected push"),
        }
    }

    /// Makes waiters ask again, since pushes may have been missed.
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
            Some(b'L') => {
                let (base, _) = rest.split_at_checked(16).ok_or_else(|| strange(text))?;
                let base = reply::token(base)?;
                Ok(Some(Event::Lost { attempt, base: Some(base) }))
            }
            _ => Err(strange(text)),
        }
    }

    /// Parses `base(16) top(16) now_us(16) offer_ms(8) wanted(1) key`.
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
            // The answer to a request tells how long it is valid.
            Some(None) => return Ok(Some(Event::Freed { name })),
            // Abandoned (the client ends it) or held already (the client knows): no effect.
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
            // Too late to be used; asking grants it again if no other client holds it.
            return Ok(Some(Event::Freed { name }));
        }
        let grant = grant(Term::Offer(until))?;
        self.waiters.leave(attempt);
        Ok(Some(Event::Granted { name, attempt, grant }))
    }
}
