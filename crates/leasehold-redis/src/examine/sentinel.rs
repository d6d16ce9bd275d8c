//! What can hurt locks on a server that sentinels watch: the sentinels, and the master that they name.

use std::collections::HashMap;
use std::sync::Arc;

use leasehold_core::Result;
use leasehold_core::doctor::Examined;
use redis::Client;

use super::patient::{Patient, Silence};
use super::{Part, examine_server, failover, refused};
use crate::topology::Sentinels;

/// Looks at the sentinels, and at the master.
///
/// # Errors
/// `Unavailable` when no sentinel answers.
pub(super) async fn examine(
    sentinels: &Arc<Sentinels>,
    place: &str,
    prefix: &str,
    acknowledged: bool,
) -> Result<Examined> {
    let mut all = Examined::at(place);
    let (mut named, mut silent) = (0, None);
    for (place, client) in sentinels.each() {
        named += 1;
        match look(&place, client, sentinels.name()).await {
            Ok(examined) => all.join(examined),
            Err(error) => {
                let mut examined = Examined::at(place);
                examined.warning(
                    "silent-sentinel",
                    error.message(),
                    "the others must agree without it before a failover",
                    "start it, or see why it cannot be reached",
                );
                all.join(examined);
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
                "without a master that they agree on there are no locks",
                "see SENTINEL MASTERS on each of them",
            );
            return Ok(all);
        }
    };
    let master = client.get_connection_info().addr().to_string();
    match examine_server(&client, &master, prefix, Part::Watched).await {
        Ok(found) => all.join(found.examined),
        Err(error) => all.problem(
            "master-silent",
            format!("{master}: {}", error.message()),
            "clients are told of this master, and cannot reach it",
            "see whether it runs, and whether sentinels announce an address that clients can reach",
        ),
    }
    Ok(all)
}

/// One sentinel.
async fn look(place: &str, client: &Client, name: &str) -> Result<Examined> {
    let mut patient = match Patient::reach(client, place).await {
        Ok(patient) => patient,
        Err(error) => return refused(place, error).map(|found| found.examined),
    };
    let what = "what the sentinel says of the master";
    let answer = patient.see(what, &["SENTINEL", "MASTER", name], "+sentinel|master").await;
    let said: HashMap<String, String> =
        answer.and_then(|answer| redis::from_redis_value(answer).ok()).unwrap_or_default();
    let number = |field: &str| said.get(field).and_then(|value| value.parse::<u64>().ok());
    if let Some(others) = number("num-other-sentinels").filter(|&others| others < 2) {
        patient.examined().warning(
            "few-sentinels",
            format!("it knows {others} other sentinels"),
            "a failover needs most of them; of one or two none may fail",
            "run three or five, on machines of their own",
        );
    }
    if said.get("flags").is_some_and(|flags| flags.contains("down")) {
        patient.examined().problem(
            "master-down",
            "it takes the master for down",
            "until another is promoted there are no locks",
            "wait for the failover, or see why there is none",
        );
    }
    // It answers with an error when a failover could not be agreed on.
    if let Err(Silence::Failed(error)) = patient.ask(&["SENTINEL", "CKQUORUM", name]).await
        && error.code() == Some("NOQUORUM")
    {
        let detail = error.detail().unwrap_or_default().to_owned();
        patient.examined().problem(
            "no-quorum",
            detail,
            "when the master fails nobody is promoted, and there are no locks",
            "bring the sentinels back, or lower the quorum of `sentinel monitor`",
        );
    }
    Ok(patient.into_found().examined)
}
