//! The `Backend` trait over nodes: sends the calls of the client to the driver, and asks the nodes
//! itself if no own lease is concerned.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_proto::quorum::{NodeReply, Op, Task, TaskReply, majority};
use leasehold_proto::{AttemptId, ClientId, Deadline, Token};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::admission_driver::AdmissionDriver;
use super::driver::{Call, Driver, Parts};
use super::explain;
use super::node::{NodeLease, QuorumNode, Step};
use super::status::status;
use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Ended, EventSink, Mode, Origin, ReleaseRequest,
    Renewal, Renewed,
};
use leasehold_core::clock::Clock;
use leasehold_core::{
    Capability, Error, ErrorKind, Forced, LeaseKind, Name, Result, State, Status,
};

/// Why a quorum has no read-write locks.
const NO_READERS: &str = "the readers of a phase share one token, and no protocol yet agrees on it over a majority of \
                          nodes";

/// Why a quorum has no semaphores.
const NO_SEMAPHORES: &str = "majorities do not count: 5 nodes with limit 2 have 10 places, and a permit takes 3 of \
                             them, so 3 permits would fit";

/// Why a quorum has no latches.
const NO_LATCHES: &str = "a majority of servers does not count: two parties that count at the same time may each \
                          reach some of the servers, and no server has both";

/// Why one server with `admission=strict` has none of them.
const ONE_NODE: &str = "the option admission=strict uses the protocol of several servers, which has locks alone; \
                        leave it out";

/// How long to wait for a node that is asked for what is shown to users.
const LIMIT: Duration = Duration::from_secs(1);
/// How long to wait for the other nodes once a majority has named the holder whose lease must end.
const GRACE: Duration = Duration::from_millis(200);
/// How many locks one call to a node asks for.
const PAGE: usize = 250;

/// The connections of one client to the nodes of a quorum (Redlock, with tokens).
///
/// A [`QuorumBuilder`](crate::QuorumBuilder) creates it. There is no queue: waiters send their
/// requests again, and the nodes wake them early.
#[derive(Debug)]
pub struct QuorumBackend {
    nodes: Vec<Arc<dyn QuorumNode>>,
    capability: Capability,
    clock: Clock,
    warnings: Vec<String>,
    calls: mpsc::UnboundedSender<Call>,
    /// Taken by [`Backend::attach`].
    parts: Mutex<Option<Parts>>,
}

impl QuorumBackend {
    pub(super) fn new(
        nodes: Vec<Arc<dyn QuorumNode>>,
        node_limit: Option<Duration>,
        clock: Clock,
        admission: AdmissionDriver,
        warnings: Vec<String>,
    ) -> Self {
        let mut capability = Capability::new("redlock", LeaseKind::Ttl);
        capability.push = true;
        capability.list = true;
        capability.force_release = true;
        let why = |several| Some(if nodes.len() == 1 { ONE_NODE } else { several });
        capability.why_no_read_write_locks = why(NO_READERS);
        capability.why_no_semaphores = why(NO_SEMAPHORES);
        capability.why_no_latches = why(NO_LATCHES);
        let (sender, calls) = mpsc::unbounded_channel();
        let parts =
            Parts { nodes: nodes.clone(), node_limit, clock: clock.clone(), admission, calls };
        let parts = Mutex::new(Some(parts));
        Self { nodes, capability, clock, warnings, calls: sender, parts }
    }

    /// Sends a call to the driver.
    async fn call<T>(&self, call: impl FnOnce(oneshot::Sender<T>) -> Call) -> Result<T> {
        let (asker, answer) = oneshot::channel();
        if self.calls.send(call(asker)).is_err() {
            return Err(explain::driver_gone());
        }
        answer.await.map_err(|_| explain::driver_gone())
    }

    /// Asks all nodes the same question. Returns `None` for those that do not answer in time, and
    /// the reasons of the others. With `grace`, a node that is slower than a majority gets that
    /// much more time.
    async fn ask_all<'a, T, F>(
        &'a self,
        grace: Option<Duration>,
        call: impl Fn(&'a dyn QuorumNode) -> F,
    ) -> Result<Vec<Option<T>>>
    where
        F: Future<Output = Result<T>>,
    {
        let (all, enough) = (self.nodes.len(), majority(self.nodes.len()));
        let mut until = Deadline::after(self.clock.now(), LIMIT);
        let one = |(number, node): (usize, &'a Arc<dyn QuorumNode>)| {
            let asking = call(node.as_ref());
            async move { (number, asking.await) }
        };
        let mut asking: FuturesUnordered<_> = self.nodes.iter().enumerate().map(one).collect();
        let mut answers: Vec<Option<Result<T>>> = self.nodes.iter().map(|_| None).collect();
        let mut answered = 0;
        while let Some(Some((number, answer))) = self.clock.within(Some(until), asking.next()).await
        {
            answered += usize::from(answer.is_ok());
            if let Some(slot) = answers.get_mut(number) {
                *slot = Some(answer);
            }
            if let Some(grace) = grace.filter(|_| answered >= enough) {
                until = until.min(Deadline::after(self.clock.now(), grace));
            }
        }
        if answered < enough {
            let why = |(node, answer): (&Arc<dyn QuorumNode>, Option<Result<T>>)| match answer {
                Some(Ok(_)) => None,
                Some(Err(error)) => Some(format!("node {} {}", node.place(), error.message())),
                None => Some(format!("node {} did not answer in {LIMIT:?}", node.place())),
            };
            let reasons: Vec<String> = self.nodes.iter().zip(answers).filter_map(why).collect();
            return Err(explain::too_few(answered, all, &reasons));
        }
        Ok(answers.into_iter().map(|answer| answer?.ok()).collect())
    }

