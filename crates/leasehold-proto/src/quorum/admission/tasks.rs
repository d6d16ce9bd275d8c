//! The tasks of an admission at the nodes, and the replies.

use core::time::Duration;

use super::super::{Look, Marker, ProcessId, Refusal, Survey};
use super::PATIENCE;

/// How long a node may take to answer whether it has ever voted: it searches all its keys.
const SURVEY: Duration = Duration::from_secs(30);

/// A task at a node for its admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// Ask which process answers, and for its marker.
    Look,
    /// Do [`Node::survey`](super::super::Node::survey).
    Survey,
    /// Do [`Node::propose`](super::super::Node::propose).
    Propose {
        /// The process that the task is meant for.
        process: ProcessId,
        /// The nonce of the marker.
        nonce: u64,
        /// The longest ttl of the marker.
        max_ttl: Duration,
        /// A first start: replace a marker that waits with another `max_ttl`.
        first: bool,
    },
    /// Do [`Node::high`](super::super::Node::high).
    High {
        /// The process that the task is meant for.
        process: ProcessId,
    },
    /// Do [`Node::admit`](super::super::Node::admit).
    Admit {
        /// The process that the task is meant for.
        process: ProcessId,
        /// The nonce that the node has waited with.
        nonce: u64,
        /// The value that its counters start above. `None`: the node's own wall clock, in
        /// microseconds.
        floor: Option<u64>,
    },
}

impl Task {
    /// Returns how long to wait for a reply.
    pub fn limit(&self) -> Duration {
        match self {
            Self::Survey => SURVEY,
            _ => PATIENCE,
        }
    }
}

/// The result of a [`Task`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskReply {
    /// To `Look`.
    Look(Look),
    /// To `Survey`.
    Survey(Survey),
    /// To `Propose` and `Admit`: the marker that the node has now.
    Marker(Option<Marker>),
    /// To `High`.
    High {
        /// The high-water mark.
        high: u64,
        /// The longest ttl that the node grants.
        max_ttl: Duration,
    },
    /// The node did nothing.
    Refused(Refusal),
    /// No answer.
    Unknown,
}
