//! What an admission asks of the nodes, and what they reply.

use core::time::Duration;

use super::super::{Look, Marker, ProcessId, Refusal, Survey};
use super::PATIENCE;

/// How long a node is given to say whether it has ever voted: it looks through all its keys.
const SURVEY: Duration = Duration::from_secs(30);

/// Something to be done at a node for its admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// Ask which process answers, and for its marker.
    Look,
    /// [`Node::survey`](super::super::Node::survey).
    Survey,
    /// [`Node::propose`](super::super::Node::propose).
    Propose {
        /// Whom to speak to.
        process: ProcessId,
        /// The marker's.
        nonce: u64,
        /// The marker's.
        max_ttl: Duration,
    },
    /// [`Node::high`](super::super::Node::high).
    High {
        /// Whom to speak to.
        process: ProcessId,
    },
    /// [`Node::admit`](super::super::Node::admit).
    Admit {
        /// Whom to speak to.
        process: ProcessId,
        /// The nonce that the node has waited with.
        nonce: u64,
        /// What its counters start above; `None`: the node's own wall clock, in microseconds.
        floor: Option<u64>,
    },
}

impl Task {
    /// How long a reply is waited for.
    pub fn limit(&self) -> Duration {
        match self {
            Self::Survey => SURVEY,
            _ => PATIENCE,
        }
    }
}

/// What came of a [`Task`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskReply {
    /// Of `Look`.
    Look(Look),
    /// Of `Survey`.
    Survey(Survey),
    /// Of `Propose` and `Admit`: the marker that is there now.
    Marker(Option<Marker>),
    /// Of `High`.
    High {
        /// The high-water mark.
        high: u64,
        /// The longest ttl there.
        max_ttl: Duration,
    },
    /// The node did nothing.
    Refused(Refusal),
    /// No answer.
    Unknown,
}
