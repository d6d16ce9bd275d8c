//! A client of a run: a program that works under the lock, over the real machines.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold_proto::quorum::{Admission, Attempt, Event, Terms};
use leasehold_proto::{
    AttemptId, Backoff, ClientId, Deadline, Lease, LossReason, Now, Step, Terms as LeaseTerms,
    Token, drift,
};

use super::clock::Clock;
use super::plan::Behaviour;
use super::world::Parcel;
use super::{Belief, Bug, MS, Plan, Rng};

/// One client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) number: usize,
    pub(super) life: u32,
    pub(super) clock: Clock,
    pub(super) behaviour: Behaviour,
    /// It does nothing before; what arrives waits.
    pub(super) stopped_until: u64,
    pub(super) inbox: VecDeque<Parcel>,
    pub(super) phase: Phase,
    /// The current attempt is the last; earlier ones are being cleaned up.
    pub(super) attempts: Vec<Attempt>,
    pub(super) admission: Option<Admission>,
    pub(super) lease: Option<Lease>,
    /// The nodes that the attempts were made with, where that is not all of them.
    pub(super) connected: Vec<usize>,
    /// The next attempt takes the lock over, whoever has it.
    pub(super) force: bool,
    seen: u64,
    sequence: u32,
    backoff: Backoff,
    /// When the last renewal was sent.
    renewed: Now,
    /// True since it was stopped, or its clock jumped, until it has had time to notice.
    pub(super) startled: bool,
}

/// What the program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing before this moment.
    Idle(u64),
    /// It wants the lock; the next try is at the moment that is given, if not under way.
    Wants { since: u64, again: Option<u64> },
    /// It works until then, having read both resources.
    Works { until: u64, token: u64, read: [u64; 2] },
    /// It has looked whether it still holds the lock, and sends its write then.
    Writes { at: u64, token: u64, read: [u64; 2] },
    /// It waits for the resource's answer.
    Waits { token: u64 },
    /// Done for good.
    Gone,
}

/// What a client tells the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Asks,
    Denied,
    Held {
        attempt: AttemptId,
        token: Token,
    },
    Renewed {
        token: Token,
    },
    /// Told of the loss in time, if that can be said of it.
    Lost {
        in_time: bool,
    },
    NotValid,
    Sends {
        token: u64,
        read: [u64; 2],
    },
    Released,
}

impl Client {
    pub(super) fn new(plan: &Plan, number: usize, clock: Clock, life: u32, time: u64) -> Self {
        let now = clock.read(time);
        let admits = plan.setup.admission() && plan.bug != Some(Bug::NoAdmission);
        let behaviour = plan.clients[number];
        Self {
            number,
            life,
            clock,
            behaviour,
            stopped_until: 0,
            inbox: VecDeque::new(),
            phase: Phase::Idle(time.max(behaviour.start)),
            attempts: Vec::new(),
            admission: admits.then(|| Admission::new(now, plan.setup.nodes(), plan.ttl, None)),
            lease: None,
            connected: Vec::new(),
            force: false,
            seen: 0,
            sequence: 0,
            backoff: Backoff::new(Duration::from_millis(5), Duration::from_millis(200)),
            renewed: now,
            startled: false,
        }
    }

    /// Whether it takes itself for the holder.
    pub(super) fn believes(&self, plan: &Plan, time: u64) -> bool {
        let working =
            matches!(self.phase, Phase::Works { .. } | Phase::Writes { .. } | Phase::Waits { .. });
        let now = self.clock.read(time);
        working
            && match belief(plan) {
                Belief::Finished => true,
                Belief::Told => self.lease.as_ref().is_some_and(|lease| lease.loss().is_none()),
                Belief::Deadline => self.lease.as_ref().is_some_and(|lease| lease.is_valid(now)),
            }
    }

    /// When it has something to do by itself.
    pub(super) fn next(&self, time: u64) -> Option<u64> {
        if self.phase == Phase::Gone {
            return None;
        }
        let when = |deadline: Deadline| self.clock.when(time, deadline);
        let own = match self.phase {
            Phase::Idle(until) => Some(until),
            Phase::Wants { again, .. } => again,
            Phase::Works { until, .. } => Some(until),
            Phase::Writes { at, .. } => Some(at),
            Phase::Waits { .. } | Phase::Gone => None,
        };
        let machines = self.attempts.iter().filter_map(Attempt::poll_timeout).map(when);
        let lease = self.lease.as_ref().and_then(Lease::next_timeout).map(when);
        let now = self.clock.read(time);
        let admission = self.admission.as_ref().and_then(|one| one.poll_timeout(now)).map(when);
        let next = own.into_iter().chain(machines).chain(lease).chain(admission).min()?;
        Some(next.max(self.stopped_until))
    }

