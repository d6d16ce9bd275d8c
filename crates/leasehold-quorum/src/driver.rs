//! Drives all attempts of one client over its nodes: one task for any number of attempts.
//!
//! The requests of the machines go into a queue before each node, and from there in batches.
//! Replies go to the machine that asked. The machines make all decisions about votes.

mod acquiring;
mod attempts;
mod denial;
mod node_outbox;
mod releasing;
mod renewing;
mod run;
mod seen;
mod waits;

use std::collections::VecDeque;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_proto::quorum::{Event, Member, NodeReply, Op, Refusal, Request, majority};
use leasehold_proto::{ClientId, Deadline, Now};
use metrics::Counter;
use tokio::sync::{mpsc, oneshot};

use self::attempts::Attempts;
use self::node_outbox::{Answered, Flow, NodeOutbox, Queued, Tag};
use self::renewing::{Renewals, Renewing};
use self::run::Run;
use self::seen::Seen;
use self::waits::Waits;
use super::admission_driver::AdmissionDriver;
use super::node::{NodeEvent, NodeSink, QuorumNode, Step};
use super::slab::Slab;
use super::timers::Timers;
use crate::telemetry::quorum_grants;
use leasehold_core::backend::{
    self, AcquireRequest, Answer, BoxFuture, Ended, EventSink, ReleaseRequest, Renewal, Renewed,
};
use leasehold_core::clock::Clock;
use leasehold_core::{Name, Result};

/// How many calls are taken in one turn.
const CALLS: usize = 1024;
/// How often the task yields to other tasks before it sends their requests.
const TURNS: usize = 4;
/// A task that wakes this much later than planned was kept from running. Replies were delayed for
/// the same reason, so they get a moment before they count as missing.
const STALL: Duration = Duration::from_millis(10);
const MOMENT: Duration = Duration::from_millis(5);
/// How often in a row replies get another such moment.
const MOMENTS: u32 = 3;

/// What the client asks the driver for.
#[derive(Debug)]
pub(super) enum Call {
    Acquire(AcquireRequest, oneshot::Sender<Result<Answer>>),
    Renew(Vec<Renewal>, oneshot::Sender<Vec<Result<Renewed>>>),
    /// Without a sender, no caller waits for the answer.
    Release(ReleaseRequest, Option<oneshot::Sender<Result<Ended>>>),
}

/// The parts of a driver.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) nodes: Vec<Arc<dyn QuorumNode>>,
    pub(super) node_limit: Option<Duration>,
    pub(super) clock: Clock,
    pub(super) admission: AdmissionDriver,
    pub(super) calls: mpsc::UnboundedReceiver<Call>,
}

pub(super) struct Driver {
    clock: Clock,
    node_limit: Option<Duration>,
    admission: AdmissionDriver,
    calls: mpsc::UnboundedReceiver<Call>,
    /// Events of the nodes.
    said: mpsc::UnboundedReceiver<(usize, NodeEvent)>,
    /// Calls that wait for space in the queues of the nodes, and renewals, which go first.
    backlog: VecDeque<Call>,
    renewing: VecDeque<Renewing>,
    sink: EventSink,
    outboxes: Vec<NodeOutbox>,
    batches: FuturesUnordered<BoxFuture<'static, Answered>>,
    runs: Slab<Run>,
    timers: Timers,
    attempts: Attempts,
    waits: Waits,
    renewals: Slab<Renewals>,
    seen: Seen,
    hasher: RandomState,
    /// Grants with one round of requests, and with two.
    grants: [Counter; 2],
    /// After a stall: until when no time limit is checked, and how many stalls there were in a row.
    moment: Option<Deadline>,
    moments: u32,
    /// Since when too many nodes are known to have no marker.
    forgotten: Option<Now>,
    /// Steps that are not sent, with the reason.
    unsent: Vec<(usize, Tag, Refusal)>,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("runs", &self.runs).finish_non_exhaustive()
    }
}

