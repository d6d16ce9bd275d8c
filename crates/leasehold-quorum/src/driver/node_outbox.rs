//! The steps that wait to be sent to one node, which are sent in batches.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use leasehold_proto::quorum::{NodeReply, ProcessId, Refusal};
use leasehold_proto::{Deadline, Now};

use super::super::node::{QuorumNode, Step};

/// The most steps in one call.
const BATCH: usize = 64;
/// While a call is outstanding, the next one is sent when this many steps wait.
const EAGER: usize = 16;
/// The most outstanding calls.
const IN_FLIGHT: usize = 4;
/// Identifies a step: the number of the attempt, and the round of the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    pub(super) run: usize,
    pub(super) round: u32,
}

/// A step that waits to be sent, as long as there is time.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) tag: Tag,
    pub(super) due: Deadline,
    /// How long to wait for the node. Time spent in this queue does not shorten it.
    pub(super) limit: Duration,
    /// The hash of the lock name.
    pub(super) hash: u64,
    pub(super) step: Step,
}

/// The replies of a call.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) node: usize,
    pub(super) tags: Vec<Tag>,
    pub(super) replies: Vec<NodeReply>,
}

/// What the last call to a node showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pulse {
    /// It answers.
    Answers,
    /// It can do nothing, and its reply says so at once (or the local client knows that no server
    /// listens).
    Unfit,
    /// It did not answer. Until it does, one step at a time is sent and the others are not: each of
    /// them would need a release later.
    Quiet,
}

/// Why a step was refused without a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The node knows the reason.
    Node,
    /// It was not sent, because the node did not answer the last time.
    Quiet,
    /// It was not sent, because the steps before it took too long.
    Late,
}

/// How much is sent to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Everything.
    Full,
    /// One call at a time: it did not answer the last time, and there is no majority without it.
    Narrow,
    /// One step at a time: it did not answer the last time, and the other nodes are enough.
    Trickle,
}

/// The outgoing queue of one node.
#[derive(Debug)]
pub(super) struct NodeOutbox {
    number: usize,
    node: Arc<dyn QuorumNode>,
    outbox: VecDeque<Queued>,
    in_flight: usize,
    /// The number of steps in outstanding calls.
    under_way: usize,
    pulse: Pulse,
    /// The cause of the last refused step.
    cause: Cause,
    /// The locks of the batch that is being built.
    locks: HashSet<u64, RandomState>,
}

impl NodeOutbox {
    pub(super) fn new(number: usize, node: Arc<dyn QuorumNode>) -> Self {
        let (outbox, locks) = (VecDeque::new(), HashSet::default());
        let (pulse, cause) = (Pulse::Answers, Cause::Node);
        Self { number, node, outbox, in_flight: 0, under_way: 0, pulse, cause, locks }
    }

    pub(super) fn push(&mut self, queued: Queued) {
        self.outbox.push_back(queued);
    }

    /// Returns true if its calls can hold everything that waits.
    pub(super) fn has_room(&self) -> bool {
        self.outbox.len() + self.under_way < IN_FLIGHT * BATCH
    }

    /// Returns true if it answered the last time, and may vote as far as this client knows.
    pub(super) fn answers(&self) -> bool {
        self.pulse == Pulse::Answers
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.pulse == Pulse::Quiet
    }

    /// Returns how much is sent to the node. `others_are_enough` is true if there is a majority
    /// without it.
    pub(super) fn flow(&self, others_are_enough: bool) -> Flow {
        match (self.is_quiet(), others_are_enough) {
            (false, _) => Flow::Full,
            (true, false) => Flow::Narrow,
            (true, true) => Flow::Trickle,
        }
    }

    /// Returns why it did nothing the last time, as the rest of a sentence about it.
    pub(super) fn trouble(&self) -> String {
        match self.cause {
            Cause::Node => {
                self.node.trouble().unwrap_or_else(|| format!("refused: {}", Refusal::Unfit))
            }
            // A node that fell silent may be known to be down by now.
            Cause::Quiet => self.node.trouble().unwrap_or_else(|| "does not answer".to_owned()),
            Cause::Late => "was not asked, because earlier requests to it still wait".to_owned(),
        }
    }

    /// Removes a step whose time to be sent has passed.
    pub(super) fn take_overdue(&mut self, now: Now) -> Option<Tag> {
        // While little is sent, a step with much time may block a step with less.
        let looks_at = if self.is_quiet() { self.outbox.len() } else { 1 };
        let is_overdue = |queued: &Queued| queued.due.has_passed(now);
        let at = self.outbox.iter().take(looks_at).position(is_overdue)?;
        self.cause = if self.is_quiet() { Cause::Quiet } else { Cause::Late };
        self.outbox.remove(at).map(|queued| queued.tag)
    }

    /// Removes a step that must not be sent.
    pub(super) fn take(&mut self) -> Option<Tag> {
        self.cause = Cause::Quiet;
        self.outbox.pop_front().map(|queued| queued.tag)
    }

    /// Returns the next call, if it is time for one.
    pub(super) fn call(
        &mut self,
        now: Now,
        process: ProcessId,
        flow: Flow,
    ) -> Option<impl Future<Output = Answered> + Send + 'static> {
        let (most, window) = match flow {
            Flow::Full => (BATCH, IN_FLIGHT),
            Flow::Narrow => (BATCH, 1),
            Flow::Trickle => (1, 1),
        };
        let at_least = if self.in_flight == 0 { 1 } else { EAGER };
        if self.outbox.len() < at_least || self.in_flight >= window {
            return None;
        }
        let size = self.outbox.len().min(most);
        let (mut tags, mut steps) = (Vec::with_capacity(size), Vec::with_capacity(size));
        let mut limit = Duration::ZERO;
        self.locks.clear();
        while steps.len() < size {
            // Two steps on one lock never share a call.
            let fits = self.outbox.front().is_some_and(|queued| self.locks.insert(queued.hash));
            let Some(queued) = fits.then(|| self.outbox.pop_front()).flatten() else { break };
            // A step that waited here for long must not make the node count as silent sooner. A
            // step with much time must not keep other steps from a node that may be back.
            let left =
                if flow == Flow::Narrow { Duration::ZERO } else { queued.due.remaining(now) };
            limit = limit.max(left).max(queued.limit);
            tags.push(queued.tag);
            steps.push(queued.step);
        }
        // Wait longer than the machine does: a late grant is released at once.
        let limit = limit.saturating_mul(2);
        self.in_flight += 1;
        self.under_way += steps.len();
        let (number, node) = (self.number, self.node.clone());
        Some(async move {
            let replies = node.steps(process, steps, limit).await;
            Answered { node: number, tags, replies }
        })
    }

    /// Records the replies of a finished call.
    pub(super) fn answered(&mut self, replies: &[NodeReply]) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.under_way = self.under_way.saturating_sub(replies.len());
        if replies.contains(&NodeReply::Refused(Refusal::Unfit)) {
            self.cause = Cause::Node;
        }
        let all = |reply: NodeReply| replies.iter().all(|one| *one == reply);
        let pulse = match () {
            () if all(NodeReply::Unknown) => Pulse::Quiet,
            () if all(NodeReply::Refused(Refusal::Unfit)) => Pulse::Unfit,
            () => Pulse::Answers,
        };
        if pulse != std::mem::replace(&mut self.pulse, pulse) {
            tracing::debug!(node = self.node.place(), ?pulse, "the state of a node changed");
        }
    }
}
