//! Setting up the nodes of a quorum and looking at them: `redlock:` stores, and single servers with
//! `?admission=strict`. What the command `leasehold quorum` does.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::proto::quorum::{MAX_TTL, ProcessId, Task, TaskReply};
use leasehold_core::quorum::{self, QuorumNode};
use leasehold_core::{Error, ErrorKind, Result, StoreUrl};

pub use leasehold_core::quorum::{Fitness, Founding, Member, Members, Outlook};

/// What can be said of one node.
#[derive(Clone, Debug)]
pub struct NodeReport {
    /// Where it is.
    pub place: String,
    /// What is known of it.
    pub member: Member,
    /// The process that answers there.
    pub process: Option<ProcessId>,
    /// The longest ttl that it grants, if it has been set up.
    pub max_ttl: Option<Duration>,
    /// The largest token that it knows of, if it may vote.
    pub high: Option<u64>,
    /// Whether it can take part, and what should be known besides.
    pub fitness: Fitness,
}

/// What can be said of all nodes.
#[derive(Clone, Debug)]
pub struct Report {
    /// In the order of the URL.
    pub nodes: Vec<NodeReport>,
    /// As a client sees them.
    pub members: Members,
    /// What the URL says of `max-ttl`.
    pub named_max_ttl: Option<Duration>,
}

/// Looks at the nodes as every client does that connects: a node without a marker begins to wait
/// by that.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a URL that is not understood, or names no quorum. Nodes that do not
/// answer are no error.
pub async fn report(url: &str) -> Result<Report> {
    let (nodes, named) = nodes(url).map_err(|error| error.during("quorum status", None))?;
    let members = quorum::members(nodes.clone(), named.unwrap_or(MAX_TTL), Clock::system()).await;
    let mut reports = Vec::new();
    for (node, (place, member)) in nodes.iter().zip(&members.nodes) {
        reports.push(look(node.as_ref(), place.clone(), *member).await);
    }
    Ok(Report { nodes: reports, members, named_max_ttl: named })
}

async fn look(node: &dyn QuorumNode, place: String, member: Member) -> NodeReport {
    let fitness = node.fitness().await;
    let mut report =
        NodeReport { place, member, process: None, max_ttl: None, high: None, fitness };
    if let TaskReply::Look(look) = node.task(Task::Look).await {
        report.process = Some(look.process);
        report.max_ttl = look.current().map(|marker| marker.max_ttl);
        let high = node.task(Task::High { process: look.process }).await;
        if let TaskReply::High { high, .. } = high {
            report.high = Some(high);
        }
    }
    report
}

/// What came of setting nodes up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Founded {
    /// As a client sees them.
    pub members: Members,
    /// What the URL says has no effect, and what to do.
    pub warning: Option<String>,
}

/// Sets nodes up: a first start ([`Founding::Vouched`]: you say that nobody holds a lock), or a new
/// one after more nodes forgot than can be made up for ([`Founding::AfterLoss`]: that takes the
/// longest ttl). `progress` hears about once a second how it goes. Nodes that are set up stay as
/// they are.
///
/// `max_ttl` is the longest ttl that the nodes will grant; by default what the URL says, or 60 s. Nodes
/// that are set up with another one keep theirs.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a URL that is not understood, names no quorum, or one server in two
/// places; [`ErrorKind::Refused`] for a node that cannot take part until something is changed there, or
/// that is set up with another `max_ttl` than the one given here;
/// [`ErrorKind::Unavailable`] when fewer than a majority answer. At a first start
/// [`ErrorKind::Unavailable`] when any node does not answer, and [`ErrorKind::Refused`] when one has
/// voted before. No node has changed then.
pub async fn found(
    url: &str,
    max_ttl: Option<Duration>,
    founding: Founding,
    progress: impl FnMut(&Members),
) -> Result<Founded> {
    let founding = async {
        let (nodes, named) = nodes(url)?;
        if let Some(max_ttl) = max_ttl {
            quorum::refuse_other_max_ttl(&nodes, max_ttl, &Clock::system()).await?;
        }
        let max_ttl = max_ttl.or(named).unwrap_or(MAX_TTL);
        let members = quorum::found(nodes, max_ttl, founding, Clock::system(), progress).await?;
        let warning = members.other_max_ttl(named);
        Ok(Founded { members, warning })
    };
    founding.await.map_err(|error: Error| error.during("quorum init", None))
}

/// The nodes, and the longest ttl that the URL names.
type Nodes = (Vec<Arc<dyn QuorumNode>>, Option<Duration>);

fn nodes(url: &str) -> Result<Nodes> {
    let url = StoreUrl::parse(url)?;
    #[cfg(feature = "redis")]
    let mut url = url;
    #[cfg(feature = "redis")]
    if matches!(url.scheme(), "redis" | "redis+unix" | "rediss" | "redlock" | "redlocks")
        && let Some(quorum) = leasehold_redis::quorum(&mut url)?
    {
        return Ok((quorum.nodes, quorum.named_max_ttl));
    }
    Err(Error::new(
        ErrorKind::Invalid,
        format!(
            "{url} is no quorum; name several servers (redlock://one,two,three), or a single one with \
             ?admission=strict"
        ),
    ))
}
