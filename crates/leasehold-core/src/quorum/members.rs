//! Which nodes may vote: what a client says of it, and what an operator does about it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_proto::Deadline;
use leasehold_proto::quorum::{Founding, Halt, Member, Outlook, Task, TaskReply, majority};

use super::node::QuorumNode;
use super::steward::Steward;
use crate::clock::Clock;
use crate::{Error, ErrorKind, Result};

/// How long nodes that do not answer are waited for when a quorum is founded.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often an operator hears how it goes.
const TICK: Duration = Duration::from_secs(1);

/// The nodes of a quorum as one client sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// Where each is, and what is known of it.
    pub nodes: Vec<(String, Member)>,
    /// Whether locks can be had.
    pub outlook: Outlook,
    /// The longest ttl that a majority of the nodes grants; `None` where that is not known.
    pub max_ttl: Option<Duration>,
}

impl Members {
    /// What a person should know, or do; `None` while locks can be had.
    pub fn advice(&self) -> Option<String> {
        advice(self.outlook)
    }

    /// A warning where these nodes grant another longest ttl than was asked for.
    pub fn other_max_ttl(&self, asked: Option<Duration>) -> Option<String> {
        other_max_ttl(asked, self.max_ttl)
    }

    /// What is known of a node, in words: `h3:6379 does not answer`.
    pub fn describe(&self, node: usize) -> String {
        let Some((place, member)) = self.nodes.get(node) else { return String::new() };
        let twin =
            |of: usize| self.nodes.get(of).map(|(place, _)| place.clone()).unwrap_or_default();
        format!("{place} {}", describe(*member, twin))
    }

    fn count(&self, is: impl Fn(Member) -> bool) -> usize {
        self.nodes.iter().filter(|(_, member)| is(*member)).count()
    }

    /// The same server in two places is an error.
    pub(super) fn refuse_twins(&self) -> Result<()> {
        let is_twin = |(_, member): &(String, Member)| matches!(member, Member::Twin(_));
        match self.nodes.iter().position(is_twin) {
            None => Ok(()),
            Some(node) => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{}: a quorum is made of independent servers, each listed once",
                    self.describe(node)
                ),
            )),
        }
    }

    /// An error when so few answer that there is no majority.
    pub(super) fn refuse_unreachable(&self) -> Result<()> {
        let answered = self.count(|member| member != Member::Unknown);
        let (all, enough) = (self.nodes.len(), majority(self.nodes.len()));
        if answered >= enough {
            return Ok(());
        }
        let silent = (0..all).filter(|node| self.nodes[*node].1 == Member::Unknown);
        let silent: Vec<String> = silent.map(|node| self.describe(node)).collect();
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("{answered} of {all} nodes answer, {enough} must: {}", silent.join(", ")),
        ))
    }
}

/// What is known of a node, as the rest of a sentence; `twin` names another node.
pub(super) fn describe(member: Member, twin: impl Fn(usize) -> String) -> String {
    match member {
        Member::Unknown => "does not answer".into(),
        Member::Admitted(_) => "may vote".into(),
        Member::Waiting(Duration::ZERO) => {
            "may have forgotten leases, and has no vote until enough others have".into()
        }
        Member::Waiting(left) => format!(
            "may have forgotten leases, and has no vote for another {} s",
            whole_seconds(left)
        ),
        Member::Twin(of) => format!("is the same server as {}", twin(of)),
    }
}

/// What a person should know, or do; `None` while locks can be had.
pub(super) fn advice(outlook: Outlook) -> Option<String> {
    match outlook {
        Outlook::Open => None,
        Outlook::Later(left) => Some(format!(
            "a majority may vote in {} s, without anybody doing anything",
            whole_seconds(left)
        )),
        Outlook::Unreachable => Some("too few nodes answer".into()),
        Outlook::NotSetUp => Some(
            "not set up yet: run `leasehold quorum init` (if the nodes have lost their data: \
             `leasehold quorum init --after-loss`)"
                .into(),
        ),
        Outlook::Forgotten => Some(
            "so many nodes have no marker that nobody knows how high tokens have grown; at their \
             first start run `leasehold quorum init`, after a loss of data `leasehold quorum init \
             --after-loss`"
                .into(),
        ),
    }
}

/// How nodes get another longest ttl than the one that they were set up with.
pub(super) fn change_max_ttl(from: Duration) -> String {
    format!(
        "to change that stop all clients, wait {from:?} until no lease is left, delete the key \
         leasehold:node at each node, and run `leasehold quorum init --after-loss --max-ttl TIME`"
    )
}

/// A warning where the nodes grant another longest ttl than was asked for.
pub(super) fn other_max_ttl(asked: Option<Duration>, nodes: Option<Duration>) -> Option<String> {
    let (asked, nodes) = (asked?, nodes?);
    (asked != nodes).then(|| {
        format!(
            "max-ttl={asked:?} has no effect: the nodes grant {nodes:?}; {}",
            change_max_ttl(nodes)
        )
    })
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_millis().div_ceil(1000) as u64
}

/// Looks at the nodes as every client does when it connects, and says what it sees. A node that
/// has no marker begins to wait by that.
pub async fn members(nodes: Vec<Arc<dyn QuorumNode>>, max_ttl: Duration, clock: Clock) -> Members {
    let mut steward = Steward::new(nodes, max_ttl, None, clock.clone());
    steward.settle().await;
    steward.members(clock.now())
}

