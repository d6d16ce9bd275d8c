//! The whole system at one moment.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_proto::quorum::{Node, NodeReply, Op, ProcessId, Refusal, Request};
use leasehold_proto::{AttemptId, Now, Token};

use super::{Bug, Client, Keeper, Maintenance, Setup, at};

/// The one lock.
pub(super) const LOCK: u8 = 0;

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The nodes.
    pub nodes: Vec<Node<u8>>,
    /// How far each node's clock is ahead, in ticks.
    pub ahead: Vec<u8>,
    /// The clock of all other clients.
    pub clock: u8,
    /// The clients.
    pub clients: Vec<Client>,
    /// Who looks after admission.
    pub keeper: Keeper,
    /// What is in flight.
    pub network: BTreeSet<Message>,
    /// Every token that was held, and by whom.
    pub tokens: BTreeMap<u64, AttemptId>,
    /// A token was held twice.
    pub duplicate: bool,
    /// A token was not above one that was held before its attempt began.
    pub disorder: bool,
    /// What may still go wrong.
    pub expiries: u8,
    /// The same.
    pub forgets: u8,
    /// The same.
    pub repeats: u8,
    /// How many nodes something has happened to. Those it has not happened to are alike, so that
    /// it is enough to let it happen to the first of them.
    pub touched: usize,
    /// Nodes that have forgotten.
    pub forgot: BTreeSet<usize>,
    /// A token was to be committed.
    pub committed: bool,
    /// What people may still do.
    pub maintenance: Maintenance,
    /// Those who set nodes up.
    pub operators: Vec<Keeper>,
    /// One of them was refused.
    pub refused: bool,
    /// The data of an earlier moment.
    pub saved: Option<Vec<Node<u8>>>,
    /// Attempts that were ended by force: their guards are promised nothing.
    pub forced: BTreeSet<AttemptId>,
}

/// What is in flight.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Message {
    /// To a node.
    Request {
        /// From which client.
        client: u8,
        /// Which process is meant.
        process: ProcessId,
        /// What it shall do.
        request: Request,
    },
    /// From a node.
    Reply {
        /// To which client.
        client: u8,
        /// To what.
        request: Request,
        /// What it says.
        reply: NodeReply,
    },
}

/// Process number `life` of a node.
pub(super) fn process(node: usize, life: u8) -> ProcessId {
    let mut bytes = [0; 20];
    bytes[0] = node as u8;
    bytes[1] = life;
    ProcessId::from_bytes(bytes)
}

impl State {
    pub(super) fn new(setup: &Setup) -> Self {
        let mut nodes: Vec<Node<u8>> =
            (0..usize::from(setup.nodes)).map(|node| Node::new(process(node, 0))).collect();
        let keeper = match setup.maintenance.fresh {
            true => Keeper::fresh(setup, 0, &mut nodes),
            false => Keeper::new(setup, &mut nodes),
        };
        Self {
            ahead: vec![0; nodes.len()],
            clock: 0,
            clients: vec![Client::default(); usize::from(setup.clients)],
            keeper,
            network: BTreeSet::new(),
            tokens: BTreeMap::new(),
            duplicate: false,
            disorder: false,
            expiries: setup.expiries,
            forgets: setup.forgets,
            repeats: setup.repeats,
            touched: 0,
            forgot: BTreeSet::new(),
            committed: false,
            maintenance: setup.maintenance,
            operators: Vec::new(),
            refused: false,
            saved: None,
            forced: BTreeSet::new(),
            nodes,
        }
    }

    pub(super) fn node_now(&self, node: usize) -> Now {
        at(self.clock + self.ahead.get(node).copied().unwrap_or(0))
    }

    pub(super) fn touch(&mut self, node: usize) {
        self.touched = self.touched.max(node + 1);
    }

