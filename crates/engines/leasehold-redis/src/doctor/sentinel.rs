//! Checks the sentinels, and the master that they name.

use std::collections::HashMap;
use std::sync::Arc;

use leasehold_core::Result;
use leasehold_core::doctor::Diagnosis;
use redis::Client;

use super::probe::{Probe, Silence};
use super::{Part, diagnose_server, failover, refused};
use crate::source::Sentinels;

/// Checks the sentinels, and the master.
///
/// # Errors
/// `Unavailable` if no sentinel answers.
pub(super) async fn diagnose(
    sentinels: &Arc<Sentinels>,
    place: &str,
    prefix: &str,
    acknowledged: bool,
) -> Result<Diagnosis> {
    let mut all = Diagnosis::at(place);
    let (mut named, mut silent) = (0, None);
    let each: Vec<(String, &Client)> = sentinels.each().collect();
    let looks = look_at_each(&each, sentinels.name()).await;
    for ((place, _), look) in each.iter().zip(looks) {
        named += 1;
        match look {
            Ok(diagnosis) => all.join(diagnosis),
            Err(error) => {
                let mut diagnosis = Diagnosis::at(place);
                diagnosis.warning(
                    "silent-sentinel",
                    error.message(),
                    "the others must agree without it before a failover",
                    "start it, or find out why it cannot be reached",
                );
                all.join(diagnosis);
                silent = Some((silent.map_or(1, |(count, _)| count + 1), error));
            }
        }
    }
    match silent {
        Some((count, error)) if count == named => return Err(error),
        _ => {}
    }
    if named == 1 {
        all.note(
            "one-sentinel-named",
            "the URL names one sentinel",
            "while that one is down, clients do not find the master",
            "name all of them: redis+sentinel://one,two,three/NAME",
        );
    }
    failover(&mut all, acknowledged);
    let client = match sentinels.master().await {
        Ok(client) => client,
        Err(error) => {
            all.problem(
                "no-master",
                error.message(),
                "without a master that they agree on, no lock can be acquired",
                "run SENTINEL MASTERS on each of them",
            );
            return Ok(all);
        }
    };
    let master = client.get_connection_info().addr().to_string();
    match diagnose_server(&client, &master, prefix, Part::Watched).await {
        Ok(found) => all.join(found.diagnosis),
        Err(error) => all.problem(
            "master-silent",
            format!("{master}: {}", error.message()),
            "clients get this master from the sentinels, and cannot reach it",
            "check that it runs, and that the sentinels announce an address that clients can reach",
        ),
    }
    Ok(all)
}

/// Checks each sentinel, all at once: the silent ones are waited for together.
async fn look_at_each(each: &[(String, &Client)], name: &str) -> Vec<Result<Diagnosis>> {
    let looks = each.iter().map(|(place, client)| look(place, client, name));
    futures_util::future::join_all(looks).await
}

/// Checks one sentinel.
async fn look(place: &str, client: &Client, name: &str) -> Result<Diagnosis> {
    let mut probe = match Probe::reach(client, place).await {
        Ok(probe) => probe,
        Err(error) => return refused(place, error).map(|found| found.diagnosis),
    };
    let what = "what the sentinel reports about the master";
    let answer = probe.see(what, &["SENTINEL", "MASTER", name], "+sentinel|master").await;
    let said: HashMap<String, String> =
        answer.and_then(|answer| redis::from_redis_value(answer).ok()).unwrap_or_default();
    let number = |field: &str| said.get(field).and_then(|value| value.parse::<u64>().ok());
    if let Some(others) = number("num-other-sentinels").filter(|&others| others < 2) {
        probe.diagnosis().warning(
            "few-sentinels",
            format!("it knows {others} other sentinels"),
            "a failover needs a majority of them; with one or two, none may fail",
            "run three or five, on separate machines",
        );
    }
    if said.get("flags").is_some_and(|flags| flags.contains("down")) {
        probe.diagnosis().problem(
            "master-down",
            "it considers the master down",
            "until a replica is promoted, no lock can be acquired",
            "wait for the failover, or find out why there is none",
        );
    }
    // It answers with an error if the sentinels could not agree on a failover.
    if let Err(Silence::Failed(error)) = probe.ask(&["SENTINEL", "CKQUORUM", name]).await
        && error.code() == Some("NOQUORUM")
    {
        let detail = error.detail().unwrap_or_default().to_owned();
        probe.diagnosis().problem(
            "no-quorum",
            detail,
            "if the master fails, no replica is promoted, and no lock can be acquired",
            "restore the sentinels, or lower the quorum of `sentinel monitor`",
        );
    }
    Ok(probe.into_found().diagnosis)
}

#[cfg(test)]
mod tests {
    use leasehold_conformance::before_any_time_limit;
    use leasehold_test_servers::Proxy;

    use super::*;

    #[tokio::test]
    async fn doctor_asks_all_sentinels_before_it_waits_for_one() {
        // It accepts connections, and never answers.
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let proxies: Vec<Proxy> =
            (0..3).map(|_| Proxy::opaque(server.local_addr().unwrap()).unwrap()).collect();
        let client =
            |proxy: &Proxy| Client::open(format!("{}?protocol=resp3", proxy.url())).unwrap();
        let clients: Vec<Client> = proxies.iter().map(client).collect();
        let each: Vec<(String, &Client)> =
            clients.iter().map(|client| ("sentinel".to_owned(), client)).collect();
        tokio::time::pause();
        let asked = || proxies.iter().all(|proxy| proxy.connections_made() > 0);
        assert!(before_any_time_limit(look_at_each(&each, "main"), asked).await);
    }
}
