//! What can happen next, and what it does.

use std::time::Duration;

use leasehold_proto::AttemptId;
use leasehold_proto::client::Release;
use leasehold_proto::handoff::ReleaseRequest;

use super::attempt_id::attempt;
use super::client::{World, now};
use super::{Answered, Bug, Call, Holding, Message, Operation, Phase, Setup, State, TTL, upkeep};

/// How often a lease is passed on inside its process, however many tokens it has.
const PASSES: u64 = 1;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Time passes.
    Tick,
    /// Fault: time passes for the server only, as long as a ttl.
    Jump,
    /// A message arrives.
    Deliver(Message),
    /// Fault: it is lost.
    Lose(Message),
    /// Fault: it arrives, and will again.
    Repeat(Message),
    /// Fault: the request arrives, its answer does not.
    Unheard(Message),
    /// A client begins to acquire.
    Start(u8),
    /// It asks again, or ends again, because no answer can come any more.
    Again(u8),
    /// Fault: it does so though an answer was still to come.
    TooSoon(u8),
    /// A waiter's timer fires.
    Timer(u8),
    /// It does not want the lock any more.
    EndWaiting(u8),
    /// It renews.
    Renew(u8),
    /// It passes the lock on inside its process.
    Pass(u8),
    /// Its task gives the guard back, and the client keeps the lease for the next one.
    Cache(u8),
    /// A task takes the lease that the client keeps.
    TakeCached(u8),
    /// The client gives back a lease that it has cached.
    GiveBack(u8),
    /// It gives its guard back.
    Release(u8),
    /// It exchanges its lease for a new attempt.
    Rotate(u8),
    /// The task that waits leaves, and another goes on with its attempt.
    Inherit(u8),
    /// It leaves, and the next task asks for a lease with other terms.
    Leave(u8),
    /// The next task takes over the lease that was passed on.
    TakeOver(u8),
    /// Fault: the server refuses an exchange.
    Refuse(Message),
    /// Fault: it asks for itself before it has heard the answer to an exchange.
    Impatient(u8),
    /// Fault: it crashes.
    Crash(u8),
    /// Fault: its subscription ends.
    Unsubscribe(u8),
    /// Its subscription is made anew.
    Resubscribe(u8),
    /// An operator, or the server by itself, maintains the store.
    Maintain(Operation),
}

/// Lists what can happen.
pub(super) fn enabled(setup: &Setup, state: &State, actions: &mut Vec<Action>) {
    if setup.prompt && !state.network.is_empty() {
        return promptly(setup, state, actions);
    }
    let fault = state.faults > 0;
    let delayed = setup.timers && !state.network.is_empty();
    if state.clock < setup.ticks && !delayed {
        actions.push(Action::Tick);
    }
    if fault && setup.bad_timing {
        actions.push(Action::Jump);
    }
    for message in &state.network {
        actions.push(Action::Deliver(*message));
        if fault {
            if !matches!(message, Message::Reply { .. }) {
                actions.push(Action::Lose(*message));
            }
            if matches!(message, Message::Request { .. }) {
                actions.push(Action::Unheard(*message));
            }
            if setup.tasks && matches!(message, Message::Request { call: Call::Rotate(..), .. }) {
                actions.push(Action::Refuse(*message));
            }
            if repeats(setup, message) {
                actions.push(Action::Repeat(*message));
            }
        }
    }
    for id in 0..setup.clients {
        enabled_for(setup, state, id, actions);
    }
    let mut operations = Vec::new();
    upkeep::enabled(setup, state, &mut operations);
    actions.extend(operations.into_iter().map(Action::Maintain));
}

/// What can happen in a prompt run while messages are on their way.
fn promptly(setup: &Setup, state: &State, actions: &mut Vec<Action>) {
    actions.extend(state.network.iter().copied().map(Action::Deliver));
    let waits = |client: &&super::Client| match &client.phase {
        Phase::Waiting(waiting) => !waiting.pending().is_in_exchange(),
        _ => false,
    };
    for (id, _) in
        (0..).zip(&state.clients).filter(|(_, client)| setup.waiters_leave && waits(client))
    {
        actions.push(Action::EndWaiting(id));
    }
}

/// An ask is repeated by the client only, which then knows; unless that is what is looked at.
fn repeats(setup: &Setup, message: &Message) -> bool {
    match message {
        Message::Request { call: Call::Acquire(_) | Call::Rotate(..), .. } => setup.silent,
        Message::Request { .. } | Message::Push { .. } => true,
        Message::Reply { .. } => false,
    }
}