    /// Returns for each lock what the nodes together report, or that too few know. A record of
    /// another program is an answer about itself.
    async fn statuses(
        &self,
        names: &[Name],
        grace: Option<Duration>,
    ) -> Result<Vec<Result<Status>>> {
        let mut statuses = Vec::with_capacity(names.len());
        for page in names.chunks(PAGE) {
            let leases = self.ask_all(grace, |node| node.leases(page)).await?;
            statuses.extend(page.iter().enumerate().map(|(at, name)| {
                let answers = leases.iter().map(|node| node.as_ref()?.get(at).cloned());
                let answers: Vec<Option<Result<Option<NodeLease>>>> = answers.collect();
                self.together(name, &answers)
            }));
        }
        Ok(statuses)
    }

    fn together(
        &self,
        name: &Name,
        answers: &[Option<Result<Option<NodeLease>>>],
    ) -> Result<Status> {
        let known = |answer: &Option<Result<Option<NodeLease>>>| answer.clone()?.ok();
        let seen: Vec<Option<Option<NodeLease>>> = answers.iter().map(known).collect();
        let (all, answered) = (seen.len(), seen.iter().flatten().count());
        if answered < majority(all) {
            let of_node = |(node, answer): (&Arc<dyn QuorumNode>, &Option<Result<_>>)| {
                let error = answer.as_ref()?.as_ref().err()?;
                Some(format!("node {} {}", node.place(), error.message()))
            };
            let reasons: Vec<String> = self.nodes.iter().zip(answers).filter_map(of_node).collect();
            return Err(explain::too_few(answered, all, &reasons));
        }
        Ok(status(name, &seen))
    }

    async fn status_of(&self, name: &Name, grace: Option<Duration>) -> Result<Status> {
        let statuses = self.statuses(std::slice::from_ref(name), grace).await?;
        statuses.into_iter().next().unwrap_or_else(|| {
            let message = "quorum: the nodes returned nothing about the lock";
            Err(Error::new(ErrorKind::Unavailable, message))
        })
    }

    async fn names(&self, prefix: &str, limit: usize) -> Result<Vec<Name>> {
        let names = self.ask_all(None, |node| node.names(prefix, limit)).await?;
        let mut names: Vec<Name> = names.into_iter().flatten().flatten().collect();
        names.sort_unstable();
        names.dedup();
        names.truncate(limit);
        Ok(names)
    }

    async fn force(&self, name: &Name, token: Token) -> Result<Forced> {
        let status = self.status_of(name, Some(GRACE)).await?;
        let (State::Held, Some(holder), Some(current)) =
            (status.state, status.holder, status.token)
        else {
            return Ok(Forced::NotHeld);
        };
        if current != token {
            return Ok(Forced::Other(current));
        }
        // This ends only the lease of this attempt, even if another attempt holds the lock now.
        self.ask_all(None, |node| end_attempt(node, name, holder.attempt)).await?;
        Ok(Forced::Ended)
    }
}

/// Ends an attempt of another client at one node.
async fn end_attempt(node: &dyn QuorumNode, name: &Name, attempt: AttemptId) -> Result<()> {
    let silent = || Error::new(ErrorKind::Unavailable, "did not answer");
    let TaskReply::Look(look) = node.task(Task::Look).await else { return Err(silent()) };
    let step = Step::new(name.clone(), Op::Release { attempt }, Origin::new("", 0, None));
    let replies = node.steps(look.process, vec![step], LIMIT).await;
    match replies.first() {
        Some(NodeReply::Released | NodeReply::Notified | NodeReply::NotHeld) => Ok(()),
        Some(NodeReply::Refused(refusal)) => {
            Err(Error::new(ErrorKind::Unavailable, format!("refused: {refusal}")))
        }
        _ => Err(silent()),
    }
}

fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("redlock: {what} is not supported"))
}

impl Backend for QuorumBackend {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn place(&self) -> String {
        let places: Vec<String> = self.nodes.iter().map(|node| node.place()).collect();
        format!("a quorum of {}", places.join(", "))
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn attach(&self, client: ClientId, events: EventSink) {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(parts), Ok(runtime)) = (parts, Handle::try_current()) {
            runtime.spawn(Driver::new(parts, client, events).run());
        }
    }

    fn acquire(&self, request: AcquireRequest) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(async move {
            if request.mode == Mode::Permit {
                return Err(self.capability.no_semaphores());
            }
            if request.mode != Mode::Exclusive {
                return Err(self.capability.no_read_write_locks());
            }
            self.call(|asker| Call::Acquire(request, asker)).await?
        })
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(async move {
            match self.call(|asker| Call::Renew(leases.to_vec(), asker)).await {
                Ok(verdicts) => verdicts,
                Err(error) => leases.iter().map(|_| Err(error.clone())).collect(),
            }
        })
    }

    fn release(&self, release: ReleaseRequest) -> BoxFuture<'_, Result<Ended>> {
        Box::pin(async move {
            if release.keep.is_some() {
                return Err(unsupported("a minimum hold that outlives the release"));
            }
            if release.then.is_some() {
                return Err(unsupported("releasing and acquiring in one step"));
            }
            self.call(|ender| Call::Release(release, Some(ender))).await?
        })
    }

    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>> {
        Box::pin(self.status_of(name, None))
    }

    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        Box::pin(async move {
            let names = self.names(prefix, limit).await?;
            let statuses = self.statuses(&names, None).await?;
            Ok(statuses.into_iter().filter_map(Result::ok).collect())
        })
    }

    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(self.force(name, token))
    }

    fn abandon(&self, release: &ReleaseRequest) {
        self.calls.send(Call::Release(release.clone(), None)).ok();
    }
}
