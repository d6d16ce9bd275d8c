//! What maintenance does to a run, and nodes that return with data that they had earlier.

use leasehold_proto::quorum::{Admission, Founding, Task, TaskReply};

use super::{Happens, World, operator_clock};
use crate::simulator::node::Server;
use crate::simulator::trace::{ClientChange, NodeChange, What};
use crate::simulator::{Bug, Fault, MS};

impl World<'_> {
    pub(super) fn maintain(&mut self, fault: Fault) {
        match fault {
            Fault::Operator => self.init(Founding::AfterLoss, NodeChange::InitAfterLoss),
            Fault::Init => self.init(Founding::Vouched, NodeChange::Init),
            Fault::Forget => {
                for node in 0..self.nodes.len() {
                    if self.nodes[node].down_until <= self.time {
                        self.nodes[node].forget_lock(self.time);
                        self.note(node);
                    }
                }
            }
            Fault::ForceHolder => self.force_holder(),
            Fault::NodeWall { node, by } => self.nodes[node].clock.wall += by,
            Fault::Save { node } => self.nodes[node].save(),
            Fault::Older { node, time, same } => {
                let now = self.time;
                self.nodes[node].older(now, time, same);
                if !same {
                    self.reset(node, now + time);
                }
                self.watch.forgets(now);
                self.tell(What::Node(
                    node,
                    match same {
                        true => NodeChange::ResumesSnapshot,
                        false => NodeChange::ReturnsWithOlderData,
                    },
                ));
                self.note(node);
            }
            _ => {}
        }
    }

    /// Clients notice that their connections to a node were made anew.
    pub(super) fn reset(&mut self, node: usize, from: u64) {
        for client in 0..self.clients.len() {
            let noticed = from + self.rng.below(200 * MS);
            self.at(noticed, Happens::Reset { client, node });
        }
    }

    fn init(&mut self, founding: Founding, change: NodeChange) {
        let (nodes, now) = (self.nodes.len(), operator_clock(self.time));
        self.operator = Some(Admission::new(now, nodes, self.plan.ttl, Some(founding)));
        self.ghosts = (0..nodes).map(|_| None).collect();
        self.tell(What::Node(0, change));
        self.operate();
    }

    /// An operator ends the lease of the client that holds the lock, at every node that answers.
    fn force_holder(&mut self) {
        let Some(client) = self.holder() else { return };
        let Some(attempt) = self.clients[client].attempts.last().map(|one| one.id()) else {
            return;
        };
        for node in 0..self.nodes.len() {
            if self.nodes[node].down_until <= self.time {
                self.nodes[node].force(self.time, attempt);
                self.note(node);
            }
        }
        self.clients[client].forced = true;
        self.tell(What::Client(client, ClientChange::Forced));
    }

    /// The operator of [`Bug::InitSkipsSilent`] takes a silent node for an empty one, and beside a
    /// silent node one that votes too. `None` where there is no such bug.
    pub(super) fn deceived(&mut self, node: usize, task: Task) -> Option<TaskReply> {
        if self.plan.bug != Some(Bug::InitSkipsSilent) {
            return None;
        }
        let is_silent = |server: &Server| server.down_until > self.time;
        let skipped = is_silent(&self.nodes[node])
            || self.nodes[node].votes() && self.nodes.iter().any(is_silent);
        let ghost = self.ghosts.get_mut(node)?;
        if ghost.is_none() && skipped {
            *ghost = Some(self.nodes[node].emptied());
        }
        ghost.as_mut().map(|ghost| ghost.task(self.time, task))
    }
}