fn enabled_for(setup: &Setup, state: &State, id: u8, actions: &mut Vec<Action>) {
    let client = &state.clients[usize::from(id)];
    if !client.up {
        return;
    }
    let fault = state.faults > 0;
    let clock = state.clock;
    let another = client.attempts < setup.attempts;
    match &client.phase {
        Phase::Idle if another => actions.push(Action::Start(id)),
        Phase::Idle => {}
        Phase::Waiting(waiting) => {
            let pending = waiting.pending();
            if setup.waiters_leave {
                actions.push(Action::EndWaiting(id));
            }
            if pending.is_due(now(clock)) {
                actions.push(Action::Timer(id));
            }
            if fault && pending.is_in_exchange() && !pending.is_asking() {
                actions.push(Action::Impatient(id));
            }
            if setup.local_queue && another {
                actions.push(Action::Inherit(id));
            }
            if setup.tasks && another {
                actions.push(Action::Leave(id));
            }
        }
        Phase::Holding(holding) if holding.released => actions.push(Action::TakeOver(id)),
        Phase::Holding(holding) if holding.cached => {
            if client.takes(setup, now(clock)).is_some() {
                actions.push(Action::TakeCached(id));
            }
            if !client.is_ending(holding.attempt) {
                actions.push(Action::GiveBack(id));
            }
            if holding.renews_unused(setup, id, clock) {
                actions.push(Action::Renew(id));
            }
        }
        Phase::Holding(holding) => {
            let valid = holding.lease.is_valid(now(clock));
            actions.push(Action::Release(id));
            if holding.renews(setup, id, clock) {
                actions.push(Action::Renew(id));
            }
            if client.would_cache(setup, now(clock)) {
                actions.push(Action::Cache(id));
            }
            let passed = holding.tokens.token().get() - holding.tokens.base().get();
            let passes = client.decide(setup, now(clock), Duration::ZERO) == Some(Release::PassOn);
            if passes && passed < PASSES {
                actions.push(Action::Pass(id));
            }
            if valid && setup.rotate && another {
                actions.push(Action::Rotate(id));
            }
        }
    }
    match state.unanswered(id) {
        Some(false) => actions.push(Action::Again(id)),
        Some(true) if fault => actions.push(Action::TooSoon(id)),
        _ => {}
    }
    if !client.subscribed {
        actions.push(Action::Resubscribe(id));
    } else if fault && client.phase != Phase::Idle {
        actions.push(Action::Unsubscribe(id));
    }
    if fault && (client.phase != Phase::Idle || !client.endings.is_empty()) {
        actions.push(Action::Crash(id));
    }
}

impl Holding {
    /// It is time to renew.
    fn renews(&self, setup: &Setup, id: u8, clock: u8) -> bool {
        let full = super::client::terms(setup.ttl(id)).ttl;
        let due = self.offered || self.lease.remaining(now(clock)) + super::TICK <= full;
        self.lease.is_valid(now(clock)) && self.renewing.is_none() && due
    }

    /// It is renewed though no task holds it.
    pub(super) fn renews_unused(&self, setup: &Setup, id: u8, clock: u8) -> bool {
        let renews = setup.bug == Some(Bug::CachedLeaseIsRenewedBlindly);
        renews && self.cached && self.renews(setup, id, clock)
    }
}

impl State {
    /// Whether a call of the client waits for an answer, and whether one can still come.
    pub(super) fn unanswered(&self, id: u8) -> Option<bool> {
        let attempt = self.awaits(id)?;
        let coming = |message: &Message| {
            !matches!(message, Message::Push { .. })
                && message.client() == id
                && message.concerns(attempt)
        };
        Some(self.network.iter().any(coming))
    }

    /// The attempt that the client waits for an answer about: the oldest ending first.
    fn awaits(&self, id: u8) -> Option<AttemptId> {
        let client = &self.clients[usize::from(id)];
        match (client.endings.first(), &client.phase) {
            (Some(ending), _) => Some(ending.release.attempt),
            (None, Phase::Waiting(waiting)) => {
                waiting.pending().is_asking().then(|| waiting.pending().attempt())
            }
            (None, Phase::Holding(holding)) => holding.renewing.map(|_| holding.attempt),
            (None, Phase::Idle) => None,
        }
    }

