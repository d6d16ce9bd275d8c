//! Checks what can hurt a quorum of independent servers, besides what hurts each server.

use std::time::Duration;

use leasehold_core::Result;
use leasehold_core::doctor::Diagnosis;
use redis::ConnectionAddr;

use super::probe::{Found, Probe};
use super::{Part, diagnose_server};
use crate::address::Address;
use crate::key::Keys;
use crate::node::marker;

/// How long a client waits for one node, unless the URL says otherwise: with the default ttl.
const NODE_LIMIT: Duration = Duration::from_millis(50);

/// Checks each node, and the nodes together. Without admission, as other libraries have them, they have no markers.
///
/// # Errors
/// `Unavailable` if no node answers.
pub(super) async fn diagnose(
    addresses: &[Address],
    limit: Option<Duration>,
    admission: bool,
) -> Result<Diagnosis> {
    let part = if admission { Part::Node } else { Part::Shared };
    let looks = addresses.iter().map(|address| look(address, limit.unwrap_or(NODE_LIMIT), part));
    let nodes = futures_util::future::join_all(looks).await;
    let mut all = Diagnosis::at(match addresses {
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
                all.join(node.found.diagnosis.clone());
                seen.push((address, node));
            }
            Err(error) => {
                let mut silent = Diagnosis::at(&address.place);
                silent.warning(
                    "silent-node",
                    error.message(),
                    "without it a majority of all nodes must still answer",
                    "start it, or find out why it cannot be reached",
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
    match admission {
        true => look_at_markers(&mut all, &seen, addresses.len()),
        false => all.note(
            "no-admission",
            "a server that has lost its locks grants them again at once",
            "with wire=set-nx nothing keeps it from voting until the lost leases are over, since other libraries would not",
            "start it again only after the longest ttl of all programs, or store each write (appendonly yes, appendfsync \
             always)",
        ),
    }
    Ok(all)
}

struct Node {
    found: Found,
    vote: Vote,
}

/// The state of a node by its marker.
enum Vote {
    /// It may vote, and grants up to this ttl.
    Admitted(Duration),
    /// It may not vote: it has no marker, a marker of another process, or an unconfirmed marker.
    Out,
    /// The marker could not be read.
    Unseen,
}

async fn look(address: &Address, limit: Duration, part: Part) -> Result<Node> {
    let mut found = diagnose_server(&address.client, &address.place, &address.prefix, part).await?;
    if let Some(trip) = found.round_trip.filter(|&trip| trip * 2 > limit) {
        found.diagnosis.warning(
            "node-limit",
            format!("an answer takes {trip:.1?}, and a client waits {limit:?} for a node"),
            "later answers do not count, as if the node were down",
            "set node-limit in the URL to several times that",
        );
    }
    let vote = match part {
        Part::Node => vote(address, &mut found).await,
        _ => Vote::Unseen,
    };
    Ok(Node { found, vote })
}

async fn vote(address: &Address, found: &mut Found) -> Vote {
    if found.is_silent {
        found.diagnosis.unseen("whether the node may vote", "the server did not answer");
        return Vote::Unseen;
    }
    let key = Keys::new(&address.prefix).node();
    let asked = match Probe::reach(&address.client, &address.place).await {
        Ok(mut probe) => {
            let asked = probe.see("whether the node may vote", &["GET", &key], "+get").await;
            found.diagnosis.join(probe.into_found().diagnosis);
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

fn look_at_number(all: &mut Diagnosis, nodes: usize, answer: usize) {
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
            "both must answer for each lock, so locks are less available than with one server",
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

fn look_at_places(all: &mut Diagnosis, addresses: &[Address]) {
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
            true => "if that host fails there is no majority: it is no better than one server",
            false => "they fail together, so fewer others may fail",
        };
        all.warning("one-host", what, why, "run each node on a separate machine");
    }
}

fn look_at_versions(all: &mut Diagnosis, seen: &[(&Address, Node)]) {
    let mut versions: Vec<&str> =
        seen.iter().filter_map(|(_, node)| node.found.version.as_deref()).collect();
    versions.sort_unstable();
    versions.dedup();
    if versions.len() > 1 {
        all.note(
            "versions",
            format!("the nodes run different versions: {}", versions.join(", ")),
            "they handle locks in the same way, but have different settings",
            "finish the upgrade",
        );
    }
}

fn look_at_twins(all: &mut Diagnosis, seen: &[(&Address, Node)]) {
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

fn look_at_markers(all: &mut Diagnosis, seen: &[(&Address, Node)], nodes: usize) {
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
            "a lock needs a majority of nodes that have lost no data",
            match nodes {
                1 => {
                    "keep one client waiting for max-ttl (commands that do not wait, `leasehold run -n`, alone never \
                     complete the wait), or run `leasehold quorum init`, with --after-loss if clients may hold locks"
                }
                _ => {
                    "run `leasehold quorum init`, with --after-loss if they were set up before"
                }
            },
        );
    } else if !out.is_empty() {
        all.warning(
            "node-out",
            format!("{} may not vote", out.join(", ")),
            "it may have lost leases, and cannot vote until those have expired",
            "keep one client running for max-ttl; with short commands alone, run `leasehold quorum init`",
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
            "a ttl that some nodes refuse gets fewer votes",
            "stop all clients, remove the markers (docs/quorum.md), and set the nodes up again",
        );
    }
}