    /// On how many nodes an attempt has the lease.
    pub fn leases(&self, attempt: AttemptId) -> usize {
        let has = |node: usize| {
            let lease = self.nodes.get(node)?.lease(self.node_now(node), &LOCK)?;
            (lease.attempt == attempt).then_some(())
        };
        (0..self.nodes.len()).filter_map(has).count()
    }

    /// Sends what a client's machine wants to be sent, and reads what it says.
    pub(super) fn pump(&mut self, setup: &Setup, client: u8) {
        loop {
            let Some(one) = self.clients.get_mut(usize::from(client)) else { return };
            if let Some(token) = one.listen(self.clock) {
                let floor = one.floor;
                self.held(client, token, floor);
                continue;
            }
            let Some(attempt) = &mut one.attempt else { return };
            let Some(request) = attempt.poll_request() else { return };
            self.committed |= matches!(request.op, Op::Commit { .. });
            let (node, round) = (request.node, request.round);
            let place = place(setup, client, node);
            if place + usize::from(setup.down) >= self.nodes.len() {
                continue;
            }
            let naive = setup.bug == Some(Bug::NaiveMaximum);
            match (request.op, self.keeper.process(place)) {
                (Op::Commit { .. }, _) if naive => {
                    attempt.handle_reply(at(self.clock), node, round, NodeReply::Committed);
                }
                (_, Some(process)) => {
                    self.network.insert(Message::Request { client, process, request });
                }
                (_, None) => {
                    let refused = NodeReply::Refused(Refusal::NotAdmitted);
                    attempt.handle_reply(at(self.clock), node, round, refused);
                }
            }
        }
    }

    /// A node carries out a request.
    pub(super) fn serve(
        &mut self,
        setup: &Setup,
        client: u8,
        process: ProcessId,
        request: Request,
    ) {
        let place = place(setup, client, request.node);
        let now = self.node_now(place);
        self.touch(place);
        let Some(node) = self.nodes.get_mut(place) else { return };
        let process = match setup.bug {
            Some(Bug::NoAdmission) => node.look().process,
            _ => process,
        };
        let op = planted(setup, node, now, request.op);
        let reply = node.handle(now, process, &LOCK, op);
        if let Op::Release { .. } = request.op {
            return; // No client waits for it.
        }
        let message = Message::Reply { client, request, reply };
        // A refusal changes nothing at the node, and never counts: that it comes late is covered by
        // its request coming late, and by the time limit.
        match reply {
            NodeReply::Granted(_)
            | NodeReply::Committed
            | NodeReply::Renewed
            | NodeReply::Healed => {
                self.network.insert(message);
            }
            _ => self.deliver(setup, &message),
        }
    }

    fn held(&mut self, client: u8, token: Token, floor: u64) {
        let guard = self.clients.get(usize::from(client)).and_then(|client| client.guard);
        let Some(guard) = guard else { return };
        self.disorder |= token.get() <= floor;
        let before = self.tokens.insert(token.get(), guard.attempt);
        self.duplicate |= before.is_some_and(|before| before != guard.attempt);
    }
}

/// Where a client's node stands: a client that counts connected nodes only has one of them.
pub(super) fn place(setup: &Setup, client: u8, node: usize) -> usize {
    match setup.bug {
        Some(Bug::MajorityOfConnected) => usize::from(client % setup.nodes),
        _ => node,
    }
}

/// What a node does that has a bug of its own.
fn planted(setup: &Setup, node: &Node<u8>, now: Now, op: Op) -> Op {
    let lease = node.lease(now, &LOCK);
    match (setup.bug, op, lease) {
        (Some(Bug::CommitWithoutCompare), Op::Commit { token, .. }, Some(lease)) => {
            Op::Commit { attempt: lease.attempt, from: lease.counter.min(token), token }
        }
        (Some(Bug::ReleaseComparesNothing), Op::Release { .. }, Some(lease)) => {
            Op::Release { attempt: lease.attempt }
        }
        _ => op,
    }
}
