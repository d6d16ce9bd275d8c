//! A client of a run: a program that works under the lock, over the real machines.

mod acquiring;
mod machines;

use std::collections::VecDeque;

use leasehold_proto::quorum::{self, Admission, Attempt};
use leasehold_proto::{AttemptId, Deadline, Lease, Now, Token};

use super::clock::Clock;
use super::parcel::Parcel;
use super::plan::Behaviour;
use super::trace::ClientChange;
use super::{Belief, Bug, Plan, Rng, SECOND, Setup};
use acquiring::Acquiring;

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
    pub(super) attempts: Vec<Attempt<Option<quorum::Bug>>>,
    pub(super) admission: Option<Admission>,
    pub(super) lease: Option<Lease>,
    /// The call that acquires, while the program wants the lock.
    acquiring: Option<Acquiring>,
    /// When the request was sent first that is being repeated.
    repeated: Option<Now>,
    /// The nodes that the attempts were made with, where that is not all of them.
    pub(super) connected: Vec<usize>,
    /// The next attempt takes the lock over from any holder.
    pub(super) force: bool,
    /// An operator has released the lease of the current attempt by force.
    pub(super) forced: bool,
    seen: u64,
    sequence: u32,
    /// When the last renewal was sent.
    renewed: Now,
    /// When the faults end.
    calm: u64,
    /// How far the time that its machines see lies behind, with a planted bug.
    lag: u64,
    /// True since it was stopped, or its clock jumped, until it has had time to notice.
    pub(super) startled: bool,
}

/// What the program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing before this moment.
    Idle(u64),
    /// It wants the lock, and its call acquires.
    Wants,
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
    Changed(ClientChange),
    /// It begins to listen for a release.
    Listens,
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
            repeated: None,
            connected: Vec::new(),
            force: false,
            forced: false,
            acquiring: None,
            seen: 0,
            sequence: 0,
            renewed: now,
            calm: plan.calm,
            lag: 0,
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
        let now = self.clock.read(time);
        let when = |deadline: Deadline| self.clock.since(time, now, deadline);
        let own = match self.phase {
            Phase::Idle(until) => Some(until),
            Phase::Wants => self.acquiring.as_ref().and_then(|call| call.next(now)).map(when),
            Phase::Works { until, .. } => Some(until),
            Phase::Writes { at, .. } => Some(at),
            Phase::Waits { .. } | Phase::Gone => None,
        };
        let slow = behind(now, self.lag);
        let machines = self
            .attempts
            .iter()
            .filter_map(Attempt::poll_timeout)
            .map(|due| when(Deadline::after(now, due.remaining(slow))));
        let lease = self.lease.as_ref().and_then(Lease::next_timeout).map(when);
        let admission = self.admission.as_ref().and_then(|one| one.poll_timeout(now)).map(when);
        let next = own.into_iter().chain(machines).chain(lease).chain(admission).min()?;
        Some(next.max(self.stopped_until))
    }

    /// What the program and the machines do at this moment.
    pub(super) fn step(&mut self, plan: &Plan, time: u64, rng: &mut Rng, said: &mut Vec<Said>) {
        self.slow_down(plan, time);
        self.program(plan, time, rng, said);
        let now = self.clock.read(time);
        if let Some(admission) = &mut self.admission {
            admission.handle_timeout(now);
        }
        let slow = self.machine_now(time);
        self.attempts.iter_mut().for_each(|attempt| attempt.handle_timeout(slow));
        self.listen(plan, time, rng, said);
        self.watch(plan, time, rng, said);
        self.startled = false;
        self.attempts.retain(|attempt| !attempt.is_done());
    }

    fn program(&mut self, plan: &Plan, time: u64, rng: &mut Rng, said: &mut Vec<Said>) {
        match self.phase {
            Phase::Idle(until) if until <= time => {
                self.begin_call(time);
                self.pursue(plan, time, rng, said);
            }
            Phase::Wants => self.pursue(plan, time, rng, said),
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
            attempt.release(behind(now, self.lag));
        }
        said.push(Said::Released);
        self.rest(time, rng);
    }

    fn rest(&mut self, time: u64, rng: &mut Rng) {
        self.phase = match self.behaviour.think {
            // After the end of the faults the lock stays free for seconds, so that a client that
            // never acquires it was excluded, and was not only unlucky.
            Some(_) if time >= self.calm => Phase::Idle(time + rng.between(2 * SECOND, 5 * SECOND)),
            Some((low, high)) => Phase::Idle(time + rng.between(low, high)),
            None => Phase::Idle(u64::MAX),
        };
    }

    /// Redisson does not count how long its requests take: its machine never sees more than half a ttl.
    fn slow_down(&mut self, plan: &Plan, time: u64) {
        if plan.setup == Setup::RedissonRedlock
            && let Some(asked) = self.acquiring.as_ref().and_then(Acquiring::asked)
        {
            let elapsed = self.clock.read(time).steady_ns.saturating_sub(asked.steady_ns);
            self.lag = elapsed.saturating_sub(plan.ttl.as_nanos() as u64 / 2);
        }
    }

    /// The time that the attempts' machines are given.
    pub(super) fn machine_now(&self, time: u64) -> Now {
        behind(self.clock.read(time), self.lag)
    }
}

fn belief(plan: &Plan) -> Belief {
    match plan.bug {
        Some(Bug::RenewalRecreates | Bug::RenewalByExpire) => Belief::Told,
        _ => plan.setup.belief(),
    }
}

fn behind(now: Now, lag: u64) -> Now {
    Now { steady_ns: now.steady_ns.saturating_sub(lag), wall_ns: now.wall_ns.saturating_sub(lag) }
}
