//! Runs the admission of a client's nodes: sends its tasks to them, and records their replies.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_proto::quorum::{
    Admission, Founding, Halt, Marker, Member, Outlook, ProcessId, Task, TaskReply, majority,
};
use leasehold_proto::{Deadline, Now};

use super::membership::Membership;
use super::node::QuorumNode;
use leasehold_core::backend::BoxFuture;
use leasehold_core::clock::Clock;
use leasehold_core::random;

/// The reply to a task: the node, the number of the task, and the reply.
pub(super) type Answer = (usize, u32, TaskReply);

/// An [`Admission`] with its nodes.
pub(super) struct AdmissionDriver {
    clock: Clock,
    nodes: Vec<Arc<dyn QuorumNode>>,
    admission: Admission,
    calls: FuturesUnordered<BoxFuture<'static, Answer>>,
    /// The number of outstanding tasks at each node.
    busy: Vec<usize>,
    /// The longest ttl that the marker of each node allows.
    max_ttls: Vec<Option<Duration>>,
    /// The marker that waits at each node, after the last proposal there.
    proposed: Vec<Option<Marker>>,
    /// The longest ttl of a marker that replaced one of these.
    rival: Option<Duration>,
}

impl fmt::Debug for AdmissionDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionDriver")
            .field("admission", &self.admission)
            .finish_non_exhaustive()
    }
}

impl AdmissionDriver {
    pub(super) fn new(
        nodes: Vec<Arc<dyn QuorumNode>>,
        max_ttl: Duration,
        founding: Option<Founding>,
        clock: Clock,
    ) -> Self {
        let admission = Admission::new(clock.now(), nodes.len(), max_ttl, founding);
        let mut admission = Self {
            admission,
            calls: FuturesUnordered::new(),
            busy: vec![0; nodes.len()],
            max_ttls: vec![None; nodes.len()],
            proposed: vec![None; nodes.len()],
            rival: None,
            clock,
            nodes,
        };
        admission.dispatch();
        admission
    }

    /// Does [`Admission::refuse_other_max_ttl`].
    pub(super) fn refuse_other_max_ttl(&mut self) {
        self.admission.refuse_other_max_ttl();
    }

    /// Returns the next reply; `None` if no task is outstanding. Pass it to [`Self::handle`].
    pub(super) async fn answer(&mut self) -> Option<Answer> {
        self.calls.next().await
    }

    pub(super) fn handle(&mut self, now: Now, (node, serial, reply): Answer) {
        if let Some(busy) = self.busy.get_mut(node) {
            *busy = busy.saturating_sub(1);
        }
        if let Some(max_ttl) = self.max_ttls.get_mut(node) {
            match marker(reply) {
                Some(marker) if marker.admitted => *max_ttl = Some(marker.max_ttl),
                _ => {}
            }
        }
        self.note_rival(node, reply);
        // The nonce of a proposal distinguishes this process from all others.
        self.admission.handle_reply(now, node, serial, reply, random::fresh());
        self.dispatch();
    }

