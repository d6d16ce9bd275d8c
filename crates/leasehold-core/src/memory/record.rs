//! One lock in memory: the record of a read-write lock behind the types of the `Backend` trait, with
//! the names of the holders. An exclusive lock is one that no client reads under.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::handoff::{self, Push};
use leasehold_proto::read_write::{self, Member, Phase};
use leasehold_proto::{AttemptId, ClientId, Deadline, Now, Token, drift};

use crate::backend::{
    AcquireRequest, Answer, ConvertRequest, Converted, Ended, Event, Grant, Mode, Origin,
    ReleaseRequest, Renewal, Renewed, Term,
};
use crate::{Error, ErrorKind, Forced, Holder, Name, Result, State, Status};

/// How many readers a status shows.
pub(super) const SHOWN: usize = 100;

/// Sends an event to a client. Returns false if no client receives it.
pub(super) type Reach<'a> = &'a dyn Fn(AttemptId, Event) -> bool;

#[derive(Debug, Default)]
pub(super) struct Record {
    lock: read_write::Record<Participant>,
    /// When the current or last lease was granted: milliseconds since the Unix epoch.
    since_unix_ms: u64,
    touched: Now,
}

/// The process that holds or waits, and when it asked.
#[derive(Clone, Debug)]
pub(super) struct Participant {
    origin: Arc<Origin>,
    pub(super) asked_unix_ms: u64,
}

impl Participant {
    pub(super) fn new(now: Now, origin: &Arc<Origin>) -> Self {
        Self { origin: origin.clone(), asked_unix_ms: now.unix_ms() }
    }

    /// Returns the holder to show for one of its attempts.
    pub(super) fn holder(&self, attempt: AttemptId) -> Holder {
        self.origin.holder(attempt)
    }
}

impl Record {
    pub(super) fn acquire(
        &mut self,
        now: Now,
        request: &AcquireRequest,
        reach: Reach<'_>,
    ) -> Result<Answer> {
        let answer = self.step(now, &request.name, reach, |lock, reach| {
            lock.acquire(now, mode(request), &question(now, request), reach)
        });
        answered(answer)
    }

    pub(super) fn renew(
        &mut self,
        now: Now,
        Renewal { name, attempt, base, ttl, mode: _ }: &Renewal,
        reach: Reach<'_>,
    ) -> Renewed {
        self.step(now, name, reach, |lock, reach| lock.renew(now, *attempt, *base, *ttl, reach))
            .into()
    }

    pub(super) fn convert(
        &mut self,
        now: Now,
        request: &ConvertRequest,
        reach: Reach<'_>,
    ) -> Result<Converted> {
        let ConvertRequest { end, next, again } = request;
        let (end, name, writes) = (end.for_record(), &next.name, next.mode == Mode::Exclusive);
        let next = question(now, next);
        let converted = self.step(now, name, reach, |lock, reach| match writes {
            true => lock.upgrade(now, &end, &next, *again, reach),
            false => lock.downgrade(now, &end, &next, reach),
        });
        match converted {
            read_write::Converted::Granted { tokens, waiters } => {
                let grant = Grant { tokens, term: Term::Ttl, wanted: waiters > 0 };
                Ok(Converted::Granted(grant))
            }
            read_write::Converted::Refused { waiters } => {
                Ok(Converted::Refused { wanted: waiters > 0 })
            }
            read_write::Converted::Lost => Ok(Converted::Lost),
            read_write::Converted::UsedUp => Err(used_up()),
        }
    }

    pub(super) fn release(
        &mut self,
        now: Now,
        release: &ReleaseRequest,
        reach: Reach<'_>,
    ) -> Result<Ended> {
        let ending = release.for_record();
        let (verdict, then) =
            self.step(now, &release.name, reach, |lock, reach| match &release.then {
                Some(request) => {
                    let next = question(now, request);
                    let (verdict, answer) = lock.rotate(now, &ending, mode(request), &next, reach);
                    (verdict, Some(answer))
                }
                None => (lock.release(now, &ending, reach), None),
            });
        Ok(Ended { verdict: verdict.into(), then: then.map(answered).transpose()? })
    }

    /// Continues the queue of a free lock after a step that removed as many dead waiters as one
    /// step may. Returns false if nothing is left to do.
    pub(super) fn remove_dead_waiters(&mut self, now: Now, name: &Name, reach: Reach<'_>) -> bool {
        let before = self.lock.waiters().count();
        if self.lock.needs_another_step() {
            // No attempt has this id, so the step ends nothing.
            let attempt = AttemptId::new(ClientId::from_bits(0), 0, 0);
            let (base, last, suspect, keep) = (None, None, false, None);
            let release = handoff::ReleaseRequest { attempt, base, last, suspect, keep };
            self.step(now, name, reach, |lock, reach| lock.release(now, &release, reach));
        }
        self.lock.needs_another_step() && self.lock.waiters().count() < before
    }

