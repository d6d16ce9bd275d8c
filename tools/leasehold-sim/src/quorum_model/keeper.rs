//! The client that looks after admission, and operators who set nodes up, by the machine of
//! `leasehold_proto`.

use std::mem::discriminant;

use leasehold_proto::Now;
use leasehold_proto::quorum::{Admission, Founding, Node, ProcessId, Task, TaskReply};

use super::{Bug, Setup, TTL, at};

/// One client's admission machine. All clients send to the processes that it knows of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Keeper {
    admission: Admission,
    /// What is still to be done at a node. Looking and proposing are done at once: nothing depends
    /// on when.
    pub tasks: Vec<(usize, u32, Task)>,
    /// What the other nodes said when a node began to wait, for a planted bug.
    early: Vec<u64>,
    /// An operator, by number: every task is a step of its own.
    operator: Option<u8>,
    /// What an operator takes for a node, for a planted bug.
    ghosts: Vec<Option<Node<u8>>>,
}

impl Keeper {
    /// One for nodes that were just set up.
    pub(super) fn new(setup: &Setup, nodes: &mut [Node<u8>]) -> Self {
        let mut operator = Self::operator(setup, 0, nodes, Founding::Vouched, 0);
        while !operator.tasks.is_empty() {
            operator.act(setup, 0, nodes, 0);
        }
        Self::fresh(setup, 0, nodes)
    }

    /// One that begins now.
    pub(super) fn fresh(setup: &Setup, tick: u8, nodes: &mut [Node<u8>]) -> Self {
        Self::begin(setup, tick, nodes, None, None)
    }

    /// An operator who sets nodes up.
    pub(super) fn operator(
        setup: &Setup,
        tick: u8,
        nodes: &mut [Node<u8>],
        founding: Founding,
        number: u8,
    ) -> Self {
        Self::begin(setup, tick, nodes, Some(founding), Some(number))
    }

    fn begin(
        setup: &Setup,
        tick: u8,
        nodes: &mut [Node<u8>],
        founding: Option<Founding>,
        operator: Option<u8>,
    ) -> Self {
        let admission = Admission::new(at(tick), nodes.len(), TTL, founding);
        let ghosts = vec![None; nodes.len()];
        let (tasks, early) = (Vec::new(), Vec::new());
        let mut keeper = Self { admission, tasks, early, operator, ghosts };
        keeper.run(setup, tick, nodes);
        keeper
    }

    /// It has found out that the nodes cannot be set up.
    pub fn is_halted(&self) -> bool {
        self.admission.halt().is_some()
    }

    /// The process that is known to vote.
    pub fn process(&self, node: usize) -> Option<ProcessId> {
        self.admission.process(node)
    }

    /// The keeper learns that a node may have forgotten.
    pub(super) fn doubt(&mut self, setup: &Setup, tick: u8, nodes: &mut [Node<u8>], node: usize) {
        self.early = nodes.iter().map(high).collect();
        self.admission.handle_doubt(at(tick), node);
        self.run(setup, tick, nodes);
        if setup.bug == Some(Bug::RecoveryWithoutWaiting) {
            self.admission.handle_timeout(at(tick + 2 * TTL.as_secs() as u8));
            self.run(setup, tick, nodes);
        }
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, setup: &Setup, tick: u8, nodes: &mut [Node<u8>]) {
        self.admission.handle_timeout(self.now(tick));
        self.run(setup, tick, nodes);
    }

    /// One task is carried out, and its reply arrives.
    pub(super) fn act(&mut self, setup: &Setup, tick: u8, nodes: &mut [Node<u8>], index: usize) {
        let (node, serial, task) = self.tasks.remove(index);
        self.carry_out(setup, tick, nodes, (node, serial, task));
        self.run(setup, tick, nodes);
    }

    /// The next task is carried out, and with it those of its kind that follow, unless they write markers.
    pub(super) fn act_at_once(&mut self, setup: &Setup, tick: u8, nodes: &mut [Node<u8>]) {
        let kind = |keeper: &Self| keeper.tasks.first().map(|task| discriminant(&task.2));
        let first = kind(self);
        let writes = matches!(self.tasks.first(), Some((_, _, Task::Propose { .. })));
        let rest = if writes { 1 } else { self.tasks.len() };
        for _ in 0..rest {
            if kind(self) == first {
                self.act(setup, tick, nodes, 0);
            }
        }
    }

    /// What is next is a question, and not a change.
    pub(super) fn asks(&self) -> bool {
        match self.tasks.first() {
            Some((_, _, Task::Survey)) => true,
            Some((node, _, Task::Look)) => self.admission.silent().any(|silent| silent == *node),
            _ => false,
        }
    }

    /// Nothing more comes of this operator.
    pub(super) fn is_done(&self, nodes: usize) -> bool {
        self.is_halted() || (0..nodes).all(|node| self.process(node).is_some())
    }

