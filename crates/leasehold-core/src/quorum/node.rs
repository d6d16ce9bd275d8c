//! What one independent node has to offer, so that a lock can be made over a majority of them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::quorum::{Op, ProcessId, Reply, Task, TaskReply};
use leasehold_proto::{ClientId, Token};
use tokio::sync::mpsc;

use crate::backend::{BoxFuture, Holder, Origin};
use crate::{Name, Result};

/// One node of a quorum: carries out steps, and knows nothing of majorities.
///
/// What each step does is that of [`leasehold_proto::quorum::Node`], whatever the engine.
///
/// Rules for implementors:
/// - A call that was not answered is [`Reply::Unknown`], never repeated by the node itself; one that
///   could not be sent at all is `Refused(Unfit)`.
/// - Calls end within `limit`; futures may be dropped at any await point.
/// - The node speaks to the process that is named and to no other: the server itself compares.
pub trait QuorumNode: Send + Sync + fmt::Debug + 'static {
    /// Where it is, for people and logs; without credentials.
    fn place(&self) -> String;

    /// Called once at the most, before the first step: which client this is, and where its events
    /// go. Tasks and questions may come before it, or without it.
    fn attach(&self, client: ClientId, events: NodeSink);

    /// Carries out steps on different locks, each as a whole or not at all, in one call if the
    /// engine can. The replies stand in the order of the steps.
    fn steps(
        &self,
        process: ProcessId,
        steps: Vec<Step>,
        limit: Duration,
    ) -> BoxFuture<'_, Vec<Reply>>;

    /// One step of an admission.
    fn task(&self, task: Task) -> BoxFuture<'_, TaskReply>;

    /// Who has these locks there, or had them last, in their order; `None` where nobody is known to
    /// have had it, and an error of its own where something else is there. Nothing is changed, and
    /// no vote is needed.
    fn leases<'a>(
        &'a self,
        names: &'a [Name],
    ) -> BoxFuture<'a, Result<Vec<Result<Option<NodeLease>>>>>;

    /// The names known there that start with `prefix`, `limit` at most.
    fn names<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Name>>>;

    /// Why it did nothing when it was last called in vain, for a step or a task, as the rest of a
    /// sentence about it: `is not connected`. `None` where that is not known: it has not answered.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// What keeps this node from taking part until a person changes it (it evicts keys, is a
    /// replica, refuses our password), and what they should know besides.
    fn fitness(&self) -> BoxFuture<'_, Fitness>;
}

/// One step on one lock.
#[derive(Clone, Debug)]
pub struct Step {
    /// Which lock.
    pub name: Name,
    /// What is to be done.
    pub op: Op,
    /// Who refused us shall tell us when the lock becomes free there ([`NodeEvent::Freed`]).
    pub wait: bool,
    /// Who asks, for people.
    pub origin: Arc<Origin>,
}

/// Who has a lock on one node, or had it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLease {
    /// The attempt, and where it comes from.
    pub holder: Holder,
    /// The lock's counter there.
    pub counter: Token,
    /// Since when: milliseconds since the Unix epoch, by the node's clock.
    pub since_unix_ms: u64,
    /// How long it lasts unless renewed; zero where it is over.
    pub remaining: Duration,
}

/// Whether a node can take part.
#[derive(Clone, Debug, Default)]
pub struct Fitness {
    /// It cannot, and a person must change something.
    pub refusal: Option<crate::Error>,
    /// It can, but this should be known.
    pub warnings: Vec<String>,
    /// How far its clock is ahead of ours in milliseconds (negative: behind), where it says.
    pub clock_ahead_ms: Option<i64>,
}

/// Something that a node says without being asked.
#[derive(Clone, Debug)]
pub enum NodeEvent {
    /// A lock that one of our attempts waits for has become free there, or may have.
    Freed(Name),
    /// The connection was made anew: another process may answer.
    Reset,
}

/// Where a node puts its events: they carry its place in the list.
#[derive(Clone, Debug)]
pub struct NodeSink {
    node: usize,
    events: mpsc::UnboundedSender<(usize, NodeEvent)>,
}

impl NodeSink {
    /// A sink for the node at this place of the list.
    pub fn new(node: usize, events: mpsc::UnboundedSender<(usize, NodeEvent)>) -> Self {
        Self { node, events }
    }

    /// Hands an event over; false when the client has gone.
    pub fn send(&self, event: NodeEvent) -> bool {
        self.events.send((self.node, event)).is_ok()
    }
}