    /// Lets it happen.
    pub(super) fn apply(&mut self, setup: &Setup, action: &Action) {
        match *action {
            Action::Tick => {
                self.clock += 1;
                self.server_time += 1;
            }
            Action::Jump => {
                self.faults -= 1;
                self.server_time += TTL;
            }
            Action::Deliver(message) => {
                self.network.remove(&message);
                self.deliver(setup, message);
            }
            Action::Lose(message) => {
                self.faults -= 1;
                self.network.remove(&message);
            }
            Action::Repeat(message) => {
                self.faults -= 1;
                self.deliver(setup, message);
            }
            Action::Unheard(message) => {
                self.faults -= 1;
                self.network.remove(&message);
                if let Message::Request { from, sent, call } = message {
                    self.serve(setup, from, sent, call);
                }
            }
            Action::Refuse(message) => {
                self.faults -= 1;
                self.network.remove(&message);
                if let Message::Request { from, sent, call: Call::Rotate(release, next) } = message
                {
                    let answer = Answered::Refused(release.attempt, next);
                    self.network.insert(Message::Reply { to: from, sent, at: 0, answer });
                }
            }
            Action::Maintain(operation) => self.maintain(setup, operation),
            Action::TooSoon(id) => {
                self.faults -= 1;
                self.act(setup, id, Action::Again(id));
            }
            Action::Crash(id) | Action::Unsubscribe(id) | Action::Impatient(id) => {
                self.faults -= 1;
                self.act(setup, id, *action);
            }
            Action::Start(id)
            | Action::Again(id)
            | Action::Timer(id)
            | Action::EndWaiting(id)
            | Action::Renew(id)
            | Action::Pass(id)
            | Action::Cache(id)
            | Action::TakeCached(id)
            | Action::GiveBack(id)
            | Action::Release(id)
            | Action::Rotate(id)
            | Action::Inherit(id)
            | Action::Leave(id)
            | Action::TakeOver(id)
            | Action::Resubscribe(id) => self.act(setup, id, *action),
        }
        self.sweep();
    }

    pub(super) fn deliver(&mut self, setup: &Setup, message: Message) {
        if let Message::Request { from, sent, call } = message {
            let reply = self.serve(setup, from, sent, call);
            if matches!(call, Call::Release(_)) {
                self.deliver(setup, reply);
                self.remove_dead_waiters(setup, from);
            } else {
                self.network.insert(reply);
            }
            return;
        }
        let id = usize::from(message.client());
        let Self { clients, network, history, clock, .. } = self;
        let mut world = World { setup, clock: *clock, network, history };
        match message {
            Message::Reply { sent, at, answer, .. } => {
                clients[id].handle_reply(&mut world, sent, at, answer);
            }
            Message::Push { attempt, at, push, .. } if clients[id].up => {
                clients[id].handle_push(&mut world, attempt, at, push);
            }
            Message::Push { .. } | Message::Request { .. } => {}
        }
    }

    /// The answer to a release reports that dead waiters are left: the client sends another end,
    /// for an attempt that no client has made.
    fn remove_dead_waiters(&mut self, setup: &Setup, id: u8) {
        let Self { server, clients, network, history, clock, .. } = self;
        let client = &mut clients[usize::from(id)];
        let mute =
            setup.bug == Some(Bug::CapTellsNobody) || setup.bug == Some(Bug::RestIsNeverRemoved);
        if !client.up || mute || !server.record.needs_another_step() {
            return;
        }
        let mut world = World { setup, clock: *clock, network, history };
        let attempt = attempt(id, 0);
        if client.endings.iter().all(|ending| ending.release.attempt != attempt) {
            let (base, last, suspect, keep) = (None, None, false, None);
            client.end(&mut world, ReleaseRequest { attempt, base, last, suspect, keep });
        }
    }

    fn act(&mut self, setup: &Setup, id: u8, action: Action) {
        let Self { clients, network, history, clock, .. } = self;
        let mut world = World { setup, clock: *clock, network, history };
        let client = &mut clients[usize::from(id)];
        match action {
            Action::Start(_) => client.start(&mut world),
            Action::Again(_) => client.again(&mut world),
            Action::Timer(_) | Action::Impatient(_) => client.ask(&mut world),
            Action::EndWaiting(_) => client.end_waiting(&mut world),
            Action::Renew(_) => client.renew(&mut world),
            Action::Pass(_) => client.pass(&mut world),
            Action::Release(_) => client.release(&mut world),
            Action::Cache(_) => client.cache(),
            Action::TakeCached(_) => client.take(&mut world),
            Action::GiveBack(_) => client.give_back(&mut world),
            Action::Rotate(_) => client.exchange(&mut world),
            Action::Inherit(_) => client.inherit(&mut world),
            Action::Leave(_) => client.leave(&mut world),
            Action::TakeOver(_) => client.take_over(&mut world),
            Action::Crash(_) => {
                client.up = false;
                client.phase = Phase::Idle;
                client.endings.clear();
            }
            Action::Unsubscribe(_) => client.subscribed = false,
            Action::Resubscribe(_) => {
                client.subscribed = true;
                client.resubscribed(&mut world);
            }
            _ => {}
        }
    }
}