    /// What the program and the machines do at this moment.
    pub(super) fn step(&mut self, plan: &Plan, time: u64, rng: &mut Rng, said: &mut Vec<Said>) {
        self.program(plan, time, rng, said);
        let now = self.clock.read(time);
        if let Some(admission) = &mut self.admission {
            admission.handle_timeout(now);
        }
        self.attempts.iter_mut().for_each(|attempt| attempt.handle_timeout(now));
        self.listen(plan, time, rng, said);
        self.watch(plan, time, rng, said);
        self.startled = false;
        self.attempts.retain(|attempt| !attempt.is_done());
    }

    fn program(&mut self, plan: &Plan, time: u64, rng: &mut Rng, said: &mut Vec<Said>) {
        match self.phase {
            Phase::Idle(until) if until <= time => {
                self.phase = Phase::Wants { since: time, again: Some(time) };
                self.program(plan, time, rng, said);
            }
            Phase::Wants { since, again: Some(again) } if again <= time => {
                if time - since > self.behaviour.patience {
                    return self.rest(time, rng);
                }
                self.phase = Phase::Wants { since, again: None };
                self.ask(plan, time);
                said.push(Said::Asks);
            }
            Phase::Works { until, token, read } if until <= time => {
                if self.believes(plan, time) {
                    let at = time + rng.between(self.behaviour.write.0, self.behaviour.write.1);
                    self.phase = Phase::Writes { at, token, read };
                } else {
                    said.push(Said::NotValid);
                    self.finish(time, rng, said);
                }
            }
            Phase::Writes { at, token, read } if at <= time => {
                self.phase = Phase::Waits { token };
                said.push(Said::Sends { token, read });
            }
            _ => {}
        }
    }

    /// The resource has answered.
    pub(super) fn written(&mut self, time: u64, rng: &mut Rng, said: &mut Vec<Said>) {
        if let Phase::Waits { .. } = self.phase {
            self.finish(time, rng, said);
        }
    }

