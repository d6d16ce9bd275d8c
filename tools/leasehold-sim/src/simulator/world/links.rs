//! The links of a run: what is sent, what a node does with it, and what comes back.

use leasehold_proto::quorum::{Admission, Member, NodeReply, Op, Refusal, Task, TaskReply};

use super::{Happens, OPERATOR, Order, World, owner_of};
use crate::simulator::parcel::Parcel;
use crate::simulator::trace::What;
use crate::simulator::{Bug, MS, Waiting};

impl World<'_> {
    /// Sends what a client's machines want to be sent.
    pub(super) fn send(&mut self, number: usize) {
        loop {
            let time = self.time;
            let client = &mut self.clients[number];
            let now = client.clock.read(time);
            let mut found = None;
            for attempt in &mut client.attempts {
                if let Some(request) = attempt.poll_request() {
                    found = Some((attempt.id(), request));
                    break;
                }
            }
            if let Some((id, request)) = found {
                let node = client.place(self.plan, request.node);
                let naive = self.plan.bug == Some(Bug::NaiveMaximum);
                let process = client.admission.as_ref().map(|one| one.process(node));
                let at_once = match (request.op, process) {
                    (Op::Commit { .. }, _) if naive => Some(NodeReply::Committed),
                    (_, Some(None)) => {
                        let known = client.admission.as_ref().map(|one| one.member(now, node));
                        let unknown = known == Some(Member::Unknown);
                        let refusal = if unknown { Refusal::Unfit } else { Refusal::NotAdmitted };
                        Some(NodeReply::Refused(refusal))
                    }
                    _ => None,
                };
                if let Some(reply) = at_once {
                    let life = client.life;
                    let parcel = Parcel::Reply(id, request, reply);
                    self.at(time, Happens::ToClient { client: number, life, parcel });
                } else {
                    let force = client.force && matches!(request.op, Op::Acquire { .. });
                    let order = Order::Vote(id, request, process.flatten(), force);
                    self.post(number, node, order);
                }
                continue;
            }
            let Some((node, serial, task)) =
                client.admission.as_mut().and_then(Admission::poll_task)
            else {
                return;
            };
            self.post(number, node, Order::Task(serial, task));
        }
    }

    /// A message goes out: it is lost, late, or comes twice.
    pub(super) fn post(&mut self, client: usize, node: usize, order: Order) {
        let life = self.clients.get(client).map_or(0, |client| client.life);
        for _ in 0..self.copies() {
            let extra = self
                .slow
                .iter()
                .filter(|slow| slow.0 == client && slow.1 == node && slow.3 > self.time)
                .map(|slow| slow.2)
                .sum::<u64>();
            let later = self.time + self.delay() + extra;
            self.at(later, Happens::ToNode { client, life, node, order });
        }
    }

    fn copies(&mut self) -> usize {
        let network = &self.plan.network;
        match self.calm {
            true => 1,
            false if self.rng.chance(network.lost) => 0,
            false => 1 + usize::from(self.rng.chance(network.twice)),
        }
    }

    fn delay(&mut self) -> u64 {
        let network = &self.plan.network;
        let delay = self.rng.between(network.delay.0, network.delay.1);
        match !self.calm && self.rng.chance(network.late.0) {
            true => delay + self.rng.below(network.late.1),
            false => delay,
        }
    }

    fn is_cut(&self, client: usize, node: usize) -> bool {
        self.cuts.iter().any(|cut| cut.0 == client && cut.1 == node && cut.2 > self.time)
    }

    pub(super) fn serve(&mut self, client: usize, life: u32, node: usize, order: Order) {
        let deceived = match order {
            Order::Task(serial, task) if client == OPERATOR => {
                self.deceived(node, task).map(|reply| Parcel::Done(node, serial, reply))
            }
            _ => None,
        };
        if let Some(parcel) = deceived {
            let later = self.time + self.delay();
            return self.at(later, Happens::ToClient { client, life, parcel });
        }
        if self.nodes[node].down_until > self.time || self.is_cut(client, node) {
            return;
        }
        let parcel = match order {
            Order::Vote(attempt, request, process, force) => {
                let lag = self.rng.between(20 * MS, 400 * MS);
                let time = self.time;
                let reply = self.nodes[node].serve(time, lag, process, request.op, force);
                self.note(node);
                self.line(client, node, reply);
                Parcel::Reply(attempt, request, reply)
            }
            Order::Task(serial, task) => {
                let task = match (self.plan.bug, task, self.clients.get(client)) {
                    (
                        Some(Bug::FloorOfAClient),
                        Task::Admit { process, nonce, .. },
                        Some(client),
                    ) => {
                        let floor = Some(client.clock.read(self.time).unix_us());
                        Task::Admit { process, nonce, floor }
                    }
                    _ => task,
                };
                let reply = self.nodes[node].task(self.time, task);
                Parcel::Done(node, serial, self.recovered(node, reply))
            }
            Order::Listen => {
                if !self.waiters.contains(&client) {
                    self.waiters.push(client);
                }
                self.tell(What::Listens(client));
                return;
            }
        };
        if self.mute.iter().any(|one| one.0 == client && one.1 == node && one.2 > self.time) {
            return;
        }
        for _ in 0..self.copies() {
            let later = self.time + self.delay();
            self.at(later, Happens::ToClient { client, life, parcel });
        }
    }

    /// Queues a client that waits, and reports a release.
    fn line(&mut self, client: usize, node: usize, reply: NodeReply) {
        match (self.plan.waiting, reply) {
            (Waiting::Asks, _) => {}
            (_, NodeReply::Released | NodeReply::Notified) => {
                let told = match self.plan.waiting {
                    Waiting::InLine => self.waiters.len().min(1),
                    _ => self.waiters.len(),
                };
                self.tell(What::Tells(node, told));
                let told: Vec<usize> = self.waiters.drain(..told).collect();
                for client in told {
                    let (life, later) = (self.clients[client].life, self.time + self.delay());
                    self.at(later, Happens::ToClient { client, life, parcel: Parcel::Free });
                }
            }
            (Waiting::InLine, NodeReply::Busy { .. }) if !self.waiters.contains(&client) => {
                self.waiters.push(client);
            }
            (_, NodeReply::Granted(_)) => self.waiters.retain(|waiter| *waiter != client),
            _ => {}
        }
    }

    /// What a node says of its tokens, with the planted bugs of recovery.
    fn recovered(&self, node: usize, reply: TaskReply) -> TaskReply {
        match (self.plan.bug, reply) {
            (Some(Bug::RecoveryBeforeWaiting), TaskReply::High { max_ttl, .. }) => {
                TaskReply::High { high: self.early.get(node).copied().unwrap_or(0), max_ttl }
            }
            // Only the last one is asked.
            (Some(Bug::RecoveryFromTooFew), TaskReply::High { max_ttl, .. })
                if node + 1 < self.nodes.len() =>
            {
                TaskReply::High { high: 0, max_ttl }
            }
            _ => reply,
        }
    }

    /// Writes down whose lease is on a node.
    pub(super) fn note(&mut self, node: usize) {
        if self.plan.traced {
            let owner = self.nodes[node].lease(self.time).and_then(|lease| owner_of(lease.attempt));
            if owner != self.owners[node] {
                self.owners[node] = owner;
                self.tell(What::Lease(node, owner));
            }
        }
    }
}
