//! What a fault does to a run.

use leasehold_proto::quorum::Admission;

use super::{Happens, NEVER, OPERATOR, Order, World, operator_clock};
use crate::simulator::client::Phase;
use crate::simulator::node::Server;
use crate::simulator::trace::{ClientChange, NodeChange, What};
use crate::simulator::{Fault, MS, Memory, SECOND};

impl World<'_> {
    pub(super) fn fault(&mut self, fault: Fault) {
        let until = |time: u64| self.time.saturating_add(time);
        match fault {
            Fault::Pause { client, time } => {
                self.clients[client].stopped_until = until(time);
                self.tell(What::Stops(client));
                self.wakes[client] = NEVER;
                self.settle(client);
            }
            Fault::PauseHolder { time } => {
                if let Some(client) = self.holder() {
                    self.fault(Fault::Pause { client, time });
                }
            }
            Fault::PauseAsker { time } => self.ambush = Some(time),
            Fault::Crash { client, back } => {
                let back = until(back);
                self.clients[client].phase = Phase::Gone;
                self.clients[client].life += 1;
                self.watch.released(client, self.time);
                self.tell(What::Dies(client));
                if back < self.plan.end {
                    self.at(back, Happens::Back(client));
                }
            }
            Fault::CrashHolder { back } => {
                if let Some(client) = self.holder() {
                    self.fault(Fault::Crash { client, back });
                }
            }
            Fault::NodeClock { node, by } => {
                self.nodes[node].clock.wall += by;
                self.nodes[node].clock.steady += by;
                self.watch.forgets(self.time);
                self.tell(What::Node(node, NodeChange::ClockJumps(by / SECOND as i64)));
                self.note(node);
            }
            Fault::ClientClock { client, by } => {
                self.clients[client].clock.wall += by;
                self.clients[client].startled = true;
                self.wakes[client] = NEVER;
                self.tell(What::Client(client, ClientChange::WallClockJumps));
                self.settle(client);
            }
            Fault::NodeRate { .. } => {}
            Fault::NodeDown { node, time } => {
                self.nodes[node].down_until = until(time);
                self.tell(What::Node(node, NodeChange::Unreachable));
            }
            Fault::Restart { node, time } => {
                let now = self.time;
                self.early = self.nodes.iter().map(Server::high).collect();
                self.nodes[node].restart(now, time);
                self.reset(node, now + time);
                self.watch.forgets(now);
                let with = match self.plan.setup.memory() {
                    Memory::Nothing => NodeChange::RestartsEmpty,
                    Memory::Replica => NodeChange::ReplicaTakesOver,
                    Memory::Everything => NodeChange::RestartsWithData,
                };
                self.tell(What::Node(node, with));
                self.note(node);
            }
            Fault::Cut { client, node, time } => {
                let until = until(time);
                self.cuts.push((client, node, until));
                self.tell(What::Client(client, ClientChange::CutOff(node)));
            }
            Fault::LoseReplies { client, node, time } => {
                let until = until(time);
                self.mute.push((client, node, until));
                self.tell(What::Client(client, ClientChange::RepliesLost(node)));
            }
            Fault::Delay { client, node, by, time } => {
                let until = until(time);
                self.slow.push((client, node, by, until));
            }
            Fault::Operator
            | Fault::Init
            | Fault::Forget
            | Fault::ForceHolder
            | Fault::NodeWall { .. }
            | Fault::Save { .. }
            | Fault::Older { .. } => self.maintain(fault),
            Fault::Calm => {
                self.calm = true;
                self.cuts.clear();
                self.mute.clear();
                self.slow.clear();
            }
        }
    }

    /// What the operator's command has to do now.
    pub(super) fn operate(&mut self) {
        while let Some((node, serial, task)) = self.operator.as_mut().and_then(Admission::poll_task)
        {
            self.post(OPERATOR, node, Order::Task(serial, task));
        }
        let now = operator_clock(self.time);
        let next = self.operator.as_ref().and_then(|operator| operator.poll_timeout(now));
        if let Some(next) = next {
            let left = next.remaining(now).as_nanos() as u64;
            self.at(self.time + left + MS, Happens::Operate);
        }
    }
}
