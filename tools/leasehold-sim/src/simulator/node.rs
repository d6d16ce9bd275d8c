//! A node of a run: the real machine, with a clock of its own and what its set-up adds.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold_proto::quorum::{Lease, Look, Node, NodeReply, Op, ProcessId, Task, TaskReply};
use leasehold_proto::{AttemptId, ClientId, Now, Token};

use super::clock::Clock;
use super::{Bug, Fault, Memory, Plan, Setup};

/// The one lock.
const LOCK: u8 = 0;

/// One node.
#[derive(Clone, Debug)]
pub(super) struct Server {
    node: Node<u8>,
    pub(super) clock: Clock,
    /// It cannot be reached before.
    pub(super) down_until: u64,
    setup: Setup,
    bug: Option<Bug>,
    max_ttl: Duration,
    number: usize,
    lives: u8,
    /// A replica takes over in this run.
    replicates: bool,
    /// What its replica has heard of, from when on.
    replica: VecDeque<(u64, Node<u8>)>,
    /// A copy of its data.
    saved: Option<Node<u8>>,
}

impl Server {
    pub(super) fn new(plan: &Plan, number: usize, clock: Clock) -> Self {
        let hour = Duration::from_secs(3600);
        let max_ttl = if plan.bug == Some(Bug::SetThenExpire) { hour } else { plan.ttl };
        let mut server = Self {
            node: Node::new(process(number, 0)),
            clock,
            down_until: 0,
            setup: plan.setup,
            bug: plan.bug,
            max_ttl,
            number,
            lives: 0,
            replicates: plan.setup.memory() == Memory::Replica
                && plan.faults.iter().any(|(_, fault)| matches!(fault, Fault::Restart { .. })),
            replica: VecDeque::new(),
            saved: None,
        };
        server.vote();
        server
    }

    /// It votes without more ado.
    fn vote(&mut self) {
        let process = self.node.look().process;
        let nonce = u64::from(self.lives);
        let _ = self.node.propose(process, nonce, self.max_ttl);
        let _ = self.node.admit(process, nonce, 0);
    }

    /// It is started again, after `away`.
    pub(super) fn restart(&mut self, time: u64, away: u64) {
        self.lives += 1;
        let process = process(self.number, self.lives);
        match self.setup.memory() {
            Memory::Nothing => self.node.forget(),
            Memory::Replica => {
                let heard = self.replica.iter().rev().find(|(from, _)| *from <= time);
                self.node = heard.map_or_else(|| Node::new(process), |(_, node)| node.clone());
            }
            Memory::Everything => {}
        }
        self.node.restart(process);
        self.down_until = time + away;
        if !self.setup.admission() || self.bug == Some(Bug::NoAdmission) {
            self.vote();
        }
    }

    /// Its data is copied.
    pub(super) fn save(&mut self) {
        self.saved = Some(self.node.clone());
    }

    /// It returns with the copy, as the process that it was then or as another one, after `away`.
    pub(super) fn older(&mut self, time: u64, away: u64, same: bool) {
        if let Some(saved) = self.saved.clone() {
            self.node = saved;
        }
        self.down_until = time + away;
        if same {
            return;
        }
        self.lives += 1;
        self.node.restart(process(self.number, self.lives));
        if !self.setup.admission() {
            self.vote();
        }
    }

    /// Removes the record of the lock, if it is free. Nodes of a quorum keep their high-water mark,
    /// and ZooKeeper and etcd count on; elsewhere the clock must be above the lock's tokens.
    pub(super) fn forget_lock(&mut self, time: u64) {
        let now = self.clock.read(time);
        let Look { process, marker, .. } = self.node.look();
        let (Some(marker), Ok((high, _))) = (marker, self.node.high(process)) else { return };
        let held = self.node.lease(now, &LOCK).is_some();
        let counts_on = self.setup.nodes() > 1
            || self.setup.admission()
            || matches!(self.setup, Setup::ZooKeeper | Setup::Etcd);
        let above = counts_on || high < now.unix_us();
        if held && self.bug != Some(Bug::ForgetIgnoresHolder)
            || !above && self.bug != Some(Bug::CleanUpIgnoresTop)
        {
            return;
        }
        // The lock is the only one here: without its record the node knows nothing else.
        self.node.forget();
        let _ = self.node.propose(process, marker.nonce, marker.max_ttl);
        let _ = self.node.admit(process, marker.nonce, if counts_on { high } else { 0 });
    }

    /// Ends the lease of this attempt.
    pub(super) fn force(&mut self, time: u64, attempt: AttemptId) {
        let (now, process) = (self.clock.read(time), self.node.look().process);
        if self.lease(time).is_some_and(|lease| lease.attempt == attempt) {
            let _ = self.node.handle(now, process, &LOCK, Op::Release { attempt });
        }
    }

    /// Whether it votes.
    pub(super) fn votes(&self) -> bool {
        self.node.high(self.node.look().process).is_ok()
    }

