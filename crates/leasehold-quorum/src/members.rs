//! Which nodes may vote, as a client reports it, and how an operator sets nodes up.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Deadline;
use leasehold_proto::quorum::{Founding, Halt, Member, Outlook, majority};

use super::node::QuorumNode;
use super::steward::Steward;
use leasehold_core::clock::Clock;
use leasehold_core::{Error, ErrorKind, Result};

/// How long to wait for silent nodes when a quorum is set up.
const PATIENCE: Duration = Duration::from_secs(3);
/// How many times the longest ttl a set-up takes at most: one wait before a node votes, one for a
/// node that joins later, and one for nodes that lose their data meanwhile.
const WAITS: u32 = 3;
/// How often an operator gets a progress report.
const TICK: Duration = Duration::from_secs(1);

/// The nodes of a quorum as one client sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// The place of each node, and what is known of it.
    pub nodes: Vec<(String, Member)>,
    /// Whether locks can be acquired.
    pub outlook: Outlook,
    /// The longest ttl that a majority of the nodes grants; `None` if it is not known.
    pub max_ttl: Option<Duration>,
    /// The longest ttl that each node grants, as far as it is known.
    pub(super) grants: Vec<Option<Duration>>,
    /// The key of a node's marker.
    pub(super) marker_key: String,
}

impl Members {
    /// Returns what an operator should know or do; `None` while locks can be acquired.
    pub fn advice(&self) -> Option<String> {
        advice(self.outlook)
    }

    /// Returns a warning if these nodes grant another longest ttl than `asked`.
    pub fn other_max_ttl(&self, asked: Option<Duration>) -> Option<String> {
        other_max_ttl(asked, self.max_ttl, &self.marker_key)
    }

    /// Returns a warning that names the nodes that vote with another longest ttl than the majority.
    pub fn unequal_max_ttl(&self) -> Option<String> {
        let majority_grants = self.max_ttl?;
        let votes = self.nodes.iter().zip(&self.grants).filter_map(|((place, member), grants)| {
            Some((place, (*grants)?)).filter(|_| matches!(member, Member::Admitted(_)))
        });
        let (others, agreeing): (Vec<_>, Vec<_>) =
            votes.partition(|(_, grants)| *grants != majority_grants);
        let longest = others.iter().map(|(_, grants)| *grants).max()?.max(majority_grants);
        let names: Vec<String> = others
            .iter()
            .map(|(place, grants)| format!("node {place} grants {grants:?}"))
            .collect();
        let key = &self.marker_key;
        let change = if agreeing.len() >= majority(self.nodes.len()) {
            format!(
                "delete the key {key} there while the other nodes vote, and run `leasehold quorum init \
                 --max-ttl {majority_grants:?}`: it gives them the longest ttl of the others"
            )
        } else {
            change_max_ttl(longest, key)
        };
        Some(format!(
            "the nodes grant different longest ttls: a majority grants at least {majority_grants:?}, but {}; {change}",
            names.join(", ")
        ))
    }

    /// Describes the state of a node: `h3:6379 does not answer`.
    pub fn describe(&self, node: usize) -> String {
        let Some((place, member)) = self.nodes.get(node) else { return String::new() };
        let twin =
            |of: usize| self.nodes.get(of).map(|(place, _)| place.clone()).unwrap_or_default();
        format!("{place} {}", describe(*member, twin))
    }

    fn count(&self, is: impl Fn(Member) -> bool) -> usize {
        self.nodes.iter().filter(|(_, member)| is(*member)).count()
    }

    /// Fails if the same server is listed twice.
    pub(super) fn refuse_twins(&self) -> Result<()> {
        let is_twin = |(_, member): &(String, Member)| matches!(member, Member::Twin(_));
        match self.nodes.iter().position(is_twin) {
            None => Ok(()),
            Some(node) => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{}: a quorum needs independent servers, each listed once",
                    self.describe(node)
                ),
            )),
        }
    }

    /// Fails if fewer than a majority answer.
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

