//! Examines a cluster: slots that no node serves, masters without replicas, and each master.

use leasehold_core::doctor::Examined;
use leasehold_core::{ErrorKind, Result};
use redis::Client;

use super::patient::Patient;
use super::{Part, examine_server, failover, refused};
use crate::node::fitness::field;
use crate::topology::{Seeds, seen};

/// Fewer masters than this cannot agree on a failover.
const LEAST: usize = 3;

/// Examines the cluster, and each of its masters.
///
/// # Errors
/// `Unavailable` if no node answers.
pub(super) async fn examine(seeds: &Seeds, acknowledged: bool) -> Result<Examined> {
    let (masters, served) = match seen(seeds).await {
        Ok(seen) => seen,
        Err(error) => return refused(&seeds.place, error).map(|found| found.examined),
    };
    let mut all = Examined::at(&seeds.place);
    if let Err(error) = served {
        all.problem(
            "slots",
            error.message(),
            "locks whose names fall into these slots cannot be acquired",
            "assign the slots to nodes",
        );
    }
    if masters.len() < LEAST {
        all.warning(
            "few-masters",
            format!("{} masters serve slots", masters.len()),
            "most masters must agree on a failover; with fewer than three there is none",
            "spread the slots over three or more",
        );
    }
    failover(&mut all, acknowledged);
    let mut answers = None;
    for (place, client) in &masters {
        match examine_server(client, place, &seeds.prefix, Part::Cluster).await {
            Ok(found) => {
                if !found.is_silent {
                    answers.get_or_insert((place, client));
                }
                all.join(found.examined);
            }
            Err(error) => {
                let why = "locks whose names fall into its slots cannot be acquired until a replica is promoted";
                all.problem(
                    "master-silent",
                    format!("{place}: {}", error.message()),
                    why,
                    "start it",
                );
            }
        }
    }
    // A master that is silent would be waited for once more.
    if let Some((place, client)) = answers {
        all.join(state(place, client).await);
    } else if !masters.is_empty() {
        all.unseen("the state of the cluster", "no master answers");
    }
    Ok(all)
}

/// Adds what a node reports about the whole cluster.
async fn state(place: &str, client: &Client) -> Examined {
    let mut patient = match Patient::reach(client, place).await {
        Ok(patient) => patient,
        Err(error) => {
            let mut examined = Examined::at(place);
            if error.kind() == ErrorKind::Unavailable {
                examined.unseen("the state of the cluster", error.message());
            }
            return examined;
        }
    };
    let what = "the state of the cluster";
    let info = patient.see(what, &["CLUSTER", "INFO"], "+cluster|info").await;
    let info: Option<String> = info.and_then(|info| redis::from_redis_value(info).ok());
    if let Some(state) = info.as_deref().and_then(|info| field(info, "cluster_state"))
        && state != "ok"
    {
        patient.examined().problem(
            "cluster-state",
            format!("the cluster's state is {state}"),
            "with cluster-require-full-coverage, or without most of its masters, it serves nothing",
            "see CLUSTER NODES and CLUSTER INFO",
        );
    }
    patient.into_found().examined
}