    /// Gives the lock back and rests.
    fn finish(&mut self, time: u64, rng: &mut Rng, said: &mut Vec<Said>) {
        let now = self.clock.read(time);
        self.lease = None;
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.release(now);
        }
        said.push(Said::Released);
        self.rest(time, rng);
    }

    fn rest(&mut self, time: u64, rng: &mut Rng) {
        self.phase = match self.behaviour.think {
            Some((low, high)) => Phase::Idle(time + rng.between(low, high)),
            None => Phase::Idle(u64::MAX),
        };
    }

    fn ask(&mut self, plan: &Plan, time: u64) {
        let now = self.clock.read(time);
        self.sequence += 1;
        let client = ClientId::from_bits(self.number as u64);
        let attempt = AttemptId::new(client, self.sequence, self.life);
        let nodes = match plan.bug {
            Some(Bug::MajorityOfConnected) => self.connected.len(),
            _ => plan.setup.nodes(),
        };
        let terms = Terms { attempt, nodes, ttl: plan.ttl, limit: plan.limit, seen: self.seen };
        self.attempts.push(Attempt::acquire(now, terms));
        let terms = LeaseTerms {
            ttl: plan.ttl,
            renew_after: self.behaviour.renews.then_some(plan.ttl / 3),
            max_hold: None,
            session: belief(plan) != Belief::Deadline,
        };
        self.lease = Some(Lease::ask(now, terms));
    }

    fn listen(&mut self, plan: &Plan, time: u64, rng: &mut Rng, said: &mut Vec<Said>) {
        let now = self.clock.read(time);
        let last = self.attempts.len();
        for index in 0..last {
            let current = index + 1 == last;
            while let Some(event) = self.attempts[index].poll_event() {
                self.seen = self.seen.max(self.attempts[index].seen());
                if current {
                    self.hear(plan, time, now, event, rng, said);
                }
            }
        }
    }

    fn hear(
        &mut self,
        plan: &Plan,
        time: u64,
        now: Now,
        event: Event,
        rng: &mut Rng,
        said: &mut Vec<Said>,
    ) {
        let bits = rng.bits();
        let Some(attempt) = self.attempts.last_mut() else { return };
        let bound = |until: Deadline| match plan.bug {
            Some(Bug::BoundFromTheReply) => Deadline::after(now, plan.ttl - drift(plan.ttl)),
            Some(Bug::NoDrift) => Deadline::after(now, until.remaining(now) + drift(plan.ttl)),
            _ => until,
        };
        let timed = belief(plan) == Belief::Deadline;
        match (event, &mut self.lease, self.phase) {
            (Event::Held { token, until, .. }, Some(lease), Phase::Wants { .. }) => {
                if lease.handle_granted(now, timed.then(|| bound(until)), false, bits).is_err() {
                    return self.finish(time, rng, said);
                }
                if plan.bug == Some(Bug::SetThenExpire) {
                    attempt.renew(now, plan.ttl);
                }
                self.backoff.reset();
                let attempt = attempt.id();
                let until = time + rng.between(self.behaviour.hold.0, self.behaviour.hold.1);
                self.phase = Phase::Works { until, token: token.get(), read: [0; 2] };
                said.push(Said::Held { attempt, token });
            }
            (Event::Denied(denied), _, Phase::Wants { since, .. }) => {
                self.lease = None;
                let mut pause = self.backoff.next(bits).as_nanos() as u64 + MS;
                self.force = false;
                if plan.bug == Some(Bug::TimestampInTheValue)
                    && let Some(free_in) = denied.free_in
                {
                    // By the time in the value it is over: it is replaced.
                    pause = free_in.as_nanos() as u64 + rng.below(2 * MS);
                    self.force = true;
                }
                self.phase = Phase::Wants { since, again: Some(time + pause) };
                said.push(Said::Denied);
            }
            (Event::Renewed { until }, Some(lease), _) => {
                // Both count from when the renewal was sent, but for a planted bug.
                let sent = match plan.bug {
                    Some(Bug::BoundFromTheReply) => now,
                    _ => self.renewed,
                };
                lease.handle_renewed(sent, now, bits);
                let _ = until;
                said.extend(self.token().map(|token| Said::Renewed { token }));
            }
            (Event::NotRenewed, Some(lease), _) => lease.handle_renewal_failed(now, bits),
            (Event::Lost, Some(lease), _) => {
                if let Step::Lost(_) = lease.handle_lost(LossReason::NotOwner) {
                    self.lost(time, true, rng, said);
                }
            }
            _ => {}
        }
    }

    /// Renews, and notices the end of the lease.
    fn watch(&mut self, plan: &Plan, time: u64, rng: &mut Rng, said: &mut Vec<Said>) {
        let now = self.clock.read(time);
        loop {
            let Some(lease) = &mut self.lease else { return };
            let ended = lease.deadline().is_some_and(|deadline| deadline.has_passed(now));
            match lease.handle_timeout(now) {
                Step::Wait => return,
                Step::Renew => {
                    self.renewed = now;
                    let Some(attempt) = self.attempts.last_mut() else { return };
                    attempt.renew(asked(plan, attempt, now), plan.ttl);
                    self.listen(plan, time, rng, said);
                }
                Step::Lost(_) => {
                    self.lost(time, !ended || self.startled, rng, said);
                }
                Step::End => {}
            }
        }
    }

    /// The token that the program works with.
    pub(super) fn token(&self) -> Option<Token> {
        match self.phase {
            Phase::Works { token, .. } | Phase::Writes { token, .. } | Phase::Waits { token } => {
                Token::new(token)
            }
            _ => None,
        }
    }

    fn lost(&mut self, time: u64, in_time: bool, rng: &mut Rng, said: &mut Vec<Said>) {
        if matches!(self.phase, Phase::Works { .. }) {
            said.push(Said::Lost { in_time });
            self.finish(time, rng, said);
        }
    }
}

fn belief(plan: &Plan) -> Belief {
    match plan.bug {
        Some(Bug::RenewalRecreates | Bug::RenewalByExpire) => Belief::Told,
        _ => plan.setup.belief(),
    }
}

/// The time that a renewal goes by: with a planted bug the client does not look at the clock.
pub(super) fn asked(plan: &Plan, attempt: &Attempt, now: Now) -> Now {
    match (plan.bug, attempt.deadline()) {
        (Some(Bug::RenewalRecreates | Bug::RenewalByExpire), Some(deadline))
            if deadline.has_passed(now) =>
        {
            Now {
                steady_ns: deadline.steady_ns().saturating_sub(MS),
                wall_ns: (deadline.unix_ms() * MS).saturating_sub(MS),
            }
        }
        _ => now,
    }
}