    /// A node does not answer what was to be asked next.
    pub(super) fn silence(&mut self, setup: &Setup, tick: u8, nodes: &mut [Node<u8>]) {
        let (node, serial, task) = self.tasks.remove(0);
        if setup.bug == Some(Bug::InitSkipsTheSilent) {
            self.ghosts[node] = Some(Node::new(process_of(&nodes[node])));
            self.carry_out(setup, tick, nodes, (node, serial, task));
        } else {
            let now = self.now(tick);
            self.admission.handle_reply(now, node, serial, TaskReply::Unknown, 0);
        }
        self.run(setup, tick, nodes);
    }

    fn run(&mut self, setup: &Setup, tick: u8, nodes: &mut [Node<u8>]) {
        while let Some(next) = self.admission.poll_task() {
            match next.2 {
                Task::Look | Task::Survey | Task::Propose { .. } if self.operator.is_none() => {
                    self.carry_out(setup, tick, nodes, next);
                }
                _ => self.tasks.push(next),
            }
        }
        if self.is_halted() {
            self.tasks.clear();
        }
    }

    /// The wall clock of clients does not advance; that of operators is ahead of all tokens.
    fn now(&self, tick: u8) -> Now {
        let ahead = u64::from(self.operator.is_some()) * (u64::from(tick) + 1) * 10_000;
        Now { wall_ns: ahead, ..at(tick) }
    }

    /// An operator speaks to something else than the node, because of a planted bug.
    fn is_deceived(&mut self, setup: &Setup, task: Task, node: usize, target: &Node<u8>) -> bool {
        let skips = match setup.bug {
            Some(Bug::InitSkipsTheSilent) => self.ghosts.iter().any(Option::is_some),
            Some(Bug::InitSkipsVoters) => true,
            _ => false,
        };
        let founds = self.operator.is_some() && task == Task::Survey;
        if founds && skips && target.survey().voted && self.ghosts[node].is_none() {
            self.ghosts[node] = Some(Node::new(process_of(target)));
        }
        self.ghosts[node].is_some()
    }

    fn carry_out(
        &mut self,
        setup: &Setup,
        tick: u8,
        nodes: &mut [Node<u8>],
        (node, serial, task): (usize, u32, Task),
    ) {
        let only = setup.bug == Some(Bug::RecoveryFromTooFew);
        let first = (0..nodes.len())
            .rev()
            .find(|other| nodes[*other].high(process_of(&nodes[*other])).is_ok());
        let asked = match task {
            Task::High { .. } if only => first.unwrap_or(node),
            _ => node,
        };
        let bound = nodes.get(asked).map(process_of);
        let Some(target) = nodes.get_mut(asked) else { return };
        let deceived = self.is_deceived(setup, task, asked, target);
        let target = match &mut self.ghosts[asked] {
            Some(ghost) if deceived => ghost,
            _ => target,
        };
        let known = target.look().marker.is_some() && target.survey().voted;
        let alone = setup.nodes == 1;
        let clock = if alone { 10 * (u64::from(tick) + 1) } else { at(tick).unix_us() };
        let reply = match task {
            Task::Look => TaskReply::Look(target.look()),
            Task::Survey => TaskReply::Survey(target.survey()),
            Task::Propose { process, nonce, max_ttl, first } => match first {
                true => target.propose_first(process, nonce, max_ttl),
                false => target.propose(process, nonce, max_ttl),
            }
            .map_or_else(TaskReply::Refused, |marker| TaskReply::Marker(Some(marker))),
            Task::Admit { process, nonce, floor } => {
                let floor = match setup.bug {
                    Some(Bug::RecoveryForUnknownLocks) if known => 0,
                    _ => floor.unwrap_or(clock),
                };
                target
                    .admit(process, nonce, floor)
                    .map_or_else(TaskReply::Refused, TaskReply::Marker)
            }
            Task::High { process } => {
                let process = bound.filter(|_| only).unwrap_or(process);
                match target.high(process) {
                    Ok((high, max_ttl)) => {
                        let high = match setup.bug {
                            Some(Bug::WaitingWithoutRecovery) => 0,
                            Some(Bug::RecoveryBeforeWaiting) => {
                                self.early.get(node).copied().unwrap_or(0)
                            }
                            _ => high,
                        };
                        TaskReply::High { high, max_ttl }
                    }
                    Err(refusal) => TaskReply::Refused(refusal),
                }
            }
        };
        // A nonce that differs from admission to admission, and not from run to run.
        let nonce =
            u64::from(serial) + 1000 * self.operator.map_or(0, |number| u64::from(number) + 1);
        self.admission.handle_reply(self.now(tick), node, serial, reply, nonce);
    }
}

fn process_of(node: &Node<u8>) -> ProcessId {
    node.look().process
}

fn high(node: &Node<u8>) -> u64 {
    node.high(process_of(node)).map_or(0, |(high, _)| high)
}