impl Driver {
    pub(super) fn new(parts: Parts, client: ClientId, sink: EventSink) -> Self {
        let Parts { nodes, node_limit, clock, admission, calls } = parts;
        let (sender, said) = mpsc::unbounded_channel();
        for (number, node) in nodes.iter().enumerate() {
            node.attach(client, NodeSink::new(number, sender.clone()));
        }
        Self {
            clock,
            node_limit,
            admission,
            calls,
            said,
            backlog: VecDeque::new(),
            renewing: VecDeque::new(),
            sink,
            waits: Waits::new(nodes.len()),
            outboxes: nodes
                .into_iter()
                .enumerate()
                .map(|(at, node)| NodeOutbox::new(at, node))
                .collect(),
            batches: FuturesUnordered::new(),
            runs: Slab::default(),
            timers: Timers::default(),
            attempts: Attempts::default(),
            renewals: Slab::default(),
            seen: Seen::default(),
            hasher: RandomState::default(),
            grants: quorum_grants(),
            moment: None,
            moments: 0,
            forgotten: None,
            unsent: Vec::new(),
        }
    }

    /// Runs until the backend no longer exists and everything was released, as far as nodes answer.
    pub(super) async fn run(mut self) {
        let (mut calls, mut answers) = (Vec::new(), Vec::new());
        let mut open = true;
        while open || !self.runs.is_empty() {
            let wake_at = self.next_timer();
            let (mut task, mut event) = (None, None);
            // Replies come before timers: a reply that has arrived is in time.
            tokio::select! {
                biased;
                Some(answer) = self.batches.next() => answers.push(answer),
                taken = self.calls.recv_many(&mut calls, CALLS), if open => open = taken > 0,
                Some(said) = self.said.recv() => event = Some(said),
                Some(answer) = self.admission.answer() => task = Some(answer),
                () = sleep(&self.clock, wake_at) => {}
            }
            self.gather(&mut calls).await;
            while let Some(Some(answer)) = self.batches.next().now_or_never() {
                answers.push(answer);
            }
            // Read the clock after all messages were read, before anything is sent in response.
            let now = self.clock.now();
            answers.drain(..).for_each(|answer| self.handle_answer(now, answer));
            if let Some(answer) = task {
                self.admission.handle(now, answer);
                self.note_outlook(now);
            }
            if let Some((node, event)) = event {
                self.handle_said(now, node, event);
            }
            calls.drain(..).for_each(|call| self.handle_call(call));
            while self.has_room() && self.begin_next(now) {}
            if !open {
                self.renewing.clear();
                self.backlog.clear();
                self.give_everything_back(now);
            }
            if !self.is_stalled(now) {
                self.flush(now);
                self.handle_timeouts(now);
            }
            self.flush(now);
        }
    }

    /// Takes the calls that have arrived. While more calls arrive, it yields to other tasks that
    /// may add calls too: one script call for many steps is cheap.
    async fn gather(&mut self, calls: &mut Vec<Call>) {
        let mut before = 0;
        for _ in 0..TURNS {
            while calls.len() < CALLS
                && let Ok(call) = self.calls.try_recv()
            {
                calls.push(call);
            }
            if calls.len() == before || self.runs.len() <= 1 {
                return;
            }
            before = calls.len();
            tokio::task::yield_now().await;
        }
    }

    /// Returns true for a moment after the task was kept from running, when a timer is long
    /// overdue.
    fn is_stalled(&mut self, now: Now) -> bool {
        if self.moment.is_some_and(|moment| !moment.has_passed(now)) {
            return true;
        }
        let due = self.moment.take().map(Deadline::steady_ns).or(self.timers.next());
        let late = due.map_or(0, |due| now.steady_ns.saturating_sub(due));
        if late <= STALL.as_nanos() as u64 || self.moments >= MOMENTS {
            self.moments = 0;
            return false;
        }
        self.moments += 1;
        self.moment = Some(Deadline::after(now, MOMENT));
        true
    }

    fn next_timer(&self) -> Option<Deadline> {
        if self.moment.is_some() {
            return self.moment;
        }
        let now = self.clock.now();
        let at = self.timers.next().into_iter().chain(self.waits.next()).min();
        let own = at.map(|at_ns| {
            Deadline::after(now, Duration::from_nanos(at_ns.saturating_sub(now.steady_ns)))
        });
        let theirs = self.admission.poll_timeout(now);
        own.map_or(theirs, |own| Some(theirs.map_or(own, |theirs| own.min(theirs))))
    }

    /// Handles a call. Renewals go before calls that begin or end a lease.
    fn handle_call(&mut self, call: Call) {
        match call {
            Call::Renew(leases, asker) => self.renew(leases, asker),
            call => self.backlog.push_back(call),
        }
    }

