//! How a client acquires: the machine of the library's clients decides when it asks, waits and gives
//! up. Each request to the nodes is a quorum attempt of its own, as in the library.

use std::time::Duration;

use leasehold_proto::client::{
    Acquire, Granted, Heard, Limits, Mail, Next, PendingAttempt, Reply, Sound,
};
use leasehold_proto::quorum::{AfterDenied, Attempt, AttemptTerms, Denied, Outlook, Why};
use leasehold_proto::{AttemptId, ClientId, Deadline, Lease, Now, Terms, Token, TokenBlock, drift};

use super::{Client, Phase, Said, behind, belief};
use crate::simulator::{Belief, Bug, ClientChange, MS, Plan, Rng, Setup, Waiting};

/// How long a call asks nodes that do not answer: the default of the library.
const PATIENCE: Duration = Duration::from_secs(10);

/// A call that acquires.
#[derive(Debug)]
pub(super) struct Acquiring {
    machine: Acquire<&'static str>,
    limits: Limits,
    mail: Mail<&'static str>,
    /// When the request was sent that has no reply yet.
    asked: Option<Now>,
    /// A client of a plain lock sleeps until the lease in its way has ended, unless it is notified of
    /// a release.
    sleeps_until: Option<Deadline>,
}

impl Acquiring {
    fn new(attempt: AttemptId, limits: Limits) -> Self {
        let machine = Acquire::new(PendingAttempt::new(attempt, Sound), None, limits);
        Self { machine, limits, mail: Mail::default(), asked: None, sleeps_until: None }
    }

    /// Handles the message that the lock has become free.
    pub(super) fn handle_freed(&mut self) {
        self.mail.ask_again = true;
    }

    /// When the request was sent that has no reply yet.
    pub(super) fn asked(&self) -> Option<Now> {
        self.asked
    }

    /// When the call has something to do by itself; `None` while nodes are asked.
    pub(super) fn next(&self, now: Now) -> Option<Deadline> {
        if self.asked.is_some() {
            return None;
        }
        let ask_at = self.sleeps_until.or(self.machine.pending().ask_at());
        let ask_at = ask_at.filter(|_| !self.mail.ask_again);
        let ask_at = ask_at.unwrap_or(Deadline::after(now, Duration::ZERO));
        Some(self.limits.until.map_or(ask_at, |until| until.min(ask_at)))
    }

    /// Decides what to do now: ask, wait, or give up (`Err`).
    fn poll(&mut self, now: Now) -> Result<bool, ()> {
        if self.asked.is_some() {
            return Ok(false);
        }
        if self.machine.pending().ask_at().is_none() {
            return Ok(true);
        }
        if self.limits.until.is_some_and(|until| until.has_passed(now)) {
            return Err(());
        }
        let sleeps = |until: Deadline| !self.mail.ask_again && !until.has_passed(now);
        if self.sleeps_until.is_some_and(sleeps) {
            return Ok(false);
        }
        match self.machine.handle_mail(now, self.mail.take()) {
            Heard::Wait(until) if self.sleeps_until.is_none() && !until.has_passed(now) => {
                Ok(false)
            }
            Heard::Wait(_) if self.machine.handle_timeout(now) => Err(()),
            _ => Ok(true),
        }
    }
}

impl Client {
    /// Begins a call that acquires.
    pub(super) fn begin_call(&mut self, time: u64) {
        let now = self.clock.read(time);
        let patience = Duration::from_nanos(self.behaviour.patience);
        let bounded = self.behaviour.patience != u64::MAX;
        let until = bounded.then(|| Deadline::after(now, patience));
        let limits = Limits { start: now, until, patience: PATIENCE, waits: true };
        self.phase = Phase::Wants;
        self.begin_attempt(limits);
    }

    fn begin_attempt(&mut self, limits: Limits) {
        self.acquiring = Some(Acquiring::new(self.new_attempt(), limits));
    }

    fn new_attempt(&mut self) -> AttemptId {
        self.sequence += 1;
        AttemptId::new(ClientId::from_bits(self.number as u64), self.sequence, self.life)
    }

    /// Goes on with the call.
    pub(super) fn pursue(&mut self, plan: &Plan, time: u64, rng: &mut Rng, said: &mut Vec<Said>) {
        let now = self.clock.read(time);
        let Some(call) = &mut self.acquiring else { return };
        match call.poll(now) {
            Ok(false) => {}
            Ok(true) => {
                call.machine.handle_sent(now);
                call.asked = Some(now);
                self.ask_nodes(plan, now);
                said.push(Said::Asks);
            }
            Err(()) => self.leave(time, rng),
        }
    }

    /// The call has failed: the program does something else.
    fn leave(&mut self, time: u64, rng: &mut Rng) {
        self.acquiring = None;
        self.rest(time, rng);
    }

    fn ask_nodes(&mut self, plan: &Plan, now: Now) {
        self.forced = false;
        self.repeated = None;
        self.lag = 0;
        let attempt = self.new_attempt();
        let nodes = match plan.bug {
            Some(Bug::MajorityOfConnected) => self.connected.len(),
            _ => plan.setup.nodes(),
        };
        let terms =
            AttemptTerms { attempt, nodes, ttl: plan.ttl, limit: plan.limit, seen: self.seen };
        let rules = plan.bug.and_then(Bug::of_attempt);
        self.attempts.push(Attempt::acquire_by(now, terms, rules));
    }

