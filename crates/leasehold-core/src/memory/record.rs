//! One lock in memory: the hand-off machine behind the types of the `Backend` trait, with the names
//! of the holders.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::handoff::{self, Push, Waiter};
use leasehold_proto::{AttemptId, ClientId, Deadline, Now, Token, drift};

use crate::backend::{
    AcquireRequest, Answer, Ended, Event, Grant, Origin, ReleaseRequest, Renewed, Term,
};
use crate::{Error, ErrorKind, Forced, Name, Result, State, Status};

/// Sends an event to a client. Returns false if no client receives it.
pub(super) type Reach<'a> = &'a dyn Fn(AttemptId, Event) -> bool;

#[derive(Debug, Default)]
pub(super) struct Record {
    handoff: handoff::Record<Participant>,
    /// When the current or last lease was granted: milliseconds since the Unix epoch.
    since_unix_ms: u64,
    touched: Now,
}

/// The process that holds or waits, and when it asked.
#[derive(Clone, Debug)]
struct Participant {
    origin: Arc<Origin>,
    asked_unix_ms: u64,
}

impl Record {
    pub(super) fn acquire(
        &mut self,
        now: Now,
        request: &AcquireRequest,
        reach: Reach<'_>,
    ) -> Result<Answer> {
        let answer = self.step(now, &request.name, reach, |handoff, reach| {
            handoff.acquire(now, &question(now, request), reach)
        });
        self.answered(answer)
    }

    pub(super) fn renew(
        &mut self,
        now: Now,
        attempt: AttemptId,
        base: Token,
        ttl: Duration,
    ) -> Renewed {
        self.handoff.renew(now, attempt, base, ttl).into()
    }

    pub(super) fn release(
        &mut self,
        now: Now,
        release: &ReleaseRequest,
        reach: Reach<'_>,
    ) -> Result<Ended> {
        let ending = release.for_record();
        let (verdict, then) =
            self.step(now, &release.name, reach, |handoff, reach| match &release.then {
                Some(request) => {
                    let next = question(now, request);
                    let (verdict, answer) = handoff.rotate(now, &ending, &next, reach);
                    (verdict, Some(answer))
                }
                None => (handoff.release(now, &ending, reach), None),
            });
        Ok(Ended {
            verdict: verdict.into(),
            then: then.map(|answer| self.answered(answer)).transpose()?,
        })
    }

    /// Continues the queue of a free lock after a step that removed as many dead waiters as one
    /// step may. Returns false if nothing is left to do.
    pub(super) fn remove_dead_waiters(&mut self, now: Now, name: &Name, reach: Reach<'_>) -> bool {
        let before = self.handoff.waiters().len();
        if self.handoff.needs_another_step() {
            // No attempt has this id, so the step ends nothing.
            let attempt = AttemptId::new(ClientId::from_bits(0), 0, 0);
            let (base, last, suspect, keep) = (None, None, false, None);
            let release = handoff::ReleaseRequest { attempt, base, last, suspect, keep };
            self.step(now, name, reach, |handoff, reach| handoff.release(now, &release, reach));
        }
        self.handoff.needs_another_step() && self.handoff.waiters().len() < before
    }

    pub(super) fn force_release(
        &mut self,
        now: Now,
        name: &Name,
        token: Token,
        reach: Reach<'_>,
    ) -> Forced {
        self.step(now, name, reach, |handoff, reach| handoff.force_release(now, token, reach))
            .into()
    }

    pub(super) fn status(&self, now: Now, name: &Name) -> Status {
        let owner = self.handoff.owner();
        let state = match self.handoff.state(now) {
            handoff::State::Free => State::Free,
            handoff::State::Held => State::Held,
            handoff::State::Kept => State::Kept,
        };
        let waiter = |waiter: &Waiter<Participant>| crate::Waiter {
            holder: waiter.tag.origin.holder(waiter.attempt),
            since_unix_ms: waiter.tag.asked_unix_ms,
        };
        Status {
            name: name.clone(),
            state,
            holder: owner.map(|(attempt, participant)| participant.origin.holder(attempt)),
            token: self.handoff.base(),
            since_unix_ms: owner.map(|_| self.since_unix_ms),
            remaining: (state != State::Free).then(|| self.handoff.remaining(now)),
            waiters: Some(self.handoff.waiters().map(waiter).collect()),
            more_waiters: 0,
            note: None,
        }
    }

    /// Returns true if the record contains nothing but the last holder. The clock must have passed
    /// its tokens too, or the next tokens would be lower.
    pub(super) fn is_idle(&self, now: Now, retention: Duration) -> bool {
        let free = self.handoff.state(now) == handoff::State::Free;
        let idle = Duration::from_nanos(now.steady_ns.saturating_sub(self.touched.steady_ns));
        let passed = self.handoff.top().is_none_or(|top| top.get() < now.unix_us());
        free && passed && self.handoff.waiters().len() == 0 && idle >= retention
    }

    fn answered(&self, answer: handoff::Answer) -> Result<Answer> {
        let ask_again = answer.ask_again();
        Ok(match answer {
            handoff::Answer::Granted(tokens) => {
                let wanted = self.handoff.waiters().len() > 0;
                Answer::Granted(Grant { tokens, term: Term::Ttl, wanted })
            }
            handoff::Answer::Queued { place, .. } => {
                let place = Some(place as u64);
                Answer::Queued { place, ask_again: ask_again.unwrap_or_default() }
            }
            handoff::Answer::Busy(_) => Answer::Busy { ask_again },
            handoff::Answer::Ended => Answer::Ended,
            handoff::Answer::UsedUp => {
                let message =
                    "the lock has no token left (2^53-1 was reached); use another lock name";
                return Err(Error::new(ErrorKind::Foreign, message));
            }
        })
    }

    /// Runs one step of the machine and turns its pushes into events.
    fn step<A>(
        &mut self,
        now: Now,
        name: &Name,
        reach: Reach<'_>,
        step: impl FnOnce(&mut handoff::Record<Participant>, handoff::Reach<'_>) -> A,
    ) -> A {
        self.touched = now;
        let before = self.handoff.base();
        let answer = step(&mut self.handoff, &mut |attempt, push| {
            reach(attempt, event(now, name, attempt, push))
        });
        if self.handoff.base() != before {
            self.since_unix_ms = now.unix_ms();
        }
        answer
    }
}

fn question(now: Now, request: &AcquireRequest) -> handoff::AcquireRequest<Participant> {
    request.for_record(Participant { origin: request.origin.clone(), asked_unix_ms: now.unix_ms() })
}

fn event(now: Now, name: &Name, attempt: AttemptId, push: Push) -> Event {
    match push {
        Push::Granted { tokens, offer, waiters } => {
            let term = Term::Offer(Deadline::after(now, offer.saturating_sub(drift(offer))));
            let grant = Grant { tokens, term, wanted: waiters > 0 };
            Event::Granted { name: name.clone(), attempt, grant }
        }
        Push::Next { remaining, .. } => {
            Event::Next { name: name.clone(), attempt, ask_again: remaining }
        }
        Push::Wanted { .. } => Event::Wanted { name: name.clone(), attempt },
        Push::Lost { base } => Event::Lost { attempt, base },
    }
}
