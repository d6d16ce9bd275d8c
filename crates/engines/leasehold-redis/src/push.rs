//! The pushes of the server to this client, and how long a pushed lease is valid.

use std::time::Duration;

use leasehold_core::backend::{Event, EventSink, Grant, Term};
use leasehold_core::clock::Clock;
use leasehold_core::proto::drift;
use leasehold_core::{AttemptId, ClientId, Deadline, Now, Result};

use crate::error::strange;
use crate::key::Keys;
use crate::reply;
use crate::supervisor::Listener;
use crate::waiters::{Reference, Waiters};

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
        // Otherwise it cannot be used; asking grants the lease again if no other client holds it.
        let Some(until) = valid_until(reference, server_us, offer, now) else {
            return Ok(Some(Event::Freed { name }));
        };
        let grant = grant(Term::Offer(until))?;
        self.waiters.leave(attempt);
        Ok(Some(Event::Granted { name, attempt, grant }))
    }
}

/// Returns until when a lease is valid that was pushed at the server's time `server_us`, for as long as `offer`. `None`
/// if that time is over, or unknown.
///
/// The push may have waited in this process. Its age follows from the server's clock and an earlier answer, unless that
/// clock was set forward between the two. If it was set forward by more than the push has waited, the push seems to have
/// been sent later than now. A smaller step cannot be seen: the lease is then believed to last too long by that step.
fn valid_until(
    reference: Reference,
    server_us: u64,
    offer: Duration,
    now: Now,
) -> Option<Deadline> {
    let passed = Duration::from_micros(server_us.saturating_sub(reference.server_us));
    let passed = passed - passed / 100;
    if !Deadline::after(reference.sent, passed).has_passed(now) {
        return None;
    }
    let valid = offer.saturating_sub(drift(offer));
    let until = Deadline::after(reference.sent, passed + valid).min(Deadline::after(now, valid));
    (!until.has_passed(now)).then_some(until)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFER: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> Now {
        Now { steady_ns: ms * 1_000_000, wall_ns: 0 }
    }

    /// The answer to an acquire that was sent at 0.
    const ASKED: Reference =
        Reference { sent: Now { steady_ns: 0, wall_ns: 0 }, server_us: 5_000_000 };

    #[test]
    fn the_time_that_a_push_has_waited_does_not_count() {
        let valid = |now| valid_until(ASKED, 7_000_000, OFFER, at(now));
        assert_eq!(valid(2_000), Some(Deadline::after(at(1_980), OFFER - drift(OFFER))));
        assert_eq!(valid(2_900), valid(2_000));
        assert_eq!(valid(3_100), None);
    }

    #[test]
    fn a_push_that_seems_to_come_from_the_future_is_not_used() {
        // Sent after 2 s, 1.9 s ago, by a server whose clock was set forward by 2.5 s.
        assert_eq!(valid_until(ASKED, 9_500_000, OFFER, at(3_900)), None);
    }

    #[test]
    fn a_push_of_a_server_whose_clock_went_back_is_valid_from_the_request_at_the_latest() {
        assert_eq!(
            valid_until(ASKED, 1, OFFER, at(900)),
            Some(Deadline::after(at(0), OFFER - drift(OFFER)))
        );
        assert_eq!(valid_until(ASKED, 1, OFFER, at(1_100)), None);
    }
}