    /// Begins the next waiting call. Returns false if there is none.
    fn begin_next(&mut self, now: Now) -> bool {
        if let Some(next) = self.renewing.pop_front() {
            self.renew_one(now, next);
        } else if let Some(call) = self.backlog.pop_front() {
            self.begin(now, call);
        } else {
            return false;
        }
        true
    }

    /// Begins a call. Time limits start here: they measure the nodes, not the local queue.
    fn begin(&mut self, now: Now, call: Call) {
        match call {
            // No caller waits for it any more, and no node has received it.
            Call::Acquire(_, asker) if asker.is_closed() => {}
            Call::Acquire(request, asker) => self.acquire(now, request, asker),
            Call::Renew(leases, asker) => self.renew(leases, asker),
            Call::Release(release, asker) => self.release(now, &release, asker),
        }
    }

    /// Returns true if a majority can take more requests. If enough nodes vote and answer, the
    /// others do not count.
    fn has_room(&self) -> bool {
        let (mut free, mut voters, mut free_voters) = (0, 0, 0);
        for (node, outbox) in self.outboxes.iter().enumerate() {
            let (room, votes) = (outbox.has_room(), self.votes(node, outbox));
            free += usize::from(room);
            voters += usize::from(votes);
            free_voters += usize::from(room && votes);
        }
        let enough = majority(self.outboxes.len());
        if voters >= enough { free_voters >= enough } else { free >= enough }
    }

    /// Returns true if so many nodes answered the last time that the others are not needed.
    fn has_voters(&self) -> bool {
        let votes = |(node, outbox): &(usize, &NodeOutbox)| self.votes(*node, outbox);
        self.outboxes.iter().enumerate().filter(votes).count() >= majority(self.outboxes.len())
    }

    fn votes(&self, node: usize, outbox: &NodeOutbox) -> bool {
        outbox.answers() && self.admission.process(node).is_some()
    }

    fn handle_said(&mut self, now: Now, node: usize, event: NodeEvent) {
        match event {
            NodeEvent::Reset => self.admission.doubt(now, node),
            NodeEvent::Freed(name) => {
                if self.waits.freed(now, node, &name, fastrand::u64(..)) {
                    self.sink.send(backend::Event::Freed { name });
                }
            }
        }
    }

    fn handle_answer(&mut self, now: Now, answered: Answered) {
        let Answered { node, tags, mut replies } = answered;
        replies.resize(tags.len(), NodeReply::Unknown);
        if let Some(outbox) = self.outboxes.get_mut(node) {
            outbox.answered(&replies);
        }
        let is_doubt = |reply: &NodeReply| {
            matches!(reply, NodeReply::Refused(Refusal::Stranger | Refusal::NotAdmitted))
        };
        if replies.iter().any(is_doubt) {
            self.admission.doubt(now, node);
        }
        for (tag, reply) in tags.into_iter().zip(replies) {
            self.handle_reply(now, node, tag, reply);
        }
    }

    fn handle_reply(&mut self, now: Now, node: usize, tag: Tag, reply: NodeReply) {
        if let NodeReply::Refused(Refusal::TtlTooLong { max_ttl }) = reply {
            self.admission.learn_max_ttl(node, max_ttl);
        }
        let Some(run) = self.runs.get_mut(tag.run) else { return };
        run.outstanding = run.outstanding.saturating_sub(1);
        if run.waits && !run.held && matches!(reply, NodeReply::Busy { .. }) {
            self.waits.busy(node, &run.name, run.client.is_some());
        }
        if run.denial.is_some() {
            self.note_late(tag.run, node, reply);
        }
        let Some(run) = self.runs.get_mut(tag.run) else { return };
        if reply == NodeReply::Notified {
            run.notified |= 1 << node.min(63);
        }
        run.machine.handle_reply(now, node, tag.round, reply);
        self.pump(now, tag.run);
    }

