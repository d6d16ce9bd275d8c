//! What can happen next, and what it does.

use leasehold_proto::AttemptId;

use super::client::now;
use super::ids::OPERATOR;
use super::{
    CacheBug, Call, Client, Fault, Holding, Link, Message, Phase, Primitive, Setup, State, TTL, Use,
};

/// One event. Phases are named by their places.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Time passes.
    Tick,
    /// Fault: time passes for the server only, as long as a ttl.
    Jump,
    /// Fault: the server restarts without its data.
    Wipe,
    /// A message arrives.
    Deliver(Message),
    /// Fault: it is lost.
    Lose(Message),
    /// Fault: it arrives, and will again.
    Repeat(Message),
    /// A task of a client begins.
    Begin(u8),
    /// Fault: the time limit of a request passes.
    NoAnswer(u8, AttemptId),
    /// A waiter's timer fires.
    Timer(u8, usize),
    /// Fault: a task stops waiting, or is dropped during a conversion.
    Leave(u8, usize),
    /// A client renews.
    Renew(u8, usize),
    /// A task gives its guard back.
    Release(u8, usize),
    /// The last reader gives its guard back, and the client keeps the lease.
    Cache(u8, usize),
    /// The client gives back a lease that it keeps.
    GiveBack(u8, usize),
    /// A holder begins to convert its lease.
    Convert(u8, usize),
    /// The lease of a reader ended during its upgrade.
    Abandon(u8, usize),
    /// Fault: a client crashes, with this end of its subscription.
    Crash(u8, Link),
    /// A crashed client is started again.
    Restart(u8),
    /// Fault: a subscription ends.
    Cut(u8, Link),
    /// It is made anew.
    Resubscribe(u8),
    /// The operator changes the limit.
    SetLimit,
    /// Fault: the operator receives no answer in time.
    Again,
}

const ENDS: [Link; 2] = [Link::HalfOpen, Link::Gone];

/// Lists what can happen.
pub(super) fn enabled<P: Primitive>(setup: &Setup<P>, state: &State<P>, actions: &mut Vec<Action>) {
    let may = |fault| state.faults > 0 && setup.may(fault);
    if state.clock < setup.ticks {
        actions.push(Action::Tick);
    }
    if may(Fault::Early) {
        actions.push(Action::Jump);
    }
    if may(Fault::Wipe) {
        actions.push(Action::Wipe);
    }
    for message in &state.network {
        actions.push(Action::Deliver(message.clone()));
        if may(Fault::LostPush) && matches!(message, Message::Push { .. }) {
            actions.push(Action::Lose(message.clone()));
        }
        if may(Fault::Repeat) && !matches!(message, Message::Reply { .. }) {
            actions.push(Action::Repeat(message.clone()));
        }
    }
    if !state.operator.asking && state.operator.done < setup.changes.len() {
        actions.push(Action::SetLimit);
    }
    if may(Fault::TimeLimit) && state.operator.asking {
        actions.push(Action::Again);
    }
    for client in &state.clients {
        if client.up {
            enabled_for(setup, state, client, actions);
        } else if setup.may(Fault::Restart) && !client.replaced {
            actions.push(Action::Restart(client.id));
        }
    }
}

fn enabled_for<P: Primitive>(
    setup: &Setup<P>,
    state: &State<P>,
    client: &Client,
    actions: &mut Vec<Action>,
) {
    let may = |fault| state.faults > 0 && setup.may(fault);
    let id = client.id;
    if let Some(task) = setup.clients[client.role].get(client.begun) {
        let same = |phase: &Phase| match phase {
            Phase::Waiting(waiting) => waiting.want() == task.want(),
            _ => false,
        };
        if client.is_idle() || setup.concurrent && !client.phases.iter().any(same) {
            actions.push(Action::Begin(id));
        }
    }
    for (at, phase) in client.phases.iter().enumerate() {
        match phase {
            Phase::Waiting(waiting) => {
                if waiting.pending.is_due(now(state.clock)) {
                    actions.push(Action::Timer(id, at));
                }
                if may(Fault::Leave) {
                    actions.push(Action::Leave(id, at));
                }
            }
            Phase::Holding(holding) if holding.cached => {
                if !client.is_ending(holding.attempt) {
                    actions.push(Action::GiveBack(id, at));
                }
                if setup.cache_bug == Some(CacheBug::RenewedBlindly)
                    && holding.renews(setup.ttl(client.role), state.clock)
                {
                    actions.push(Action::Renew(id, at));
                }
            }
            Phase::Holding(holding) => {
                if client.would_cache(setup, at, now(state.clock)) {
                    actions.push(Action::Cache(id, at));
                }
                actions.push(state.next_of(id, at, holding));
                if holding.renews(setup.ttl(client.role), state.clock) {
                    actions.push(Action::Renew(id, at));
                }
            }
            Phase::Converting(one) => {
                if !one.from.lease.is_valid(now(state.clock)) && one.from.shared.is_some() {
                    actions.push(Action::Abandon(id, at));
                } else if may(Fault::Leave) {
                    actions.push(Action::Leave(id, at));
                }
            }
        }
    }
    if may(Fault::TimeLimit) {
        actions.extend(client.unanswered().map(|attempt| Action::NoAnswer(id, attempt)));
    }
    let fails = client.role >= setup.first_to_fail;
    if client.link != Link::Up {
        actions.push(Action::Resubscribe(id));
    } else if fails && may(Fault::Cut) && !client.phases.is_empty() {
        actions.extend(ENDS.map(|link| Action::Cut(id, link)));
    }
    if fails && may(Fault::Crash) && !(client.phases.is_empty() && client.endings.is_empty()) {
        actions.extend(ENDS.map(|link| Action::Crash(id, link)));
    }
}

