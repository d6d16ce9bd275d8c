//! What can happen next, and what it does.

use std::time::Duration;

use leasehold_proto::quorum::Op;
use leasehold_proto::{AttemptId, Now};

use super::client::Attempt;
use super::state::{place, process};
use super::upkeep::{self, Upkeep};
use super::{Bug, Client, Message, Setup, State, TTL, at};

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Time passes.
    Tick,
    /// A message arrives.
    Deliver(Message),
    /// Fault: it arrives, and will again.
    Repeat(Message),
    /// A client begins an attempt, with this proposal.
    Start(u8, u8),
    /// The time limits of all requests that a client waits for are over.
    Timeout(u8),
    /// A holder renews.
    Renew(u8),
    /// A holder gives the lock back.
    Release(u8),
    /// Fault: a node's leases end before their time.
    Expire(usize),
    /// Fault: a node is started anew, without data.
    Forget(usize),
    /// The keeper notices that.
    Notice(usize),
    /// The keeper's next task is carried out.
    Keep,
    /// People do something to the nodes.
    Maintain(Upkeep),
}

/// Lists what can happen.
pub(super) fn enabled(setup: &Setup, state: &State, actions: &mut Vec<Action>) {
    if state.is_over(setup) && setup.forgets == 0 {
        return;
    }
    // Nothing to wait for yet.
    let idle =
        setup.patient && (state.forgets > 0 || state.maintenance.returns > 0 && state.all_vote());
    if state.clock < setup.ticks && !idle {
        actions.push(Action::Tick);
    }
    for message in &state.network {
        if let Message::Request { client, request, .. } = message
            && place(setup, *client, request.node) > state.touched
        {
            continue;
        }
        actions.push(Action::Deliver(message.clone()));
        if state.repeats > 0 && matches!(message, Message::Request { .. }) {
            actions.push(Action::Repeat(message.clone()));
        }
    }
    for client in 0..setup.clients {
        let Some(one) = state.clients.get(usize::from(client)) else { continue };
        match &one.attempt {
            // Clients are alike: they begin in their order.
            None if one.begun < setup.attempts && state.begun_before(client) => {
                actions
                    .extend((1..=setup.proposals).map(|proposal| Action::Start(client, proposal)));
            }
            None => {}
            Some(attempt) if !setup.patient && attempt.poll_timeout().is_some() => {
                actions.push(Action::Timeout(client));
            }
            Some(_) => {}
        }
        if one.guard.is_some() {
            actions.push(Action::Release(client));
            if one.renewals > 0 && one.is_valid(state.clock) {
                actions.push(Action::Renew(client));
            }
        }
    }
    for node in 0..state.nodes.len().min(state.touched + 1) {
        if state.expiries > 0 {
            actions.push(Action::Expire(node));
        }
        // Before a client has asked a node it has nothing to lose.
        let quiet = !setup.maintenance.coarse || state.network.is_empty();
        if state.forgets > 0 && node < state.touched && quiet {
            actions.push(Action::Forget(node));
        }
        let known = state.keeper.process(node);
        if known.is_some_and(|known| known != state.nodes[node].look().process) {
            actions.push(Action::Notice(node));
        }
    }
    if !state.keeper.tasks.is_empty() {
        actions.push(Action::Keep);
    }
    let mut operations = Vec::new();
    upkeep::enabled(setup, state, &mut operations);
    actions.extend(operations.into_iter().map(Action::Maintain));
}

impl State {
    fn begun_before(&self, client: u8) -> bool {
        self.clients.iter().take(usize::from(client)).all(|before| before.begun > 0)
    }

    fn all_vote(&self) -> bool {
        self.nodes.iter().all(|node| node.high(node.look().process).is_ok())
    }

    /// No client holds, acquires or will: no further event matters.
    fn is_over(&self, setup: &Setup) -> bool {
        let over = |one: &Client| {
            one.attempt.is_none() && one.guard.is_none() && one.begun == setup.attempts
        };
        self.clients.iter().all(over)
    }

