//! Connects to the nodes: the checks before the first lock.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::quorum::{MAX_TTL, Member, Outlook};

use super::admission_driver::AdmissionDriver;
use super::backend::QuorumBackend;
use super::fitness::look_at_fitness;
use super::node::QuorumNode;
use leasehold_core::clock::Clock;
use leasehold_core::{Error, ErrorKind, Result};

/// How long to wait for the other nodes once a majority has answered.
const GRACE: Duration = Duration::from_millis(200);
/// The most nodes of a quorum; more nodes only make each step more expensive.
const MOST: usize = 63;

/// The settings of a [`QuorumBackend`]; [`connect`](Self::connect) creates it.
#[derive(Clone, Debug)]
pub struct QuorumBuilder {
    nodes: Vec<Arc<dyn QuorumNode>>,
    node_limit: Option<Duration>,
    max_ttl: Option<Duration>,
    clock: Clock,
}

impl QuorumBackend {
    /// Creates a builder over these nodes.
    pub fn builder(nodes: Vec<Arc<dyn QuorumNode>>) -> QuorumBuilder {
        QuorumBuilder::new(nodes)
    }
}

impl QuorumBuilder {
    /// Creates a builder with the defaults. The nodes must be independent servers.
    pub fn new(nodes: Vec<Arc<dyn QuorumNode>>) -> Self {
        Self { nodes, node_limit: None, max_ttl: None, clock: Clock::system() }
    }

    /// Sets how long each step waits for each node. Default: ttl/200, at least 5 and at most 50 ms;
    /// with a single node, ttl/4, at most 1 s.
    #[must_use]
    pub fn node_limit(mut self, limit: Duration) -> Self {
        self.node_limit = Some(limit);
        self
    }

    /// Sets the longest ttl of a node that has no marker yet. Default: 60 s. Nodes that were set up
    /// with another ttl keep theirs, and [`connect`](Self::connect) warns of it.
    #[must_use]
    pub fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.max_ttl = Some(max_ttl);
        self
    }

    /// Sets the clock that validity and waits are computed from. Default: the system clock. A
    /// client of the backend must have the same clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Connects to all nodes and creates the backend. Once a majority has answered, it waits 0.4 s
    /// for the others, which can join later. Without a majority it takes two or three seconds at
    /// most.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for no node, more than 63, one server in two places, or a limit or
    /// ttl of zero; [`ErrorKind::Refused`] (or the error of the node) for a node that cannot take
    /// part until its settings change; [`ErrorKind::Unavailable`] if fewer than a majority answer.
    pub async fn connect(self) -> Result<QuorumBackend> {
        let Self { nodes, node_limit, max_ttl, clock } = self;
        let invalid = |message: String| Err(Error::new(ErrorKind::Invalid, message));
        if nodes.is_empty() || nodes.len() > MOST {
            return invalid(format!(
                "nodes: {} nodes are given, but 1 to {MOST} are allowed",
                nodes.len()
            ));
        }
        if node_limit.is_some_and(|limit| limit.is_zero()) {
            return invalid("node limit: is zero; it must be more than zero".into());
        }
        if max_ttl.is_some_and(|max_ttl| max_ttl.is_zero()) {
            return invalid("max ttl: is zero; it must be more than zero".into());
        }
        let mut warnings = look_at_fitness(&nodes, &clock, Some(GRACE)).await?;
        warnings.extend(even(nodes.len()));
        let mut admission =
            AdmissionDriver::new(nodes.clone(), max_ttl.unwrap_or(MAX_TTL), None, clock.clone());
        admission.settle_most(GRACE).await;
        let members = admission.members(clock.now());
        members.refuse_twins()?;
        members.refuse_unreachable()?;
        warnings.extend(members.other_max_ttl(max_ttl));
        let is_out = |(_, member): &(String, Member)| !matches!(member, Member::Admitted(_));
        let out = members.nodes.iter().enumerate().filter(|(_, node)| is_out(node));
        match members.outlook {
            // The error of each acquire explains what to do; waiting does not help.
            Outlook::NotSetUp | Outlook::Forgotten => warnings.push(
                "no lock can be acquired on these nodes; run `leasehold quorum status` for the reason".into(),
            ),
            _ => {
                warnings.extend(out.map(|(node, _)| members.describe(node)));
                // The error of an acquire that does not wait long enough has the rest.
                let waits = matches!(members.outlook, Outlook::Later(_));
                warnings.extend(members.advice().filter(|_| !waits));
            }
        }
        for warning in &warnings {
            tracing::warn!(%warning, "quorum");
        }
        Ok(QuorumBackend::new(nodes, node_limit, clock, admission, warnings))
    }
}

/// Warns of an even number of nodes: it works, but tolerates no more failures.
fn even(nodes: usize) -> Option<String> {
    let fewer = nodes.checked_sub(1)?;
    nodes.is_multiple_of(2).then(|| {
        let may_fail = fewer / 2;
        format!(
            "{nodes} nodes tolerate no more failures ({may_fail}) than {fewer}: use an odd number"
        )
    })
}