    /// The same node as if it had never had any data.
    pub(super) fn emptied(&self) -> Self {
        let mut empty = self.clone();
        empty.node.forget();
        empty
    }

    /// Who has the lock there.
    pub(super) fn lease(&self, time: u64) -> Option<Lease> {
        self.node.lease(self.clock.read(time), &LOCK)
    }

    /// Carries out a step.
    pub(super) fn serve(
        &mut self,
        time: u64,
        lag: u64,
        process: Option<ProcessId>,
        op: Op,
        force: bool,
    ) -> NodeReply {
        let now = self.clock.read(time);
        let bound = process.filter(|_| self.bug != Some(Bug::NoAdmission));
        let process = bound.unwrap_or(self.node.look().process);
        let lease = self.node.lease(now, &LOCK);
        if let Some(lease) = lease.filter(|_| force) {
            let _ = self.node.handle(now, process, &LOCK, Op::Release { attempt: lease.attempt });
        }
        let op = self.planted(now, process, lease, op);
        let mut reply = self.node.handle(now, process, &LOCK, op);
        reply = match (self.bug, reply) {
            (Some(Bug::RenewalRecreates), NodeReply::Healed) => NodeReply::Renewed,
            (Some(Bug::CommitWithoutCompare), NodeReply::Moved) => NodeReply::Committed,
            _ => reply,
        };
        if self.replicates {
            self.replica.push_back((time + lag, self.node.clone()));
            if self.replica.len() > 64 {
                self.replica.pop_front();
            }
        }
        reply
    }

    /// Its high-water mark.
    pub(super) fn high(&self) -> u64 {
        self.node.high(self.node.look().process).map_or(0, |(high, _)| high)
    }

    /// Does something for an admission.
    pub(super) fn task(&mut self, time: u64, task: Task) -> TaskReply {
        let now = self.clock.read(time);
        match task {
            Task::Look => TaskReply::Look(self.node.look()),
            Task::Survey => TaskReply::Survey(self.node.survey()),
            Task::Propose { process, nonce, max_ttl, first } => match first {
                true => self.node.propose_first(process, nonce, max_ttl),
                false => self.node.propose(process, nonce, max_ttl),
            }
            .map_or_else(TaskReply::Refused, |marker| TaskReply::Marker(Some(marker))),
            Task::Admit { process, nonce, floor } => self
                .node
                .admit(process, nonce, floor.unwrap_or_else(|| now.unix_us()))
                .map_or_else(TaskReply::Refused, TaskReply::Marker),
            Task::High { process } => {
                self.node.high(process).map_or_else(TaskReply::Refused, |(high, max_ttl)| {
                    TaskReply::High { high, max_ttl }
                })
            }
        }
    }

    /// The step as this set-up, or the planted bug, has it.
    fn planted(&mut self, now: Now, process: ProcessId, lease: Option<Lease>, op: Op) -> Op {
        match (self.bug, op, lease) {
            (Some(Bug::SetThenExpire), Op::Acquire { attempt, proposal, .. }, _) => {
                Op::Acquire { attempt, ttl: self.max_ttl, proposal }
            }
            (Some(Bug::RenewalByExpire), Op::Renew { ttl, token, .. }, Some(lease)) => {
                Op::Renew { attempt: lease.attempt, ttl, token, heal: false }
            }
            (Some(Bug::RenewalRecreates), Op::Renew { attempt, ttl, token, .. }, _) => {
                // Whatever was ended is forgotten.
                let nobody = AttemptId::new(ClientId::from_bits(u64::MAX), 0, 0);
                let _ = self.node.handle(now, process, &LOCK, Op::Release { attempt: nobody });
                Op::Renew { attempt, ttl, token, heal: true }
            }
            // Redisson renews what is there.
            (_, Op::Renew { attempt, ttl, token, .. }, _)
                if self.setup == Setup::RedissonRedlock =>
            {
                Op::Renew { attempt, ttl, token, heal: false }
            }
            (_, Op::Release { .. }, Some(lease))
                if self.bug == Some(Bug::ReleaseComparesNothing)
                    || self.setup == Setup::PlainSet =>
            {
                Op::Release { attempt: lease.attempt }
            }
            // One server without admission proposes its own time; ZooKeeper and etcd count.
            (_, Op::Acquire { attempt, ttl, .. }, _)
                if self.setup.nodes() == 1 && !self.setup.admission() =>
            {
                let own = match self.setup {
                    Setup::ZooKeeper | Setup::Etcd => 1,
                    _ => now.unix_us(),
                };
                Op::Acquire { attempt, ttl, proposal: Token::new(own).unwrap_or(Token::MAX) }
            }
            _ => op,
        }
    }
}

fn process(node: usize, life: u8) -> ProcessId {
    let mut bytes = [0; 20];
    bytes[0] = node as u8;
    bytes[1] = life;
    ProcessId::from_bytes(bytes)
}
