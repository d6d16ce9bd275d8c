//! What waits to be sent to one node, and goes out in batches.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use leasehold_proto::quorum::{ProcessId, Refusal, Reply};
use leasehold_proto::{Deadline, Now};

use super::super::node::{QuorumNode, Step};

/// Steps in one call at the most.
const BATCH: usize = 64;
/// While a call is under way, the next one goes out when this many wait.
const EAGER: usize = 16;
/// Calls under way at the most.
const IN_FLIGHT: usize = 4;
/// Whose step it is: the attempt's number, and the request's round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    pub(super) run: usize,
    pub(super) round: u32,
}

/// A step that waits to be sent, for as long as there is time.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) tag: Tag,
    pub(super) due: Deadline,
    /// How long a node is waited for, whatever of that was spent before it was sent.
    pub(super) limit: Duration,
    /// Of its lock's name.
    pub(super) hash: u64,
    pub(super) step: Step,
}

/// The replies of a call.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) node: usize,
    pub(super) tags: Vec<Tag>,
    pub(super) replies: Vec<Reply>,
}

/// What the last call to a node has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pulse {
    /// It answers.
    Answers,
    /// It can do nothing, and says so at once (or somebody for it): nobody listens there.
    Unfit,
    /// Nothing was heard. Until something is, one step at a time is tried, and the others are not
    /// sent: a node that is gone would be owed a release for each of them.
    Quiet,
}

/// Why a step was refused though nobody has voted on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The node knows.
    Node,
    /// It was not sent, since the node was not heard the last time.
    Quiet,
    /// It was not sent, since what came before it took too long.
    Late,
}

/// How much is sent to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// All that there is.
    Full,
    /// One call at a time: it was not heard the last time, and there is no majority without it.
    Narrow,
    /// One step at a time: it was not heard the last time, and the others are enough.
    Trickle,
}

/// The way to one node.
#[derive(Debug)]
pub(super) struct Line {
    number: usize,
    node: Arc<dyn QuorumNode>,
    outbox: VecDeque<Queued>,
    in_flight: usize,
    /// Steps in the calls that are under way.
    under_way: usize,
    pulse: Pulse,
    /// Of the last step that was refused.
    cause: Cause,
    /// The locks of the batch that is being made.
    locks: HashSet<u64, RandomState>,
}

impl Line {
    pub(super) fn new(number: usize, node: Arc<dyn QuorumNode>) -> Self {
        let (outbox, locks) = (VecDeque::new(), HashSet::default());
        let (pulse, cause) = (Pulse::Answers, Cause::Node);
        Self { number, node, outbox, in_flight: 0, under_way: 0, pulse, cause, locks }
    }

    pub(super) fn push(&mut self, queued: Queued) {
        self.outbox.push_back(queued);
    }

    /// What it was given is not more than its calls can hold.
    pub(super) fn has_room(&self) -> bool {
        self.outbox.len() + self.under_way < IN_FLIGHT * BATCH
    }

    /// It answered the last time, and may vote for all that is known here.
    pub(super) fn answers(&self) -> bool {
        self.pulse == Pulse::Answers
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.pulse == Pulse::Quiet
    }

    /// How much is sent there, where others make up a majority without it or do not.
    pub(super) fn flow(&self, others_are_enough: bool) -> Flow {
        match (self.is_quiet(), others_are_enough) {
            (false, _) => Flow::Full,
            (true, false) => Flow::Narrow,
            (true, true) => Flow::Trickle,
        }
    }

    /// Why it could do nothing the last time, as the rest of a sentence about it.
    pub(super) fn trouble(&self) -> String {
        match self.cause {
            Cause::Node => {
                self.node.trouble().unwrap_or_else(|| format!("refused: {}", Refusal::Unfit))
            }
            // One that was heard of last when it fell silent may be known to be gone by now.
            Cause::Quiet => self.node.trouble().unwrap_or_else(|| "does not answer".to_owned()),
            Cause::Late => "was not asked, being behind with what came before".to_owned(),
        }
    }

    /// Takes out a step that there was no time to send.
    pub(super) fn take_overdue(&mut self, now: Now) -> Option<Tag> {
        // Where little is sent, what has much time keeps what has less from being sent.
        let looks_at = if self.is_quiet() { self.outbox.len() } else { 1 };
        let is_overdue = |queued: &Queued| queued.due.has_passed(now);
        let at = self.outbox.iter().take(looks_at).position(is_overdue)?;
        self.cause = if self.is_quiet() { Cause::Quiet } else { Cause::Late };
        self.outbox.remove(at).map(|queued| queued.tag)
    }

    /// Takes out a step that shall not be sent.
    pub(super) fn take(&mut self) -> Option<Tag> {
        self.cause = Cause::Quiet;
        self.outbox.pop_front().map(|queued| queued.tag)
    }

    /// The next call, if it is time for one.
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
            // Two steps on one lock do not go together.
            let fits = self.outbox.front().is_some_and(|queued| self.locks.insert(queued.hash));
            let Some(queued) = fits.then(|| self.outbox.pop_front()).flatten() else { break };
            // One that has waited here for long is no reason to call the node silent sooner, nor is
            // one with much time to keep a node from others that may be back.
            let left =
                if flow == Flow::Narrow { Duration::ZERO } else { queued.due.remaining(now) };
            limit = limit.max(left).max(queued.limit);
            tags.push(queued.tag);
            steps.push(queued.step);
        }
        // Longer than the machine waits: what a node has granted late is given back at once.
        let limit = limit.saturating_mul(2);
        self.in_flight += 1;
        self.under_way += steps.len();
        let (number, node) = (self.number, self.node.clone());
        Some(async move {
            let replies = node.steps(process, steps, limit).await;
            Answered { node: number, tags, replies }
        })
    }

    /// A call has come to its end.
    pub(super) fn answered(&mut self, replies: &[Reply]) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.under_way = self.under_way.saturating_sub(replies.len());
        if replies.contains(&Reply::Refused(Refusal::Unfit)) {
            self.cause = Cause::Node;
        }
        let all = |reply: Reply| replies.iter().all(|one| *one == reply);
        let pulse = match () {
            () if all(Reply::Unknown) => Pulse::Quiet,
            () if all(Reply::Refused(Refusal::Unfit)) => Pulse::Unfit,
            () => Pulse::Answers,
        };
        if pulse != std::mem::replace(&mut self.pulse, pulse) {
            tracing::debug!(node = self.node.place(), ?pulse, "a node answers, or does not");
        }
    }
}