    /// Takes requests and events out of a machine, and sets its timer.
    fn pump(&mut self, now: Now, number: usize) {
        loop {
            let Some(run) = self.runs.get_mut(number) else { return };
            let mut due = None;
            while let Some(Request { node, round, op }) = run.machine.poll_request() {
                let due = *due.get_or_insert_with(|| {
                    run.machine.poll_timeout().unwrap_or(Deadline::after(now, run.limit))
                });
                let wait = run.waits && matches!(op, Op::Acquire { .. });
                let (name, origin) = (run.name.clone(), run.origin.clone());
                let (tag, step) = (Tag { run: number, round }, Step { name, op, wait, origin });
                if let Some(outbox) = self.outboxes.get_mut(node) {
                    run.outstanding += 1;
                    let (limit, hash) = (run.limit, run.hash);
                    outbox.push(Queued { tag, due, limit, hash, step });
                }
            }
            match run.machine.poll_event() {
                Some(event) => self.handle_event(now, number, event),
                None => break,
            }
        }
        self.tell_denied(now, number, false);
        let Some(run) = self.runs.get_mut(number) else { return };
        if run.is_over() {
            self.runs.remove(number);
            return;
        }
        let due = run.due().map(Deadline::steady_ns);
        if let Some(due) = due.filter(|due| run.timer.is_none_or(|timer| *due < timer)) {
            run.timer = Some(due);
            self.timers.set(due, number);
        }
    }

    fn handle_event(&mut self, now: Now, number: usize, event: Event) {
        match event {
            Event::Held { token, until, at_once } => {
                self.held(now, number, token, until);
                self.grants[usize::from(!at_once)].increment(1);
            }
            Event::Denied(denied) => self.note_denied(now, number, denied),
            Event::Renewed { .. } => self.renewed(number, Ok(Renewed::Renewed)),
            Event::NotRenewed => self.not_renewed(now, number),
            Event::Lost => self.lost(now, number, true),
            Event::Released { held } => self.released(now, number, held),
        }
    }

    fn handle_timeouts(&mut self, now: Now) {
        self.admission.handle_timeout(now);
        while let Some(name) = self.waits.take_due(now) {
            self.sink.send(backend::Event::Freed { name });
        }
        while let Some((at_ns, number)) = self.timers.take_due(now) {
            let Some(run) = self.runs.get_mut(number) else { continue };
            if run.timer != Some(at_ns) {
                continue; // A timer of an earlier run with this number, or one that was moved earlier.
            }
            run.timer = None;
            run.machine.handle_timeout(now);
            if run.machine.deadline().is_some_and(|end| end.steady_ns() <= now.steady_ns) {
                // The client neither renewed nor released it in time.
                self.lost(now, number, false);
            }
            self.pump(now, number);
        }
    }

    /// Sends all requests. A request that cannot be sent goes back to its machine, which may want
    /// more.
    fn flush(&mut self, now: Now) {
        loop {
            let has_voters = self.has_voters();
            for (node, outbox) in self.outboxes.iter_mut().enumerate() {
                let flow = outbox.flow(has_voters);
                while self.moment.is_none()
                    && let Some(tag) = outbox.take_overdue(now)
                {
                    self.unsent.push((node, tag, Refusal::Unfit));
                }
                if let Some(process) = self.admission.process(node) {
                    while let Some(call) = outbox.call(now, process, flow) {
                        self.batches.push(Box::pin(call));
                    }
                    if flow != Flow::Trickle {
                        continue;
                    }
                } else if self.admission.asks(node) && flow != Flow::Trickle {
                    continue; // It may be the same process: the answer follows soon.
                }
                let refusal = match self.admission.member(now, node) {
                    Member::Admitted(_) | Member::Unknown => Refusal::Unfit,
                    Member::Waiting(_) | Member::Twin(_) => Refusal::NotAdmitted,
                };
                while let Some(tag) = outbox.take() {
                    self.unsent.push((node, tag, refusal));
                }
            }
            if self.unsent.is_empty() {
                return;
            }
            for (node, tag, refusal) in std::mem::take(&mut self.unsent) {
                self.handle_reply(now, node, tag, NodeReply::Refused(refusal));
            }
        }
    }

    /// Releases everything after the backend was dropped: no caller holds or wants a lock any more.
    fn give_everything_back(&mut self, now: Now) {
        for number in self.runs.numbers() {
            if let Some(run) = self.runs.get_mut(number).filter(|run| !run.machine.has_ended()) {
                run.machine.release(now);
                self.pump(now, number);
            }
        }
    }

    fn hash(&self, name: &Name) -> u64 {
        self.hasher.hash_one(name)
    }
}

async fn sleep(clock: &Clock, until: Option<Deadline>) {
    match until {
        Some(until) => clock.sleep_until(until).await,
        None => std::future::pending().await,
    }
}