    /// Carries it out.
    pub(super) fn apply(&mut self, setup: &Setup, action: &Action) {
        let now = at(self.clock);
        match action {
            Action::Tick => {
                self.clock += 1;
                self.keeper.tick(setup, self.clock, &mut self.nodes);
                for operator in &mut self.operators {
                    operator.tick(setup, self.clock, &mut self.nodes);
                }
            }
            Action::Deliver(message) => {
                self.network.remove(message);
                self.deliver(setup, message);
            }
            Action::Repeat(message) => {
                self.repeats -= 1;
                self.deliver(setup, message);
            }
            Action::Start(client, proposal) => {
                let floor = self.tokens.last_key_value().map_or(0, |(token, _)| *token);
                if let Some(one) = self.clients.get_mut(usize::from(*client)) {
                    one.start(setup, *client, self.clock, *proposal, floor);
                }
                self.pump(setup, *client);
            }
            Action::Timeout(client) => self.drive(setup, *client, |attempt| {
                let over = Duration::from_millis(500).as_nanos() as u64;
                let later = Now { steady_ns: now.steady_ns + over, ..now };
                attempt.handle_timeout(later);
            }),
            Action::Renew(client) => {
                if let Some(one) = self.clients.get_mut(usize::from(*client)) {
                    one.renewals -= 1;
                }
                self.drive(setup, *client, |attempt| attempt.renew(now, TTL));
            }
            Action::Release(client) => {
                if let Some(one) = self.clients.get_mut(usize::from(*client)) {
                    one.guard = None;
                }
                self.drive(setup, *client, |attempt| attempt.release(now));
            }
            Action::Expire(node) => {
                self.touch(*node);
                self.expiries -= 1;
                self.ahead[*node] += TTL.as_secs() as u8;
            }
            Action::Forget(node) => {
                self.touch(*node);
                self.forgets -= 1;
                self.forgot.insert(*node);
                let lives = setup.forgets - self.forgets;
                self.nodes[*node].forget();
                self.nodes[*node].restart(process(*node, lives));
                if setup.bug == Some(Bug::NoAdmission) {
                    let process = process(*node, lives);
                    let _ = self.nodes[*node].propose(process, 9, TTL);
                    let _ = self.nodes[*node].admit(process, 9, 0);
                }
                if setup.patient {
                    self.keeper.doubt(setup, self.clock, &mut self.nodes, *node);
                }
            }
            Action::Notice(node) => {
                self.keeper.doubt(setup, self.clock, &mut self.nodes, *node);
            }
            Action::Keep if setup.maintenance.coarse => {
                self.keeper.act_at_once(setup, self.clock, &mut self.nodes);
            }
            Action::Keep => self.keeper.act(setup, self.clock, &mut self.nodes, 0),
            Action::Maintain(upkeep) => self.maintain(setup, *upkeep),
        }
        self.sweep(setup);
    }

    pub(super) fn deliver(&mut self, setup: &Setup, message: &Message) {
        match message {
            Message::Request { client, process, request } => {
                self.serve(setup, *client, *process, *request);
            }
            Message::Reply { client, request, reply } => {
                let now = at(self.clock);
                self.drive(setup, *client, |attempt| {
                    if attempt.id() == attempt_of(request.op) {
                        attempt.handle_reply(now, request.node, request.round, *reply);
                    }
                });
            }
        }
    }

    /// Gives something to a client's machine, and does what follows from it. A machine whose
    /// attempt has ended is left alone: what it sent may arrive or not.
    fn drive(&mut self, setup: &Setup, client: u8, give: impl FnOnce(&mut Attempt)) {
        let Some(one) = self.clients.get_mut(usize::from(client)) else { return };
        let Some(attempt) = &mut one.attempt else { return };
        give(attempt);
        self.pump(setup, client);
        if let Some(one) = self.clients.get_mut(usize::from(client))
            && one.attempt.as_ref().is_some_and(Attempt::has_ended)
        {
            one.attempt = None;
        }
    }

    /// Takes out what can have no effect any more.
    fn sweep(&mut self, setup: &Setup) {
        if self.is_over(setup) {
            self.network.clear();
            self.keeper.tasks.clear();
            self.operators.clear();
        }
        let clients = &self.clients;
        let late = setup.bug == Some(Bug::LateRepliesAccepted);
        self.network.retain(|message| match message {
            Message::Request { .. } => true,
            Message::Reply { client, request, .. } => clients
                .get(usize::from(*client))
                .and_then(|client| client.attempt.as_ref())
                .filter(|attempt| attempt.id() == attempt_of(request.op))
                .and_then(|attempt| attempt.waits_for(request.node))
                .is_some_and(|round| late || round == request.round),
        });
    }
}

fn attempt_of(op: Op) -> AttemptId {
    match op {
        Op::Acquire { attempt, .. }
        | Op::Commit { attempt, .. }
        | Op::Renew { attempt, .. }
        | Op::Release { attempt } => attempt,
    }
}
