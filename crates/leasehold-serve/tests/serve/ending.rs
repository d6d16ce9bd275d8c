//! The end of a server.

use std::time::{Duration, Instant};

use leasehold::State;

use crate::support::{HOLDER, Serving, until, within};

#[tokio::test]
async fn streams_end_with_a_reason_and_waiting_requests_with_503() {
    let serving = Serving::start().await;
    let mut held = serving.hold("a", "ttl=60s").await;
    held.until("held").await;
    let mut queued = serving.hold("a", "wait=60s").await;
    queued.until("queued").await;
    let mut events = serving.open("GET /v1/events", "").await;
    events.line().await;
    let headers = format!("X-Leasehold: 1\nAuthorization: Bearer {HOLDER}");
    let waiting = {
        let serving = &serving;
        async move { serving.send("POST /v1/stores/main/locks/a/acquire?wait=60s", &headers, "").await }
    };
    let mut waiting = std::pin::pin!(waiting);
    let early = tokio::time::timeout(Duration::from_millis(300), waiting.as_mut()).await;
    assert!(early.is_err());
    // It has been sent, and is answered after the stop.
    serving.stop();
    let answer = within(waiting).await;
    assert_eq!((answer.status, answer.kind().as_str()), (503, "stopping"));
    assert!(answer.header("retry-after").is_some());
    let ending = held.until("ending").await;
    assert_eq!(ending["kind"], "stopping");
    let error = queued.until("error").await;
    assert_eq!(error["kind"], "stopping");
    let mut last = String::new();
    while let Some(line) = events.line().await {
        last = line;
    }
    assert!(last.contains("data") || last.contains("stopping"), "{last}");
    // The lock stays taken: its holder may still work.
    let lock = leasehold::connect(&serving.url).await.unwrap().lock("a");
    assert_eq!(lock.status().await.unwrap().state, State::Held);
}

#[tokio::test]
async fn a_store_that_frees_locks_with_the_process_makes_the_server_wait_for_its_leases() {
    let locks = tempfile::tempdir().unwrap();
    let url = format!("file:{}", locks.path().join("locks").display());
    let serving = Serving::start_with(|settings| settings.stores[0].url = url.clone()).await;
    let sent = Instant::now();
    let mut hold = serving.hold("a", "ttl=2s").await;
    let held = hold.until("held").await;
    assert_eq!(held["outlives_server"], false);
    serving.stop();
    let ending = hold.until("ending").await;
    assert_eq!(ending["kind"], "stopping");
    serving.ended().await;
    let promised = Duration::from_millis(held["valid_until_ms"].as_u64().unwrap());
    assert!(sent.elapsed() >= promised, "{:?} of {promised:?}", sent.elapsed());
    let client = leasehold::connect(&url).await.unwrap();
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_server_that_waits_for_its_leases_answers_and_ends_with_the_last_one() {
    let locks = tempfile::tempdir().unwrap();
    let url = format!("file:{}", locks.path().join("locks").display());
    let serving = Serving::start_with(|settings| settings.stores[0].url = url.clone()).await;
    let held = serving.acquire("a", "ttl=10m").await.json();
    let lease = format!("/v1/stores/main/locks/a/leases/{}", held["lease"].as_str().unwrap());
    serving.stop();
    until("it stops", async || serving.get("/v1/stores").await.status == 503).await;
    for line in [
        "POST /v1/stores/main/locks/b/acquire?wait=0".to_owned(),
        "POST /v1/stores/main/locks/b/hold?wait=0".to_owned(),
        format!("POST {lease}/renew"),
        "GET /v1/events".to_owned(),
        "GET /".to_owned(),
    ] {
        let answer = serving.change(&line, HOLDER).await;
        assert_eq!((answer.status, answer.kind().as_str()), (503, "stopping"), "{line}");
        assert!(answer.header("retry-after").is_some(), "{line}: {answer:?}");
    }
    let client = leasehold::connect(&url).await.unwrap();
    assert!(client.lock("a").try_acquire().await.unwrap().is_none(), "it stays taken");
    // Its client is done long before the validity has passed.
    assert_eq!(serving.change(&format!("DELETE {lease}"), HOLDER).await.status, 204);
    serving.ended().await;
    client.lock("a").try_acquire().await.unwrap().expect("it is free").release().await.unwrap();
}
