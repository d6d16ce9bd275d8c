//! What people do to the nodes: setting up, forcing a release, starting a node with older data.

use leasehold_proto::quorum::{Founding, Node, Op, Request};

use super::state::{LOCK, process};
use super::{Bug, Keeper, Message, Setup, State, TTL, at};

/// Stands for a person among the clients.
const PERSON: u8 = u8::MAX;

/// One thing that a person does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Upkeep {
    /// An operator begins.
    Init(Founding),
    /// The next task of an operator, counted from 0, is carried out.
    Operate(usize),
    /// A node does not answer an operator's question: the task is left out.
    Silence(usize),
    /// A client's lease is ended by force.
    Force(u8),
    /// A node removes the record of a lock that is free there.
    Remove(usize),
    /// The data of all nodes are kept for later.
    Save,
    /// A node starts again with what was kept.
    Return(usize),
    /// A node has what was kept, and is the process that it was.
    RollBack(usize),
    /// A node loses its data, and its process goes on.
    Flush(usize),
    /// A client that begins now looks at the nodes.
    Meet,
}

pub(super) fn enabled(setup: &Setup, state: &State, actions: &mut Vec<Upkeep>) {
    let left = &state.maintenance;
    // Where no node has forgotten, an operator has nothing to do.
    if left.inits > 0 && (left.fresh || !state.forgot.is_empty()) {
        actions.push(Upkeep::Init(Founding::Vouched));
    }
    if left.after_loss > 0 {
        actions.push(Upkeep::Init(Founding::AfterLoss));
    }
    for (number, operator) in state.operators.iter().enumerate() {
        if !operator.tasks.is_empty() {
            actions.push(Upkeep::Operate(number));
            if operator.asks() {
                actions.push(Upkeep::Silence(number));
            }
        }
    }
    for (client, one) in (0..).zip(&state.clients) {
        if left.forces > 0 && one.guard.is_some() {
            actions.push(Upkeep::Force(client));
        }
    }
    let older = left.returns > 0 || left.rollbacks > 0;
    if older && state.saved.is_none() && (!left.coarse || state.network.is_empty()) {
        actions.push(Upkeep::Save);
    }
    for node in 0..state.nodes.len().min(state.touched) {
        if left.removals > 0 && state.has_record(setup, node) {
            actions.push(Upkeep::Remove(node));
        }
        if left.flushes > 0 {
            actions.push(Upkeep::Flush(node));
        }
        if left.returns > 0 && state.saved.is_some() {
            actions.push(Upkeep::Return(node));
        }
        if left.rollbacks > 0 && state.saved.is_some() {
            actions.push(Upkeep::RollBack(node));
        }
    }
    let admitted = |node: &Node<u8>| node.look().current().is_some_and(|marker| marker.admitted);
    let unmet = |(at, node)| admitted(node) && state.keeper.process(at).is_none();
    if setup.operates() && state.nodes.iter().enumerate().any(unmet) {
        actions.push(Upkeep::Meet);
    }
}

impl Setup {
    /// An operator may set nodes up.
    fn operates(&self) -> bool {
        self.maintenance.inits > 0 || self.maintenance.after_loss > 0
    }
}

impl State {
    pub(super) fn maintain(&mut self, setup: &Setup, upkeep: Upkeep) {
        match upkeep {
            Upkeep::Init(founding) => {
                match founding {
                    Founding::Vouched => self.maintenance.inits -= 1,
                    Founding::AfterLoss => self.maintenance.after_loss -= 1,
                }
                self.touched = self.nodes.len();
                let number = self.operators.len() as u8;
                let operator =
                    Keeper::operator(setup, self.clock, &mut self.nodes, founding, number);
                self.operators.push(operator);
            }
            Upkeep::Operate(number) => {
                if let Some(operator) = self.operators.get_mut(number) {
                    match setup.maintenance.coarse {
                        true => operator.act_at_once(setup, self.clock, &mut self.nodes),
                        false => operator.act(setup, self.clock, &mut self.nodes, 0),
                    }
                    self.refused |= operator.is_halted();
                }
            }
            Upkeep::Silence(number) => {
                if let Some(operator) = self.operators.get_mut(number) {
                    operator.silence(setup, self.clock, &mut self.nodes);
                    self.refused |= operator.is_halted();
                }
            }
            Upkeep::Force(client) => self.force(client),
            Upkeep::Remove(node) => self.remove(setup, node),
            Upkeep::Save => self.saved = Some(self.nodes.clone()),
            Upkeep::Return(node) => {
                self.maintenance.returns -= 1;
                self.older(node);
                let lives = setup.maintenance.returns - self.maintenance.returns;
                self.nodes[node].restart(process(node, 100 + lives));
                self.forgot.insert(node);
                self.keeper.doubt(setup, self.clock, &mut self.nodes, node);
            }
            Upkeep::RollBack(node) => {
                self.maintenance.rollbacks -= 1;
                self.older(node);
            }
            Upkeep::Flush(node) => {
                self.maintenance.flushes -= 1;
                self.nodes[node].forget();
                self.forgot.insert(node);
                self.keeper.doubt(setup, self.clock, &mut self.nodes, node);
            }
            Upkeep::Meet => {
                self.keeper = Keeper::fresh(setup, self.clock, &mut self.nodes);
            }
        }
        // One who was refused, or is done, does nothing more.
        let nodes = self.nodes.len();
        if !self.operators.is_empty() && self.operators.iter().all(|one| one.is_done(nodes)) {
            self.operators.clear();
            self.touched = self.nodes.len();
        }
    }

    fn older(&mut self, node: usize) {
        if let Some(older) = self.saved.as_ref().and_then(|saved| saved.get(node)) {
            self.nodes[node] = older.clone();
        }
    }

    /// A node has a record that `forget` removes.
    fn has_record(&self, setup: &Setup, node: usize) -> bool {
        let now = self.node_now(node);
        let one = &self.nodes[node];
        let free = one.lease(now, &LOCK).is_none() || setup.bug == Some(Bug::ForgetIgnoresHolders);
        one.counter(now, &LOCK).is_some() && free
    }

    /// The model has no message that is too late to arrive: that the lock was unused for a minute is left out, so that
    /// `forget` comes sooner here than it can.
    fn remove(&mut self, setup: &Setup, node: usize) {
        self.maintenance.removals -= 1;
        let minutes_later = at(self.clock + 120);
        let process = self.nodes[node].look().process;
        self.nodes[node].remove(minutes_later, &LOCK);
        if setup.bug == Some(Bug::ForgetDropsTokens) {
            self.nodes[node].forget();
            let _ = self.nodes[node].propose(process, 9, TTL);
            let _ = self.nodes[node].admit(process, 9, 0);
        }
    }

    /// What a person sends to end a lease by force: a release of its attempt, to the process that
    /// each node has now.
    fn force(&mut self, client: u8) {
        self.maintenance.forces -= 1;
        let guard = self.clients.get(usize::from(client)).and_then(|client| client.guard);
        let Some(guard) = guard else { return };
        self.forced.insert(guard.attempt);
        for (node, one) in self.nodes.iter().enumerate() {
            let op = Op::Release { attempt: guard.attempt };
            let request = Request { node, round: 0, op };
            let process = one.look().process;
            self.network.insert(Message::Request { client: PERSON, process, request });
        }
    }
}
