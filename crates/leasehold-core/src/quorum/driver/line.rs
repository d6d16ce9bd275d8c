//! What waits to be sent to one node, and goes out in batches.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use leasehold_proto::quorum::{ProcessId, Reply};
use leasehold_proto::{Deadline, Now};

use super::super::node::{QuorumNode, Step};

/// Steps in one call at the most.
const BATCH: usize = 64;
/// While a call is under way, the next one goes out when this many wait.
const EAGER: usize = 16;
/// Calls under way at the most.
const IN_FLIGHT: usize = 4;
/// Even a step whose time is almost over is given this long.
const LEAST: Duration = Duration::from_millis(1);

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

/// The way to one node.
#[derive(Debug)]
pub(super) struct Line {
    number: usize,
    node: Arc<dyn QuorumNode>,
    outbox: VecDeque<Queued>,
    in_flight: usize,
    /// Steps in the calls that are under way.
    under_way: usize,
    /// Nothing was heard at the last call. Until something is, one step at a time is tried, and the
    /// others are not sent: a node that is gone would be owed a release for each of them.
    quiet: bool,
    /// The locks of the batch that is being made.
    locks: HashSet<u64, RandomState>,
}

impl Line {
    pub(super) fn new(number: usize, node: Arc<dyn QuorumNode>) -> Self {
        let (outbox, locks) = (VecDeque::new(), HashSet::default());
        Self { number, node, outbox, in_flight: 0, under_way: 0, quiet: false, locks }
    }

    pub(super) fn push(&mut self, queued: Queued) {
        self.outbox.push_back(queued);
    }

    /// What it was given is not more than its calls can hold.
    pub(super) fn has_room(&self) -> bool {
        self.outbox.len() + self.under_way < IN_FLIGHT * BATCH
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Takes out a step that there was no time to send.
    pub(super) fn take_overdue(&mut self, now: Now) -> Option<Tag> {
        let first = self.outbox.front()?;
        if !first.due.has_passed(now) {
            return None;
        }
        self.outbox.pop_front().map(|queued| queued.tag)
    }

    /// Takes out a step that shall not be sent.
    pub(super) fn take(&mut self) -> Option<Tag> {
        self.outbox.pop_front().map(|queued| queued.tag)
    }

    /// The next call, if it is time for one.
    pub(super) fn call(
        &mut self,
        now: Now,
        process: ProcessId,
    ) -> Option<impl Future<Output = Answered> + Send + 'static> {
        let (most, window) = if self.quiet { (1, 1) } else { (BATCH, IN_FLIGHT) };
        let at_least = if self.in_flight == 0 { 1 } else { EAGER };
        if self.outbox.len() < at_least || self.in_flight >= window {
            return None;
        }
        let size = self.outbox.len().min(most);
        let (mut tags, mut steps) = (Vec::with_capacity(size), Vec::with_capacity(size));
        let mut limit = LEAST;
        self.locks.clear();
        while steps.len() < size {
            // Two steps on one lock do not go together.
            let fits = self.outbox.front().is_some_and(|queued| self.locks.insert(queued.hash));
            let Some(queued) = fits.then(|| self.outbox.pop_front()).flatten() else { break };
            limit = limit.max(queued.due.remaining(now));
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
        let was_quiet = self.quiet;
        self.quiet = replies.iter().all(|reply| *reply == Reply::Unknown);
        if self.quiet != was_quiet {
            let (node, quiet) = (self.node.place(), self.quiet);
            tracing::debug!(node, quiet, "a node answers, or does not");
        }
    }
}
