//! The client that looks after admission, by the machine of `leasehold_proto`.

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
}

impl Keeper {
    /// One for nodes that were just set up.
    pub(super) fn new(setup: &Setup, nodes: &mut [Node<u8>]) -> Self {
        let founding = Some(Founding::Vouched);
        let admission = Admission::new(at(0), nodes.len(), TTL, founding);
        let mut operator = Self { admission, tasks: Vec::new(), early: Vec::new() };
        operator.run(setup, 0, nodes);
        while let Some(at) = operator.tasks.len().checked_sub(1) {
            operator.act(setup, 0, nodes, at);
        }
        let unwaiting = setup.bug == Some(Bug::RecoveryWithoutWaiting);
        let admission = Admission::new(at(0), nodes.len(), TTL, founding.filter(|_| unwaiting));
        let mut keeper = Self { admission, ..operator };
        keeper.run(setup, 0, nodes);
        keeper
    }

    /// The process that is known to vote.
    pub(super) fn process(&self, node: usize) -> Option<ProcessId> {
        self.admission.process(node)
    }

    /// The keeper learns that a node may have forgotten.
    pub(super) fn doubt(&mut self, setup: &Setup, tick: u8, nodes: &mut [Node<u8>], node: usize) {
        self.early = nodes.iter().map(high).collect();
        self.admission.handle_doubt(at(tick), node);
        self.run(setup, tick, nodes);
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, setup: &Setup, tick: u8, nodes: &mut [Node<u8>]) {
        self.admission.handle_timeout(at(tick));
        self.run(setup, tick, nodes);
    }

    /// One task is carried out, and its reply arrives.
    pub(super) fn act(&mut self, setup: &Setup, tick: u8, nodes: &mut [Node<u8>], index: usize) {
        let (node, serial, task) = self.tasks.remove(index);
        self.carry_out(setup, tick, nodes, (node, serial, task));
        self.run(setup, tick, nodes);
    }

    fn run(&mut self, setup: &Setup, tick: u8, nodes: &mut [Node<u8>]) {
        while let Some(next) = self.admission.poll_task() {
            match next.2 {
                Task::Look | Task::Propose { .. } => self.carry_out(setup, tick, nodes, next),
                Task::High { .. } | Task::Admit { .. } => self.tasks.push(next),
            }
        }
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
        let reply = match task {
            Task::Look => TaskReply::Look(target.look()),
            Task::Propose { process, nonce, max_ttl } => target
                .propose(process, nonce, max_ttl)
                .map_or_else(TaskReply::Refused, |marker| TaskReply::Marker(Some(marker))),
            Task::Admit { process, nonce, floor } => target
                .admit(process, nonce, floor.unwrap_or_else(|| at(tick).unix_us()))
                .map_or_else(TaskReply::Refused, TaskReply::Marker),
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
        let nonce = u64::from(serial);
        self.admission.handle_reply(at(tick), node, serial, reply, nonce);
    }
}

fn process_of(node: &Node<u8>) -> ProcessId {
    node.look().process
}

fn high(node: &Node<u8>) -> u64 {
    node.high(process_of(node)).map_or(0, |(high, _)| high)
}