    pub(super) fn force_release(
        &mut self,
        now: Now,
        name: &Name,
        token: Token,
        reach: Reach<'_>,
    ) -> Forced {
        self.step(now, name, reach, |lock, reach| lock.force_release(now, token, reach)).into()
    }

    pub(super) fn force_release_attempt(
        &mut self,
        now: Now,
        name: &Name,
        attempt: AttemptId,
        reach: Reach<'_>,
    ) -> Forced {
        let step = |lock: &mut read_write::Record<_>, reach: handoff::Reach<'_>| {
            lock.force_release_attempt(now, attempt, reach)
        };
        self.step(now, name, reach, step).into()
    }

    pub(super) fn status(&self, now: Now, name: &Name) -> Status {
        let (state, last) = (self.lock.phase(now), self.lock.last_holder());
        let holder = |member: &Member<Participant>| member.tag.holder(member.attempt);
        let holders: Vec<Holder> = self.lock.holders(now).take(SHOWN).map(holder).collect();
        let waiter = |waiter: &read_write::Waiter<Participant>| crate::Waiter {
            holder: waiter.tag.holder(waiter.attempt),
            since_unix_ms: waiter.tag.asked_unix_ms,
            shared: waiter.mode == read_write::Mode::Read,
            slots: None,
        };
        let last_holder = last.map(|(attempt, participant)| participant.holder(attempt));
        Status {
            name: name.clone(),
            state: match state {
                Phase::Free => State::Free,
                Phase::Read => State::Shared,
                Phase::Write => State::Held,
                Phase::Kept => State::Kept,
            },
            holder: holders.first().cloned().or(last_holder),
            readers: if state == Phase::Read { holders } else { Vec::new() },
            permits: None,
            latch: None,
            token: self.lock.base(),
            since_unix_ms: last.map(|_| self.since_unix_ms),
            remaining: (state != Phase::Free).then(|| self.lock.remaining(now)),
            waiters: Some(self.lock.waiters().map(waiter).collect()),
            more_waiters: 0,
            note: None,
        }
    }

    /// Returns true if the record contains nothing but the last holder. The clock must have passed
    /// its tokens too, or the next tokens would be lower.
    pub(super) fn is_idle(&self, now: Now, retention: Duration) -> bool {
        let free = self.lock.phase(now) == Phase::Free;
        let idle = Duration::from_nanos(now.steady_ns.saturating_sub(self.touched.steady_ns));
        let passed = self.lock.top().is_none_or(|top| top.get() < now.unix_us());
        free && passed && self.lock.waiters().next().is_none() && idle >= retention
    }

    /// Runs one step of the machine and turns its pushes into events.
    fn step<A>(
        &mut self,
        now: Now,
        name: &Name,
        reach: Reach<'_>,
        step: impl FnOnce(&mut read_write::Record<Participant>, handoff::Reach<'_>) -> A,
    ) -> A {
        self.touched = now;
        let before = self.lock.base();
        let answer = step(&mut self.lock, &mut |attempt, push| {
            reach(attempt, event(now, name, attempt, push))
        });
        if self.lock.base() != before {
            self.since_unix_ms = now.unix_ms();
        }
        answer
    }
}

fn answered(answer: read_write::Answer) -> Result<Answer> {
    let ask_again = answer.ask_again();
    Ok(match answer {
        read_write::Answer::Granted { tokens, waiters } => {
            Answer::Granted(Grant { tokens, term: Term::Ttl, wanted: waiters > 0 })
        }
        read_write::Answer::Queued { place, .. } => {
            let place = Some(place as u64);
            Answer::Queued { place, ask_again: ask_again.unwrap_or_default() }
        }
        read_write::Answer::Busy(_) => Answer::Busy { ask_again },
        read_write::Answer::Ended => Answer::Ended,
        read_write::Answer::UsedUp => return Err(used_up()),
    })
}

fn used_up() -> Error {
    let message = "the lock has no token left (2^53-1 was reached); use another lock name";
    Error::new(ErrorKind::Foreign, message)
}

fn mode(request: &AcquireRequest) -> read_write::Mode {
    match request.mode {
        Mode::Exclusive | Mode::Permit => read_write::Mode::Write,
        Mode::Shared => read_write::Mode::Read,
    }
}

fn question(now: Now, request: &AcquireRequest) -> handoff::AcquireRequest<Participant> {
    request.for_record(Participant::new(now, &request.origin))
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
