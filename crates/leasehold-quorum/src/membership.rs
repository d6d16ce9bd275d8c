//! Which nodes may vote, as a client reports it.

use std::time::Duration;

use leasehold_proto::quorum::{Member, Outlook, majority};

use leasehold_core::{Error, ErrorKind, Result};

/// The nodes of a quorum as one client sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Membership {
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

impl Membership {
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

    /// Describes the state of a node, as in `h3:6379 does not answer`.
    pub fn describe(&self, node: usize) -> String {
        let Some((place, member)) = self.nodes.get(node) else { return String::new() };
        let twin =
            |of: usize| self.nodes.get(of).map(|(place, _)| place.clone()).unwrap_or_default();
        format!("{place} {}", describe(*member, twin))
    }

    pub(super) fn count(&self, is: impl Fn(Member) -> bool) -> usize {
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
            "a majority can vote when one client has run for another {} s; each client counts its \
             own time, so commands that do not wait (`leasehold run -n`) alone never complete the \
             wait: keep one client waiting that long, or run `leasehold quorum init` (if clients \
             may hold locks: `leasehold quorum init --after-loss`)",
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