/// Refuses to set nodes up with a longest ttl where one keeps another.
///
/// # Errors
/// [`ErrorKind::Refused`], with what to do.
pub async fn refuse_other_max_ttl(
    nodes: &[Arc<dyn QuorumNode>],
    max_ttl: Duration,
    clock: &Clock,
) -> Result<()> {
    let until = Deadline::after(clock.now(), PATIENCE);
    let looks = nodes.iter().map(|node| clock.within(Some(until), node.task(Task::Look)));
    for (node, look) in nodes.iter().zip(join_all(looks).await) {
        let Some(TaskReply::Look(look)) = look else { continue };
        if let Some(marker) = look.current().filter(|marker| marker.max_ttl != max_ttl) {
            return Err(Error::new(
                ErrorKind::Refused,
                format!(
                    "node {} is set up with {:?} and keeps that, not {max_ttl:?}; {}",
                    node.place(),
                    marker.max_ttl,
                    change_max_ttl(marker.max_ttl)
                ),
            ));
        }
    }
    Ok(())
}

/// Sets nodes up: a first start, or a new one after more was lost than can be made up for.
///
/// `max_ttl` is the longest ttl that they will grant, and how long a node stays out that may have
/// forgotten. With [`Founding::AfterLoss`] that long is waited first; `progress` hears about once a
/// second how it goes. Where a majority votes already, those nodes stay as they are, and the others
/// wait until they may join, whatever `founding` says. Ends when each node votes, or does not answer.
///
/// Every node is asked about its past before anything is written to any of them.
///
/// # Errors
/// [`ErrorKind::Invalid`] for one server in two places; [`ErrorKind::Refused`] for a node that
/// cannot take part until something is changed there. With [`Founding::Vouched`]
/// [`ErrorKind::Unavailable`] when any node does not answer, and [`ErrorKind::Refused`] when a node
/// has voted before: that is no first start. With [`Founding::AfterLoss`]
/// [`ErrorKind::Unavailable`] when fewer than a majority answer. No node has changed then, and no
/// node votes that did not before.
pub async fn found(
    nodes: Vec<Arc<dyn QuorumNode>>,
    max_ttl: Duration,
    founding: Founding,
    clock: Clock,
    mut progress: impl FnMut(&Members),
) -> Result<Members> {
    super::connect::look_at_fitness(&nodes, &clock, None).await?;
    let mut steward = Steward::new(nodes, max_ttl, Some(founding), clock.clone());
    steward.settle().await;
    let patience = Deadline::after(clock.now(), PATIENCE);
    let mut told = Deadline::after(clock.now(), Duration::ZERO);
    loop {
        if let Some(halt) = steward.halt() {
            return Err(halted(&steward, halt));
        }
        let now = clock.now();
        let members = steward.members(now);
        members.refuse_twins()?;
        if told.has_passed(now) {
            progress(&members);
            told = Deadline::after(now, TICK);
        }
        let waiting = members.count(|member| matches!(member, Member::Waiting(_)));
        let silent = members.count(|member| member == Member::Unknown);
        if waiting == 0 && (silent == 0 || patience.has_passed(now)) {
            members.refuse_unreachable()?;
            return Ok(members);
        }
        steward.step(TICK).await;
    }
}

/// Why nodes cannot be set up, and what to do.
fn halted(steward: &Steward, halt: Halt) -> Error {
    let silent: Vec<String> = steward
        .silent()
        .map(|node| {
            let trouble = steward.trouble(node).unwrap_or_else(|| "does not answer".into());
            format!("{} {trouble}", steward.place(node))
        })
        .collect();
    let silent = silent.join(", ");
    let (kind, message) = match halt {
        Halt::Silent => (
            ErrorKind::Unavailable,
            format!(
                "a first start needs an answer of every node, since a silent one may hold leases: \
                 {silent}; start it and run `leasehold quorum init` again, or run `leasehold quorum \
                 init --after-loss`, which waits until no lease is left; nothing was changed"
            ),
        ),
        Halt::TooFew => {
            let (all, answer) = (steward.len(), steward.len() - steward.silent().count());
            (
                ErrorKind::Unavailable,
                format!(
                    "{answer} of {all} nodes answer, {} must: {silent}; nothing was changed",
                    majority(all)
                ),
            )
        }
        Halt::Voted(node) => (
            ErrorKind::Refused,
            format!(
                "this is no first start: node {} has voted before, so that leases may be left; run \
                 `leasehold quorum init --after-loss`, which waits until none is; nothing was changed",
                steward.place(node)
            ),
        ),
        Halt::Twin(node, of) => (
            ErrorKind::Invalid,
            format!(
                "{} is the same server as {}: a quorum is made of independent servers, each listed \
                 once",
                steward.place(node),
                steward.place(of)
            ),
        ),
        Halt::Changed(node) => (
            ErrorKind::Unavailable,
            format!(
                "node {} stopped answering or was changed during `leasehold quorum init`; no further \
                 node votes; run it again",
                steward.place(node)
            ),
        ),
    };
    Error::new(kind, message)
}
