//! The pushes of the server to this client.

use std::time::Duration;

use leasehold_core::backend::{Event, EventSink, Term};
use leasehold_core::clock::Clock;
use leasehold_core::proto::client::Sound;
use leasehold_core::{AttemptId, ClientId, Deadline, Result};
use redis::Value;

use crate::error::strange;
use crate::key::Keys;
use crate::reply::{self, permit};
use crate::supervisor::Listener;
use crate::waiters::Waiters;
use crate::watched::WatchedLocks;

/// Returns the channel on which a client receives pushes.
pub(crate) fn channel(client: ClientId) -> String {
    format!("leasehold:c:{client}")
}

/// Parses pushes.
#[derive(Debug)]
pub(crate) struct Pushes {
    pub(crate) waiters: Waiters,
    pub(crate) watched: WatchedLocks,
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
        self.watched.ask_again();
        self.events.send(Event::Reset);
    }

    fn broken(&self) {
        self.watched.ask_again();
        self.waiters.forget_references();
        self.events.send(Event::Broken);
    }

    fn changed(&self, report: &[Value]) {
        self.watched.handle_report(report);
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
            Some(b'P') => self.permitted(attempt, rest),
            Some(b'R') => {
                let (limit, key) = rest.split_at_checked(5).ok_or_else(|| strange(text))?;
                let limit = permit::stored_limit(limit)?;
                Ok(self.keys.name(key).map(|name| Event::Refused { name, attempt, limit }))
            }
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
            let mut grant = reply::grant(rest, term)?;
            grant.wanted = field(56, 57)? == "w";
            Ok(grant)
        };
        Ok(Some(match self.term(attempt, server_us, offer) {
            Some(term) => Event::Granted { name, attempt, grant: grant(term)? },
            None => Event::Freed { name },
        }))
    }

    /// Parses `base(16) top(16) now_us(16) offer_ms(8) wanted(1) slots`, a space, and the key.
    fn permitted(&self, attempt: AttemptId, rest: &str) -> Result<Option<Event>> {
        let (fields, key) = rest.split_once(' ').ok_or_else(|| strange(rest))?;
        let field = |from: usize, to: usize| fields.get(from..to).ok_or_else(|| strange(rest));
        let server_us = reply::number(field(32, 48)?)?;
        let offer = Duration::from_millis(reply::number(field(48, 56)?)?);
        let slots = permit::slots(field(57, fields.len())?)?;
        let Some(name) = self.keys.name(key) else { return Ok(None) };
        let Some(term) = self.term(attempt, server_us, offer) else {
            return Ok(Some(Event::Freed { name }));
        };
        let mut grant = reply::grant(fields, term)?;
        grant.wanted = field(56, 57)? == "w";
        Ok(Some(Event::Permit { name, attempt, grant, slots }))
    }

    /// Returns how long a pushed lease is valid; `None` if the attempt must ask.
    fn term(&self, attempt: AttemptId, server_us: u64, offer: Duration) -> Option<Term> {
        let now = self.clock.now();
        let reference = match self.waiters.reference(attempt) {
            Some(Some(reference)) => reference,
            // The answer to a request tells how long it is valid.
            Some(None) => return None,
            // Abandoned (the client ends it) or held already (the client knows): no effect.
            None => return Some(Term::Offer(Deadline::after(now, Duration::ZERO))),
        };
        // Otherwise it cannot be used; asking grants the lease again if no other client holds it.
        let until = reference.valid_until(server_us, offer, now, Sound)?;
        self.waiters.leave(attempt);
        Some(Term::Offer(until))
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::clock::ManualClock;

    use super::*;
    use crate::sample_requests::request;

    /// A push of the server's time `at_us`, to the waiter whose last request was answered at 5 s.
    fn pushed(at_us: u64) -> Option<Event> {
        let clock = ManualClock::new().clock();
        let (events, _receiver) = EventSink::channel();
        let pushes = Pushes {
            waiters: Waiters::default(),
            watched: WatchedLocks::default(),
            keys: Keys::new("leasehold"),
            clock: clock.clone(),
            events,
        };
        let request = request(2);
        let attempt = request.attempt;
        pushes.waiters.enter(&request);
        pushes.waiters.refer(attempt, clock.now(), 5_000_000);
        let (base, offer) = (7, 2_000);
        let key = pushes.keys.of(&request.name);
        let text = format!("G{attempt}{base:016}{base:016}{at_us:016}{offer:08}-{key}");
        pushes.event(&text).unwrap()
    }

    #[test]
    fn a_push_that_an_answer_has_overtaken_makes_the_waiter_ask() {
        assert!(matches!(pushed(4_999_999), Some(Event::Freed { .. })));
        assert!(matches!(pushed(5_000_000), Some(Event::Granted { .. })));
    }
}