/// Describes the state of a node as the rest of a sentence; `twin` names another node.
pub(super) fn describe(member: Member, twin: impl Fn(usize) -> String) -> String {
    match member {
        Member::Unknown => "does not answer".into(),
        Member::Admitted(_) => "may vote".into(),
        Member::Waiting(Duration::ZERO) => {
            "may have lost leases, and cannot vote until enough other nodes can".into()
        }
        Member::Waiting(left) => {
            format!(
                "may have lost leases, and cannot vote until a client has run for another {} s",
                whole_seconds(left)
            )
        }
        Member::Twin(of) => format!("is the same server as {}", twin(of)),
    }
}

/// Returns what an operator should know or do; `None` while locks can be acquired.
pub(super) fn advice(outlook: Outlook) -> Option<String> {
    match outlook {
        Outlook::Open => None,
        Outlook::Later(left) => Some(format!(
            "a majority can vote once a client has run for another {} s; each client counts for itself, so \
             commands that do not wait (`leasehold run -n`) alone never complete the wait: keep one client \
             waiting that long, or run `leasehold quorum init` (if clients may hold locks: `leasehold quorum \
             init --after-loss`)",
            whole_seconds(left)
        )),
        Outlook::Unreachable => Some("too few nodes answer".into()),
        Outlook::NotSetUp => Some(
            "not set up yet: run `leasehold quorum init` (if the nodes have lost their data: \
             `leasehold quorum init --after-loss`)"
                .into(),
        ),
        Outlook::Forgotten => Some(
            "too many nodes have no marker, so the highest token is unknown; at a first start run \
             `leasehold quorum init`, after a loss of data `leasehold quorum init --after-loss`"
                .into(),
        ),
    }
}

/// Explains how to change the longest ttl of nodes that are set up.
pub(super) fn change_max_ttl(from: Duration, marker_key: &str) -> String {
    format!(
        "to change it, stop all clients, wait {from:?} until no lease is left, delete the key \
         {marker_key} at each node, and run `leasehold quorum init --after-loss --max-ttl TIME`"
    )
}

/// Returns a warning if the nodes grant another longest ttl than `asked`.
fn other_max_ttl(
    asked: Option<Duration>,
    nodes: Option<Duration>,
    marker_key: &str,
) -> Option<String> {
    let (asked, nodes) = (asked?, nodes?);
    (asked != nodes).then(|| {
        format!(
            "max-ttl={asked:?} has no effect: the nodes grant {nodes:?}; {}",
            change_max_ttl(nodes, marker_key)
        )
    })
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_millis().div_ceil(1000) as u64
}

/// Asks the nodes as every client does when it connects, and returns their state. A node without a
/// marker begins to wait by this.
pub async fn members(nodes: Vec<Arc<dyn QuorumNode>>, max_ttl: Duration, clock: Clock) -> Members {
    let mut steward = Steward::new(nodes, max_ttl, None, clock.clone());
    steward.settle().await;
    steward.members(clock.now())
}

/// Sets nodes up: at a first start, or again after too much data was lost.
///
/// `max_ttl` is the longest ttl that they will grant, and how long a node that may have lost leases
/// cannot vote. With [`Founding::AfterLoss`], nodes wait that long first. `progress` gets a report
/// about once a second. If a majority votes already, those nodes do not change, and the others wait
/// until they may join, for any `founding`. If they vote with one longest ttl, the others get it too: a marker
/// that waits with another is replaced, and that node waits anew.
///
/// Returns when each node votes or does not answer, and at the latest after three times the longest
/// ttl and 3 s. A node that keeps losing its data still waits then: it joins with a client that
/// lives longer than the longest ttl.
///
/// Every node is asked about its past before anything is written to any node.
///
/// # Errors
/// [`ErrorKind::Invalid`] for one server in two places; [`ErrorKind::Refused`] for a node that
/// cannot take part until its settings change. With [`Founding::Vouched`]:
/// [`ErrorKind::Unavailable`] if any node does not answer, and [`ErrorKind::Refused`] if a node has
/// voted before, since that is not a first start. With [`Founding::AfterLoss`]:
/// [`ErrorKind::Unavailable`] if fewer than a majority answer, or if another operator sets the nodes up with
/// another longest ttl until the time limit. After the errors of the first answers no
/// node votes that did not vote before. If a node changes between its answer and its admission, or
/// stops answering, some nodes may wait or vote already; repeat the call.
pub async fn found(
    nodes: Vec<Arc<dyn QuorumNode>>,
    max_ttl: Duration,
    founding: Founding,
    clock: Clock,
    progress: impl FnMut(&Members),
) -> Result<Members> {
    super::connect::look_at_fitness(&nodes, &clock, None).await?;
    let steward = Steward::new(nodes, max_ttl, Some(founding), clock.clone());
    run(steward, max_ttl, clock, progress).await
}

