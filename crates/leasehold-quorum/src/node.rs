//! The contract of one independent node: locks over a majority are built on it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::quorum::{NodeReply, Op, ProcessId, Task, TaskReply};
use leasehold_proto::{ClientId, Token};
use tokio::sync::mpsc;

use leasehold_core::backend::{BoxFuture, Origin};
use leasehold_core::{Holder, Name, Result};

/// One node of a quorum. It executes steps, and knows nothing about majorities.
///
/// **Unstable**, as [`leasehold_core::backend`] is: it is for authors of nodes.
///
/// On every engine, each step does the same as [`leasehold_proto::quorum::Node`].
///
/// Rules for implementors:
/// - A call without an answer is [`NodeReply::Unknown`], and the node itself never repeats it. A call
///   that could not be sent is `Refused(Unfit)`.
/// - Calls end within `limit`. Futures may be dropped at any await point.
/// - A request goes to the named process only: the server itself compares the process id.
pub trait QuorumNode: Send + Sync + fmt::Debug + 'static {
    /// Returns where the node is, for display and logs, without credentials.
    fn place(&self) -> String;

    /// Tells the node which client uses it, and where to send events. Called at most once, before
    /// the first step. Tasks and questions may come before it, or without it.
    fn attach(&self, client: ClientId, events: NodeSink);

    /// Executes steps on different locks, each completely or not at all, in one call if the engine
    /// can. The replies are in the order of the steps.
    fn steps(
        &self,
        process: ProcessId,
        steps: Vec<Step>,
        limit: Duration,
    ) -> BoxFuture<'_, Vec<NodeReply>>;

    /// Executes one task of an admission.
    fn task(&self, task: Task) -> BoxFuture<'_, TaskReply>;

    /// Returns the current or last holders of these locks on the node, in the same order. `None` if
    /// no holder is known, and an error of its own for a record of another program. It changes
    /// nothing, and needs no vote.
    fn leases<'a>(
        &'a self,
        names: &'a [Name],
    ) -> BoxFuture<'a, Result<Vec<Result<Option<NodeLease>>>>>;

    /// Returns at most `limit` names known to the node that start with `prefix`.
    fn names<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Name>>>;

    /// Returns the key of its marker, which operators may have to delete. Default:
    /// `leasehold:node`.
    fn marker_key(&self) -> String {
        "leasehold:node".into()
    }

    /// Returns why the last failed step or task failed, as the rest of a sentence about the node:
    /// `is not connected`. `None` if that is unknown, because the node has not answered.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Returns what prevents this node from taking part until its settings change (it evicts keys,
    /// is a replica, refuses the password), and further warnings.
    fn fitness(&self) -> BoxFuture<'_, Fitness>;
}

/// One step on one lock.
///
/// **Unstable**, as [`leasehold_core::backend`] is: it is for authors of nodes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Step {
    /// The name of the lock.
    pub name: Name,
    /// The step.
    pub op: Op,
    /// If the node refuses, it must notify the client when the lock becomes free there
    /// ([`NodeEvent::Freed`]).
    pub wait: bool,
    /// The process that sends the step, for display.
    pub origin: Arc<Origin>,
}

impl Step {
    /// Creates a step that does not wait.
    pub fn new(name: Name, op: Op, origin: impl Into<Arc<Origin>>) -> Self {
        Self { name, op, wait: false, origin: origin.into() }
    }

    /// Sets [`wait`](Self::wait).
    #[must_use]
    pub fn with_wait(self, wait: bool) -> Self {
        Self { wait, ..self }
    }
}

/// The current or last holder of a lock on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeLease {
    /// The attempt, and where it comes from.
    pub holder: Holder,
    /// The counter of the lock on the node.
    pub counter: Token,
    /// When it was granted: milliseconds since the Unix epoch, by the clock of the node.
    pub since_unix_ms: u64,
    /// How long the lease lasts unless it is renewed; zero if it has ended.
    pub remaining: Duration,
}

impl NodeLease {
    /// Creates the lease of a holder, with the counter of its lock on the node.
    pub fn new(holder: Holder, counter: Token, since_unix_ms: u64, remaining: Duration) -> Self {
        Self { holder, counter, since_unix_ms, remaining }
    }
}

/// Whether a node can take part.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Fitness {
    /// It cannot, until its settings change.
    pub refusal: Option<leasehold_core::Error>,
    /// It can, with these warnings.
    pub warnings: Vec<String>,
    /// How far its clock is ahead of this process in milliseconds (negative: behind), if it reports
    /// that.
    pub clock_ahead_ms: Option<i64>,
}

/// A message that a node sends without a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NodeEvent {
    /// A lock that an attempt of this client waits for is free there, or may be free.
    Freed(Name),
    /// The connection was re-established: another process may answer.
    Reset,
}

/// Where a node sends its events; it adds the index of the node.
///
/// **Unstable**, as [`leasehold_core::backend`] is: it is for authors of nodes.
#[derive(Clone, Debug)]
pub struct NodeSink {
    node: usize,
    events: mpsc::UnboundedSender<(usize, NodeEvent)>,
}

impl NodeSink {
    /// Creates a sink for the node at this place of the list.
    pub(crate) fn new(node: usize, events: mpsc::UnboundedSender<(usize, NodeEvent)>) -> Self {
        Self { node, events }
    }

    /// Sends an event. Returns false if the client no longer exists.
    pub fn send(&self, event: NodeEvent) -> bool {
        self.events.send((self.node, event)).is_ok()
    }
}