impl Holding {
    /// It is time to renew: the lease is an offer, or has lasted for a tick.
    pub(super) fn renews(&self, ttl: u8, clock: u8) -> bool {
        let due = self.offered
            || self.lease.remaining(now(clock)) + super::TICK <= super::state::ticks(ttl);
        self.renewing.is_none() && due && self.lease.is_valid(now(clock))
    }
}

impl<P: Primitive> State<P> {
    /// What a holder does if it does not stay.
    pub(super) fn next_of(&self, id: u8, at: usize, holding: &Holding) -> Action {
        let valid = holding.lease.is_valid(now(self.clock));
        match holding.task {
            Use::Downgrade | Use::Upgrade if valid => Action::Convert(id, at),
            _ => Action::Release(id, at),
        }
    }

    /// Lets it happen.
    pub(super) fn apply(&mut self, setup: &Setup<P>, action: &Action) {
        match action {
            Action::Jump
            | Action::Wipe
            | Action::Lose(_)
            | Action::Repeat(_)
            | Action::NoAnswer(..)
            | Action::Leave(..)
            | Action::Crash(..)
            | Action::Cut(..)
            | Action::Again => self.faults -= 1,
            _ => {}
        }
        match action.clone() {
            Action::Tick => self.clock += 1,
            Action::Jump => self.ahead += TTL,
            Action::Wipe => self.wipe(setup),
            Action::Deliver(message) => {
                self.network.remove(&message);
                self.deliver(setup, message);
            }
            Action::Lose(message) => drop(self.network.remove(&message)),
            Action::Repeat(message) => self.deliver(setup, message),
            Action::Restart(id) => self.restart(id),
            Action::SetLimit => self.set_limit(setup),
            Action::Again => {
                self.network
                    .retain(|message| !matches!(message, Message::Reply { to: OPERATOR, .. }));
                let asked = |message: &Message| {
                    matches!(message, Message::Request { from: OPERATOR, late: false, .. })
                };
                if let Some(Message::Request { from, sent, call, .. }) =
                    self.network.iter().find(|message| asked(message)).cloned()
                {
                    self.network.remove(&Message::Request { from, sent, late: false, call });
                    self.network.insert(Message::Request { from, sent, late: true, call });
                }
                self.set_limit(setup);
            }
            Action::Begin(id) => {
                let client = &self.clients[usize::from(id)];
                let task = setup.clients[client.role][client.begun];
                self.with(setup, id, |client, world| client.begin(world, task));
            }
            Action::NoAnswer(id, attempt) => {
                self.with(setup, id, |client, world| client.handle_no_answer(world, attempt));
            }
            Action::Timer(id, at) => self.with(setup, id, |client, world| client.ask(world, at)),
            Action::Leave(id, at) | Action::Abandon(id, at) => {
                self.with(setup, id, |client, world| match client.phases[at] {
                    Phase::Waiting(_) => client.end_waiting(world, at),
                    _ => client.abandon(world, at),
                });
            }
            Action::Renew(id, at) => self.with(setup, id, |client, world| client.renew(world, at)),
            Action::Release(id, at) => {
                self.with(setup, id, |client, world| client.release(world, at));
            }
            Action::Cache(id, at) => self.with(setup, id, |client, world| client.cache(world, at)),
            Action::GiveBack(id, at) => {
                self.with(setup, id, |client, world| client.give_back(world, at));
            }
            Action::Convert(id, at) => {
                self.with(setup, id, |client, world| client.convert(world, at));
            }
            Action::Crash(id, link) => {
                self.with(setup, id, |client, world| client.crash(world, link));
            }
            Action::Cut(id, link) => self.clients[usize::from(id)].link = link,
            Action::Resubscribe(id) => {
                self.with(setup, id, |client, world| client.resubscribe(world));
            }
        }
        self.sweep();
    }

    /// A crashed client starts again, and does its last task once more.
    fn restart(&mut self, id: u8) {
        let new = self.clients.len() as u8;
        let crashed = &mut self.clients[usize::from(id)];
        crashed.replaced = true;
        let begun = crashed.begun.saturating_sub(1);
        let client = Client { role: crashed.role, begun, ..Client::new(new) };
        self.clients.push(client);
    }

    /// The operator asks for the next change. The first version is 1.
    fn set_limit(&mut self, setup: &Setup<P>) {
        self.operator.asking = true;
        let done = self.operator.done;
        let call = Call::SetLimit(done as u64 + 1, setup.changes[done]);
        self.network.insert(Message::Request { from: OPERATOR, sent: 0, late: false, call });
    }
}