/// Does what [`found`] does, and refuses where a node that answers keeps another longest ttl than `max_ttl`: a
/// node that votes, and after a loss a node that waits too.
///
/// # Errors
/// Those of [`found`], and [`ErrorKind::Refused`] with the procedure for another longest ttl. No node votes
/// then that did not vote before. A node that another operator sets up between its answer and its admission
/// may keep another longest ttl, and so may one that did not answer or starts again after a loss: see
/// [`Members::unequal_max_ttl`].
pub async fn found_exactly(
    nodes: Vec<Arc<dyn QuorumNode>>,
    max_ttl: Duration,
    founding: Founding,
    clock: Clock,
    progress: impl FnMut(&Members),
) -> Result<Members> {
    super::connect::look_at_fitness(&nodes, &clock, None).await?;
    let mut steward = Steward::new(nodes, max_ttl, Some(founding), clock.clone());
    steward.refuse_other_max_ttl();
    run(steward, max_ttl, clock, progress).await
}

async fn run(
    mut steward: Steward,
    max_ttl: Duration,
    clock: Clock,
    mut progress: impl FnMut(&Members),
) -> Result<Members> {
    steward.settle().await;
    let started = clock.now();
    let patience = Deadline::after(started, PATIENCE);
    let mut told = Deadline::after(clock.now(), Duration::ZERO);
    loop {
        if let Some(halt) = steward.halt() {
            return Err(halted(&steward, max_ttl, halt));
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
        let longest = members.max_ttl.map_or(max_ttl, |set| set.max(max_ttl));
        let limit = Deadline::after(started, longest * WAITS + PATIENCE);
        let is_settled = waiting == 0 && (silent == 0 || patience.has_passed(now));
        if is_settled || limit.has_passed(now) {
            members.refuse_unreachable()?;
            return match steward.rival() {
                Some(other) if matches!(members.outlook, Outlook::Later(_)) => {
                    Err(rivalry(max_ttl, other))
                }
                _ => Ok(members),
            };
        }
        steward.step(TICK).await;
    }
}

/// The error if two operators with different values hinder each other until the time limit.
fn rivalry(max_ttl: Duration, other: Duration) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "another `leasehold quorum init`, or a client with another max-ttl, sets up the same nodes with a longest ttl of {other:?}, \
             not {max_ttl:?}: each replaces the markers of the other, and too few nodes vote; agree on one value, wait until \
             the other command has ended, and run `leasehold quorum init --after-loss --max-ttl TIME` once"
        ),
    )
}

/// The error if nodes cannot be set up, with what to do.
fn halted(steward: &Steward, max_ttl: Duration, halt: Halt) -> Error {
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
                "this is not a first start: node {} has voted before, so leases may exist; run `leasehold \
                 quorum init --after-loss`, which waits until no lease is left; nothing was changed",
                steward.place(node)
            ),
        ),
        Halt::Twin(node, of) => (
            ErrorKind::Invalid,
            format!(
                "{} is the same server as {}: a quorum needs independent servers, each listed \
                 once",
                steward.place(node),
                steward.place(of)
            ),
        ),
        Halt::OtherMaxTtl(node, kept) => (
            ErrorKind::Refused,
            format!(
                "node {} is set up with {kept:?} and keeps that, not {max_ttl:?}; {}; nothing was changed",
                steward.place(node),
                change_max_ttl(kept, &steward.marker_key())
            ),
        ),
        Halt::Changed(node) => (
            ErrorKind::Unavailable,
            format!(
                "node {} stopped answering or changed during `leasehold quorum init`; no further \
                 node votes; run it again",
                steward.place(node)
            ),
        ),
    };
    Error::new(kind, message)
}
