//! A node of a run: the real machine, with a clock of its own and what its set-up adds.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold_proto::quorum::{Lease, Node, Op, ProcessId, Reply, Task, TaskReply};
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
    ) -> Reply {
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
            (Some(Bug::RenewalRecreates), Reply::Healed) => Reply::Renewed,
            (Some(Bug::CommitWithoutCompare), Reply::Moved) => Reply::Committed,
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
            Task::Propose { process, nonce, max_ttl } => self
                .node
                .propose(process, nonce, max_ttl)
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
            (_, Op::Release { .. }, Some(lease))
                if self.bug == Some(Bug::ReleaseComparesNothing)
                    || self.setup == Setup::PlainSet =>
            {
                Op::Release { attempt: lease.attempt }
            }
            // One server without admission proposes its own time; a durable one counts.
            (_, Op::Acquire { attempt, ttl, .. }, _)
                if self.setup.nodes() == 1 && !self.setup.admission() =>
            {
                let own = match self.setup.memory() {
                    Memory::Everything => 1,
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