    /// Records whether another operator replaced a marker. A client keeps a marker of the same process.
    fn note_rival(&mut self, node: usize, reply: TaskReply) {
        let Some(proposed) = self.proposed.get_mut(node) else { return };
        let waits = marker(reply).filter(|marker| !marker.admitted);
        match (reply, *proposed, waits) {
            (TaskReply::Marker(_), _, waits) => *proposed = waits,
            (TaskReply::Look(_), Some(ours), Some(seen))
                if seen.process == ours.process && seen.max_ttl != ours.max_ttl =>
            {
                self.rival = Some(seen.max_ttl);
            }
            _ => {}
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Now) {
        self.admission.handle_timeout(now);
        self.dispatch();
    }

    pub(super) fn poll_timeout(&self, now: Now) -> Option<Deadline> {
        self.admission.poll_timeout(now)
    }

    /// Records that a node may be another process now.
    pub(super) fn doubt(&mut self, now: Now, node: usize) {
        self.admission.handle_doubt(now, node);
        self.dispatch();
    }

    /// Runs until no task is outstanding: each node has answered which process it is, or has timed
    /// out.
    pub(super) async fn settle(&mut self) {
        while let Some(answer) = self.answer().await {
            self.handle(self.clock.now(), answer);
        }
    }

    /// Does the same, but waits only this long for the others once a majority has answered.
    pub(super) async fn settle_most(&mut self, grace: Duration) {
        let mut until = None;
        let clock = self.clock.clone();
        while let Some(Some(answer)) = clock.within(until, self.answer()).await {
            let now = clock.now();
            self.handle(now, answer);
            let known =
                |node: &usize| !self.asks(*node) && self.member(now, *node) != Member::Unknown;
            let all = self.nodes.len();
            if until.is_none() && (0..all).filter(known).count() >= majority(all) {
                until = Some(Deadline::after(now, grace));
            }
        }
    }

    /// Runs until something has happened, or for `time`.
    pub(super) async fn step(&mut self, time: Duration) {
        let now = self.clock.now();
        let tick = Deadline::after(now, time);
        let until = self.poll_timeout(now).map_or(tick, |due| due.min(tick));
        tokio::select! {
            biased;
            Some(answer) = self.calls.next() => self.handle(self.clock.now(), answer),
            () = self.clock.sleep_until(until) => {}
        }
        self.handle_timeout(self.clock.now());
    }

    /// Returns the process that votes for a node.
    pub(super) fn process(&self, node: usize) -> Option<ProcessId> {
        self.admission.process(node)
    }

    /// Returns true while a node is being asked which process it is.
    pub(super) fn asks(&self, node: usize) -> bool {
        self.busy.get(node).is_some_and(|busy| *busy > 0)
    }

    pub(super) fn member(&self, now: Now, node: usize) -> Member {
        self.admission.member(now, node)
    }

    pub(super) fn outlook(&self, now: Now) -> Outlook {
        self.admission.outlook(now)
    }

    /// Returns why an operator cannot set the nodes up.
    pub(super) fn halt(&self) -> Option<Halt> {
        self.admission.halt()
    }

    /// Returns the longest ttl with which another operator sets the same nodes up, if one replaced a marker.
    pub(super) fn rival(&self) -> Option<Duration> {
        self.rival
    }

    /// Iterates over the nodes that did not answer the operator's first question.
    pub(super) fn silent(&self) -> impl Iterator<Item = usize> + '_ {
        self.admission.silent()
    }

    /// Returns how many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the longest ttl that a majority grants, if enough limits are known.
    pub(super) fn max_ttl(&self) -> Option<Duration> {
        let mut known: Vec<Duration> = self.max_ttls.iter().copied().flatten().collect();
        known.sort_unstable();
        // For any limit of the nodes that did not answer.
        known.into_iter().nth(self.nodes.len() - majority(self.nodes.len()))
    }

    /// Records the longest ttl that a node grants.
    pub(super) fn learn_max_ttl(&mut self, node: usize, max_ttl: Duration) {
        if let Some(known) = self.max_ttls.get_mut(node) {
            *known = Some(max_ttl);
        }
    }

    /// Returns the key of a node's marker.
    pub(super) fn marker_key(&self) -> String {
        self.nodes.first().map(|node| node.marker_key()).unwrap_or_default()
    }

    pub(super) fn place(&self, node: usize) -> String {
        self.nodes.get(node).map(|node| node.place()).unwrap_or_default()
    }

    /// Returns why a node did nothing the last time, if it is known, as the rest of a sentence
    /// about it.
    pub(super) fn trouble(&self, node: usize) -> Option<String> {
        self.nodes.get(node)?.trouble()
    }

    /// Returns everything that is known.
    pub(super) fn members(&self, now: Now) -> Membership {
        let member = |(number, node): (usize, &Arc<dyn QuorumNode>)| {
            (node.place(), self.member(now, number))
        };
        Membership {
            nodes: self.nodes.iter().enumerate().map(member).collect(),
            outlook: self.outlook(now),
            max_ttl: self.max_ttl(),
            grants: self.max_ttls.clone(),
            marker_key: self.marker_key(),
        }
    }

    /// Sends the tasks.
    fn dispatch(&mut self) {
        while let Some((number, serial, task)) = self.admission.poll_task() {
            let Some(node) = self.nodes.get(number).cloned() else { continue };
            if let Some(busy) = self.busy.get_mut(number) {
                *busy += 1;
            }
            self.calls.push(Box::pin(carry_out(self.clock.clone(), node, number, serial, task)));
        }
    }
}

async fn carry_out(
    clock: Clock,
    node: Arc<dyn QuorumNode>,
    number: usize,
    serial: u32,
    task: Task,
) -> Answer {
    let limit = Deadline::after(clock.now(), task.limit());
    let reply = clock.within(Some(limit), node.task(task)).await;
    (number, serial, reply.unwrap_or(TaskReply::Unknown))
}

fn marker(reply: TaskReply) -> Option<Marker> {
    match reply {
        TaskReply::Look(look) => look.current(),
        TaskReply::Survey(survey) => survey.look.current(),
        TaskReply::Marker(marker) => marker,
        _ => None,
    }
}
