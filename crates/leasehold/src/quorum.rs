//! Sets up and inspects the nodes of a quorum: `redlock:` stores, and single servers with
//! `?admission=strict`. The command `leasehold quorum` uses this module.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::proto::quorum::{MAX_TTL, ProcessId, Task, TaskReply};
use leasehold_core::{Error, ErrorKind, Result};
use leasehold_quorum::{self as quorum, QuorumNode};

use crate::connect::known;
use crate::store_url;

pub use leasehold_quorum::{Fitness, Founding, Member, Membership, Outlook};

/// The state of one node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeReport {
    /// The node's address.
    pub place: String,
    /// The node as a member of the quorum.
    pub member: Member,
    /// The id of the server process that answers there.
    pub process: Option<ProcessId>,
    /// The longest ttl that the node grants; `None` if it has not been set up.
    pub max_ttl: Option<Duration>,
    /// The largest token that the node knows; `None` if it may not vote.
    pub high: Option<u64>,
    /// Whether the node can vote, and warnings about it.
    pub fitness: Fitness,
}

/// The state of all nodes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The nodes in the order of the URL.
    pub nodes: Vec<NodeReport>,
    /// The quorum as a client sees it.
    pub members: Membership,
    /// The option `max-ttl` of the URL.
    pub named_max_ttl: Option<Duration>,
}

/// Reads the state of the nodes as every connecting client does. A node without a marker starts its
/// waiting period when it is read.
///
/// # Errors
/// [`ErrorKind::Invalid`] for an invalid URL, or one that does not name a quorum. A node that does
/// not answer is not an error.
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

/// The result of [`found`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Founded {
    /// The quorum as a client sees it.
    pub members: Membership,
    /// Warnings if the nodes keep another longest ttl than the argument or the URL names, or if
    /// their longest ttls differ. Each says what to do.
    pub warnings: Vec<String>,
}

/// Sets up the nodes of a quorum.
///
/// [`Founding::Vouched`] is a first start: you assert that no client holds a lock.
/// [`Founding::AfterLoss`] is a new start after more nodes have lost their data than the quorum
/// tolerates; it takes as long as the longest ttl. `progress` is called about once a second. Nodes
/// that are already set up do not change.
///
/// `max_ttl` is the longest ttl that the nodes will grant. Default: the option of the URL, or 60 s.
/// Nodes that are already set up keep their own; if they are a majority, the others get the same.
///
/// # Errors
/// [`ErrorKind::Invalid`] for an invalid URL, one that does not name a quorum, or one that names a
/// server twice. [`ErrorKind::Refused`] for a node that cannot vote until its settings are changed,
/// or that is set up with another `max_ttl` than this argument. [`ErrorKind::Unavailable`] if fewer
/// than a majority answer.
///
/// At a first start also [`ErrorKind::Unavailable`] if any node does not answer, and
/// [`ErrorKind::Refused`] if a node has voted before. No node has changed then.
pub async fn found(
    url: &str,
    max_ttl: Option<Duration>,
    founding: Founding,
    progress: impl FnMut(&Membership),
) -> Result<Founded> {
    let founding = async {
        let (nodes, named) = nodes(url)?;
        let clock = Clock::system();
        let members = match max_ttl {
            Some(exact) => quorum::found_exactly(nodes, exact, founding, clock, progress).await?,
            None => {
                let max_ttl = named.unwrap_or(MAX_TTL);
                quorum::found(nodes, max_ttl, founding, clock, progress).await?
            }
        };
        // A node may keep its own though nothing was refused: its marker was not current when it was asked.
        let other = members.other_max_ttl(max_ttl).or_else(|| members.other_max_ttl(named));
        let warnings = other.into_iter().chain(members.unequal_max_ttl()).collect();
        Ok(Founded { members, warnings })
    };
    founding.await.map_err(|error: Error| error.during("quorum init", None))
}

/// The nodes, and the option `max-ttl` of the URL.
type Nodes = (Vec<Arc<dyn QuorumNode>>, Option<Duration>);

fn nodes(url: &str) -> Result<Nodes> {
    let url = store_url::parse(url)?;
    known(url.scheme())?;
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
            "{url} is not a quorum; name several servers (redlock://one,two,three), or a single one with \
             ?admission=strict"
        ),
    ))
}
