//! Checks a cluster: slots that no node serves, masters without replicas, and each master.

use leasehold_core::doctor::Diagnosis;
use leasehold_core::{ErrorKind, Result};
use redis::Client;

use super::probe::{Found, Probe};
use super::{Part, diagnose_server, failover, refused};
use crate::node::fitness::field;
use crate::source::Seeds;
use crate::topology::seen;

/// Fewer masters than this cannot agree on a failover.
const LEAST: usize = 3;

/// Checks the cluster, and each of its masters.
///
/// # Errors
/// `Unavailable` if no node answers.
pub(super) async fn diagnose(seeds: &Seeds, acknowledged: bool) -> Result<Diagnosis> {
    let (masters, served) = match seen(seeds).await {
        Ok(seen) => seen,
        Err(error) => return refused(&seeds.place, error).map(|found| found.diagnosis),
    };
    let mut all = Diagnosis::at(&seeds.place);
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
    for ((place, client), diagnosis) in masters.iter().zip(each(&masters, &seeds.prefix).await) {
        match diagnosis {
            Ok(found) => {
                if !found.is_silent {
                    answers.get_or_insert((place, client));
                }
                all.join(found.diagnosis);
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

/// Checks each master, all at once: the silent ones are waited for together.
async fn each(masters: &[(String, Client)], prefix: &str) -> Vec<Result<Found>> {
    let diagnosing =
        masters.iter().map(|(place, client)| diagnose_server(client, place, prefix, Part::Cluster));
    futures_util::future::join_all(diagnosing).await
}

/// Adds what a node reports about the whole cluster.
async fn state(place: &str, client: &Client) -> Diagnosis {
    let mut probe = match Probe::reach(client, place).await {
        Ok(probe) => probe,
        Err(error) => {
            let mut diagnosis = Diagnosis::at(place);
            if error.kind() == ErrorKind::Unavailable {
                diagnosis.unseen("the state of the cluster", error.message());
            }
            return diagnosis;
        }
    };
    let what = "the state of the cluster";
    let info = probe.see(what, &["CLUSTER", "INFO"], "+cluster|info").await;
    let info: Option<String> = info.and_then(|info| redis::from_redis_value(info).ok());
    if let Some(state) = info.as_deref().and_then(|info| field(info, "cluster_state"))
        && state != "ok"
    {
        probe.diagnosis().problem(
            "cluster-state",
            format!("the cluster's state is {state}"),
            "with cluster-require-full-coverage, or without most of its masters, it serves nothing",
            "see CLUSTER NODES and CLUSTER INFO",
        );
    }
    probe.into_found().diagnosis
}

#[cfg(test)]
mod tests {
    use leasehold_conformance::before_any_time_limit;
    use leasehold_test_servers::Proxy;

    use super::*;

    #[tokio::test]
    async fn doctor_asks_all_masters_before_it_waits_for_one() {
        // It accepts connections, and never answers.
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let proxies: Vec<Proxy> =
            (0..3).map(|_| Proxy::opaque(server.local_addr().unwrap()).unwrap()).collect();
        let master = |proxy: &Proxy| {
            let url = format!("{}?protocol=resp3", proxy.url());
            (proxy.url(), Client::open(url).unwrap())
        };
        let masters: Vec<(String, Client)> = proxies.iter().map(master).collect();
        tokio::time::pause();
        let asked = || proxies.iter().all(|proxy| proxy.connections_made() > 0);
        assert!(before_any_time_limit(each(&masters, "leasehold"), asked).await);
    }
}
