//! What can hurt a quorum of independent servers beside what hurts each of them.

use std::time::Duration;

use leasehold_core::Result;
use leasehold_core::doctor::Examined;
use redis::ConnectionAddr;

use super::patient::{Found, Patient};
use super::{Part, examine_server};
use crate::address::Address;
use crate::key::Keys;
use crate::node::marker;

/// How long one node is waited for, unless the URL says otherwise: with the default ttl.
const NODE_LIMIT: Duration = Duration::from_millis(50);

/// Looks at each node, and at what they are together.
///
/// # Errors
/// `Unavailable` when none answers.
pub(super) async fn examine(addresses: &[Address], limit: Option<Duration>) -> Result<Examined> {
    let looks = addresses.iter().map(|address| look(address, limit.unwrap_or(NODE_LIMIT)));
    let nodes = futures_util::future::join_all(looks).await;
    let mut all = Examined::at(match addresses {
        [one] => one.place.clone(),
        many => format!("{} nodes", many.len()),
    });
    if let (0, Some(Err(error))) = (nodes.iter().flatten().count(), nodes.first()) {
        return Err(error.clone());
    }
    let mut seen = Vec::new();
    for (address, node) in addresses.iter().zip(nodes) {
        match node {
            Ok(node) => {
                all.join(node.found.examined.clone());
                seen.push((address, node));
            }
            Err(error) => {
                let mut silent = Examined::at(&address.place);
                silent.warning(
                    "silent-node",
                    error.message(),
                    "without it a majority of all nodes must still answer",
                    "start it, or see why it cannot be reached",
                );
                all.join(silent);
            }
        }
    }
    if addresses.len() > 1 {
        look_at_number(&mut all, addresses.len(), seen.len());
        look_at_places(&mut all, addresses);
        look_at_versions(&mut all, &seen);
    }
    look_at_twins(&mut all, &seen);
    look_at_markers(&mut all, &seen, addresses.len());
    Ok(all)
}

struct Node {
    found: Found,
    vote: Vote,
}

/// What a node's marker says.
enum Vote {
    /// It may vote, and grants up to this ttl.
    Admitted(Duration),
    /// It is out, since it has none, one of another process, or one that is not yet confirmed.
    Out,
    /// The marker could not be read.
    Unseen,
}

async fn look(address: &Address, limit: Duration) -> Result<Node> {
    let mut found =
        examine_server(&address.client, &address.place, &address.prefix, Part::Node).await?;
    if let Some(trip) = found.round_trip.filter(|&trip| trip * 2 > limit) {
        found.examined.warning(
            "node-limit",
            format!("an answer takes {trip:.1?}, and a node is waited for {limit:?}"),
            "an answer that comes later does not count, so that the node is as good as down",
            "set node-limit in the URL to several times of that",
        );
    }
    let vote = vote(address, &mut found).await;
    Ok(Node { found, vote })
}

async fn vote(address: &Address, found: &mut Found) -> Vote {
    let key = Keys::new(&address.prefix).node();
    let asked = match Patient::reach(&address.client, &address.place).await {
        Ok(mut patient) => {
            let asked = patient.see("whether the node may vote", &["GET", &key], "+get").await;
            found.examined.join(patient.into_found().examined);
            asked
        }
        Err(_) => None,
    };
    let (Some(answer), Some(run_id)) = (asked, &found.run_id) else { return Vote::Unseen };
    let record: Option<String> = redis::from_redis_value(answer).ok();
    match record.as_deref().and_then(marker) {
        Some(marker) if marker.admitted && marker.process.to_string() == *run_id => {
            Vote::Admitted(marker.max_ttl)
        }
        _ => Vote::Out,
    }
}

fn look_at_number(all: &mut Examined, nodes: usize, answer: usize) {
    let majority = nodes / 2 + 1;
    if answer < majority {
        all.problem(
            "no-majority",
            format!("{answer} of {nodes} nodes answer"),
            format!("a lock needs {majority} of them"),
            "start the others",
        );
    }
    if nodes < 3 {
        all.warning(
            "few-nodes",
            format!("there are {nodes} nodes"),
            "both must answer for each lock, so that it is had less often than from one server alone",
            "use three or five nodes",
        );
    } else if nodes.is_multiple_of(2) {
        all.note(
            "even-number",
            format!("there are {nodes} nodes"),
            format!("as many may fail as with {}, and one more must answer", nodes - 1),
            "use an odd number of nodes",
        );
    }
}