    /// Sends the request again that had no answer, if clients do that in this plan. By hand it has no
    /// value of its own, so that the node sees another one.
    pub(super) fn repeats(
        &mut self,
        plan: &Plan,
        now: Now,
        denied: &Denied,
        said: &mut Vec<Said>,
    ) -> bool {
        let silent = denied.why == Why::Unavailable && denied.tally.unknown > 0;
        if !plan.repeats || !silent {
            return false;
        }
        let Some(first) = self.acquiring.as_ref().and_then(Acquiring::asked) else { return false };
        let fresh = (plan.setup == Setup::PlainSet).then(|| self.new_attempt());
        let Some(last) = self.attempts.last_mut() else { return false };
        let attempt = fresh.unwrap_or(last.id());
        let (nodes, limit) = (last.nodes(), plan.limit);
        let terms = AttemptTerms { attempt, nodes, ttl: plan.ttl, limit, seen: self.seen };
        *last = Attempt::acquire_by(now, terms, plan.bug.and_then(Bug::of_attempt));
        self.repeated = Some(first);
        said.push(Said::Changed(ClientChange::Repeats));
        true
    }

    /// Handles the grant of the attempt that asks.
    pub(super) fn handle_held(
        &mut self,
        plan: &Plan,
        time: u64,
        (token, until): (Token, Option<Deadline>),
        (bits, jitter): (u64, u64),
        rng: &mut Rng,
        said: &mut Vec<Said>,
    ) {
        let now = self.clock.read(time);
        let Some(call) = &mut self.acquiring else { return };
        let Some(sent) = call.asked.take() else { return };
        let tokens = TokenBlock::single(token);
        let granted = Granted { tokens, until, offer: false, wanted: false, slots: Vec::new() };
        let limits = call.limits;
        let next = call.machine.handle_reply(sent, now, Reply::Granted(granted), || bits);
        // The lease has its own bound; a client that forgets the allowance forgets it there too.
        let forgotten = match plan.bug {
            Some(Bug::NoDrift) => drift(plan.ttl),
            _ => Duration::ZERO,
        };
        let terms = Terms {
            ttl: plan.ttl + forgotten,
            renew_after: self.behaviour.renews.then_some(plan.ttl / 3),
            max_hold: None,
            session: belief(plan) != Belief::Deadline,
        };
        let lease = match next {
            Next::Hold(granted) => granted.lease(sent, now, terms, jitter, Sound).ok(),
            _ => None,
        };
        let Some(attempt) = self.attempts.last_mut() else { return };
        let id = attempt.id();
        match lease {
            Some(lease) => self.begin_work(time, id, token, lease, rng, said),
            None => {
                attempt.release(behind(now, self.lag));
                self.begin_attempt(limits);
            }
        }
    }

    fn begin_work(
        &mut self,
        time: u64,
        attempt: AttemptId,
        token: Token,
        lease: Lease,
        rng: &mut Rng,
        said: &mut Vec<Said>,
    ) {
        self.acquiring = None;
        self.lease = Some(lease);
        let until = time + rng.between(self.behaviour.hold.0, self.behaviour.hold.1);
        self.phase = Phase::Works { until, token: token.get(), read: [0; 2] };
        said.push(Said::Held { attempt, token });
    }

    /// Handles that the nodes denied the attempt that asks.
    pub(super) fn handle_denied(
        &mut self,
        plan: &Plan,
        time: u64,
        denied: &Denied,
        bits: u64,
        rng: &mut Rng,
        said: &mut Vec<Said>,
    ) {
        let now = self.clock.read(time);
        if self.repeated.take().is_some() {
            said.push(Said::Changed(match plan.setup {
                Setup::PlainSet => ClientChange::SomeValue,
                _ => ClientChange::OthersValue,
            }));
        }
        let reply = self.reply_of(plan, now, denied, rng);
        let Some(call) = &mut self.acquiring else { return };
        let Some(sent) = call.asked.take() else { return };
        said.push(Said::Denied);
        if plan.waiting == Waiting::Listens {
            said.push(Said::Listens);
        }
        let limits = call.limits;
        match call.machine.handle_reply(sent, now, reply, || bits) {
            Next::TimedOut(_) => self.leave(time, rng),
            // The program calls again.
            Next::Fail(_) => self.begin_call(time),
            Next::Another => self.begin_attempt(limits),
            _ if plan.waiting == Waiting::Listens => {
                let free_in = denied.free_in.map(|free_in| free_in + Duration::from_millis(1));
                call.sleeps_until = free_in.map(|free_in| Deadline::after(now, free_in));
            }
            _ => {}
        }
    }

    /// What the engine answers when the nodes have denied an attempt.
    fn reply_of(
        &mut self,
        plan: &Plan,
        now: Now,
        denied: &Denied,
        rng: &mut Rng,
    ) -> Reply<&'static str> {
        self.force = false;
        if let (Some(Bug::TimestampInTheValue), Some(free_in)) = (plan.bug, denied.free_in) {
            // By the time in the value it is over: it is replaced.
            self.force = true;
            return Reply::Busy {
                ask_again: Some(free_in + Duration::from_nanos(rng.below(2 * MS))),
            };
        }
        // Without an admission every node may vote.
        let outlook = self.admission.as_ref().map(|admission| admission.outlook(now));
        match denied.decide(outlook.unwrap_or(Outlook::Open)) {
            AfterDenied::Taken => {
                // A waiter in the queue asks again when the lease in its way has ended.
                let free_in = denied.free_in.filter(|_| plan.waiting == Waiting::InLine);
                Reply::Busy { ask_again: free_in.map(|free_in| free_in + Duration::from_millis(1)) }
            }
            AfterDenied::TooLate => Reply::Unanswered("the answer came too late"),
            AfterDenied::Later(ask_again) => {
                Reply::Later { ask_again, why: "nodes wait after a restart" }
            }
            AfterDenied::Unanswered => Reply::Unanswered("too few nodes answer"),
        }
    }
}
