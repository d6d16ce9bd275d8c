//! Elections: a candidate is a hold, and the leader can be seen.

use serde_json::{Value, json};

use crate::support::{HOLDER, OTHER, Serving, Stream};

const LEADER: &str = "/v1/stores/main/locks/jobs/leader";

/// Returns the next leader that an observer is sent.
async fn next(events: &mut Stream) -> Value {
    loop {
        let line = events.line().await.expect("the events go on");
        if let Some(data) = line.strip_prefix("data: ").filter(|data| *data != "{}") {
            return serde_json::from_str::<Value>(data).unwrap()["leader"].take();
        }
    }
}

#[tokio::test]
async fn candidates_lead_one_after_the_other_and_observers_see_each() {
    let serving = Serving::start().await;
    let mut events = serving.open(&format!("GET {LEADER}/events"), "").await;
    assert_eq!(events.status, 200);
    assert_eq!(next(&mut events).await, Value::Null);
    assert_eq!(serving.get(LEADER).await.json(), json!({ "leader": null }));

    let mut first = serving.hold("jobs", "candidate=10.0.0.1%3A80").await;
    let term = first.until("held").await;
    let leader = next(&mut events).await;
    assert_eq!(leader["candidate"], "10.0.0.1:80");
    assert_eq!(leader["token"], term["token"]);
    assert_eq!(serving.get(LEADER).await.json()["leader"]["candidate"], "10.0.0.1:80");

    // The library campaigns in the same election.
    let election = serving.client().await.election("jobs").candidate("library");
    let campaign = tokio::spawn(async move { election.campaign().await.unwrap() });
    let id = term["lease"].as_str().unwrap();
    let line = format!("DELETE /v1/stores/main/locks/jobs/leases/{id}");
    // The lease of a candidate belongs to its token.
    assert_eq!(serving.change(&line, OTHER).await.status, 404);
    assert_eq!(serving.change(&line, HOLDER).await.status, 204);
    let mut leader = next(&mut events).await;
    if leader.is_null() {
        leader = next(&mut events).await;
    }
    assert_eq!(leader["candidate"], "library");
    assert!(leader["token"].as_u64() > term["token"].as_u64());
    campaign.await.unwrap().resign().await.unwrap();
    assert_eq!(next(&mut events).await, Value::Null);
}

#[tokio::test]
async fn a_leader_whose_connection_closes_leads_until_its_validity_has_passed() {
    let serving = Serving::start().await;
    let sent = std::time::Instant::now();
    let mut first = serving.hold("jobs", "ttl=2s&candidate=first").await;
    let until = first.until("held").await["valid_until_ms"].as_u64().unwrap();
    drop(first);
    let mut second = serving.hold("jobs", "ttl=2s&candidate=second&wait=10m").await;
    second.until("held").await;
    assert!(sent.elapsed().as_millis() as u64 >= until, "too early");
    assert_eq!(serving.get(LEADER).await.json()["leader"]["candidate"], "second");
}

#[tokio::test]
async fn the_candidate_is_checked_and_no_name_of_another_kind_is_an_election() {
    let serving = Serving::start().await;
    for (query, part) in [
        // Without a value, it would acquire the lock.
        ("candidate=", "candidate: the value is empty"),
        ("candidate=a%0Ab", "control character"),
        (&format!("candidate={}", "x".repeat(1025)), "1025 bytes"),
        ("candidate=a&metadata=b", "metadata"),
        ("candidate=a&mode=shared", "mode"),
    ] {
        let answer = serving.acquire("jobs", query).await;
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.body.contains(part), "{query}: {}", answer.body);
    }
    assert_eq!(serving.get(LEADER).await.json(), json!({ "leader": null }));
    assert_eq!(serving.acquire("gpu", "limit=2").await.status, 200);
    assert_eq!(serving.acquire("gpu", "candidate=a&wait=0").await.status, 400);
    let leader = serving.get("/v1/stores/main/locks/gpu/leader").await;
    assert!(
        leader.status == 400 && leader.body.contains("belongs to a semaphore"),
        "{}",
        leader.body
    );
    assert_eq!(serving.get("/v1/stores/none/locks/gpu/leader").await.status, 404);
    assert_eq!(serving.get(&format!("{LEADER}?x=1")).await.status, 400);
}

#[tokio::test]
async fn observers_learn_that_the_server_stops() {
    let serving = Serving::start().await;
    let mut events = serving.open(&format!("GET {LEADER}/events"), "").await;
    assert_eq!(next(&mut events).await, Value::Null);
    serving.stop();
    while events.line().await.expect("it says so before its end") != "event: stopping" {}
    serving.ended().await;
}