fn look_at_places(all: &mut Examined, addresses: &[Address]) {
    let host = |address: &Address| match address.client.get_connection_info().addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.to_lowercase(),
        other => other.to_string(),
    };
    let hosts: Vec<String> = addresses.iter().map(host).collect();
    let most = hosts.iter().map(|one| hosts.iter().filter(|other| *other == one).count()).max();
    if let Some(most) = most.filter(|&most| most > 1) {
        let (kind, nodes) = (most > (hosts.len() - 1) / 2, hosts.len());
        let what = format!("{most} of {nodes} nodes are on one host");
        let why = match kind {
            true => "when that host fails there is no majority: it is no better than one server",
            false => "they fail together, so that fewer others may",
        };
        all.warning("one-host", what, why, "give each node a machine of its own");
    }
}

fn look_at_versions(all: &mut Examined, seen: &[(&Address, Node)]) {
    let mut versions: Vec<&str> =
        seen.iter().filter_map(|(_, node)| node.found.version.as_deref()).collect();
    versions.sort_unstable();
    versions.dedup();
    if versions.len() > 1 {
        all.note(
            "versions",
            format!("the nodes run different versions: {}", versions.join(", ")),
            "they behave alike as far as locks are concerned, but not in what each can be set to",
            "finish the upgrade",
        );
    }
}

fn look_at_twins(all: &mut Examined, seen: &[(&Address, Node)]) {
    for (at, (address, node)) in seen.iter().enumerate() {
        let Some(run_id) = &node.found.run_id else { continue };
        let twin = seen[..at].iter().find(|(_, other)| other.found.run_id.as_ref() == Some(run_id));
        if let Some((first, _)) = twin {
            all.problem(
                "twin",
                format!("{} and {} are the same server", first.place, address.place),
                "its vote would count twice, and clients refuse it",
                "name each server once",
            );
        }
    }
}

fn look_at_markers(all: &mut Examined, seen: &[(&Address, Node)], nodes: usize) {
    let majority = nodes / 2 + 1;
    let unseen = seen.iter().filter(|(_, node)| matches!(node.vote, Vote::Unseen)).count();
    let out: Vec<&str> = seen
        .iter()
        .filter(|(_, node)| matches!(node.vote, Vote::Out))
        .map(|(address, _)| address.place.as_str())
        .collect();
    let votes = seen.len() - out.len() - unseen;
    if !out.is_empty() && votes + unseen < majority {
        all.problem(
            "no-votes",
            format!("{votes} of {nodes} nodes may vote; not {}", out.join(", ")),
            "a lock needs a majority of nodes that have forgotten nothing",
            "`leasehold quorum status` says whether waiting helps; else `leasehold quorum init`, with \
             --after-loss when they have been set up before",
        );
    } else if !out.is_empty() {
        all.warning(
            "node-out",
            format!("{} may not vote", out.join(", ")),
            "it may have forgotten leases, and stays out until they are over",
            "nothing: it comes back by itself while a client lives",
        );
    }
    let granted = |node: &Node| match node.vote {
        Vote::Admitted(max_ttl) => Some(max_ttl),
        Vote::Out | Vote::Unseen => None,
    };
    let mut ttls: Vec<Duration> = seen.iter().filter_map(|(_, node)| granted(node)).collect();
    ttls.sort();
    if let (Some(least), Some(most)) = (ttls.first(), ttls.last())
        && least != most
    {
        all.warning(
            "max-ttl",
            format!("the nodes were set up with different max-ttl: {least:?} to {most:?}"),
            "a ttl that some nodes refuse has fewer votes than it could",
            "stop all clients, remove the markers (docs/quorum.md), and set up anew",
        );
    }
}
