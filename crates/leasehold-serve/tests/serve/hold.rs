//! Hold by connection.

use std::time::{Duration, Instant};

use leasehold::State;
use serde_json::Value;

use crate::support::{HOLDER, Serving, until};

fn ms(value: &Value) -> Duration {
    Duration::from_millis(value.as_u64().unwrap())
}

#[tokio::test]
async fn a_hold_waits_is_granted_sends_heartbeats_and_ends_with_its_release() {
    let serving = Serving::start().await;
    let guard = serving.client().await.lock("a").acquire().await.unwrap();
    let mut hold = serving.hold("a", "ttl=2s").await;
    assert_eq!(hold.status, 200);
    assert_eq!(hold.until("queued").await["place"], 1);
    guard.release().await.unwrap();
    let held = hold.until("held").await;
    assert!(held["valid_until_ms"].as_u64() >= held["valid_for_ms"].as_u64());
    let mut last = ms(&held["valid_until_ms"]);
    // A heartbeat before the store has confirmed the next renewal repeats the end that is known.
    for _ in 0..3 {
        last = loop {
            let until = ms(&hold.until("heartbeat").await["valid_until_ms"]);
            if until > last {
                break until;
            }
        };
    }
    let line = format!("DELETE /v1/stores/main/locks/a/leases/{}", held["lease"].as_str().unwrap());
    assert_eq!(serving.change(&line, HOLDER).await.status, 204);
    hold.until("released").await;
    assert_eq!(hold.line().await, None);
    assert_eq!(serving.client().await.lock("a").status().await.unwrap().state, State::Free);
}

#[tokio::test]
async fn a_closed_connection_keeps_the_lock_until_its_last_validity_has_passed() {
    let serving = Serving::start().await;
    let lock = serving.client().await.lock("a");
    let sent = Instant::now();
    let mut hold = serving.hold("a", "ttl=3s").await;
    hold.until("held").await;
    let beat = hold.until("heartbeat").await;
    let until = sent + ms(&beat["valid_until_ms"]);
    drop(hold);
    let guard = lock.acquire().await.unwrap();
    assert!(Instant::now() >= until, "too early by {:?}", until - Instant::now());
    drop(guard);
}

#[tokio::test]
async fn with_on_close_release_a_closed_connection_releases_at_once() {
    let serving = Serving::start().await;
    let mut hold = serving.hold("a", "ttl=24h&on-close=release").await;
    hold.until("held").await;
    drop(hold);
    let lock = serving.client().await.lock("a");
    lock.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_waiting_client_that_goes_leaves_the_queue() {
    let serving = Serving::start().await;
    let lock = serving.client().await.lock("a");
    let guard = lock.acquire().await.unwrap();
    let mut gone = serving.hold("a", "wait=1h&ttl=24h").await;
    gone.until("queued").await;
    let waiting =
        async || serving.get("/v1/stores/main/locks/a").await.json()["waiting_at_server"].clone();
    assert_eq!(waiting().await, 1);
    drop(gone);
    until("it has left", async || waiting().await == 0).await;
    guard.release().await.unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_hold_that_does_not_wait_is_refused_with_a_status() {
    let serving = Serving::start().await;
    let _guard = serving.client().await.lock("a").acquire().await.unwrap();
    assert_eq!(serving.hold("a", "wait=0").await.status, 409);
    let mut hold = serving.hold("a", "wait=300ms").await;
    hold.until("queued").await;
    let error = hold.until("error").await;
    assert_eq!((&error["kind"], &error["status"]), (&"timeout".into(), &409.into()));
    assert!(error["detail"].as_str().unwrap().contains("held by"), "{error}");
    assert_eq!(hold.line().await, None);
}

#[tokio::test]
async fn a_lease_that_is_taken_away_is_reported_as_lost() {
    let serving = Serving::start().await;
    let mut hold = serving.hold("a", "ttl=60s").await;
    let held = hold.until("held").await;
    let token = leasehold::Token::new(held["token"].as_u64().unwrap()).unwrap();
    serving.client().await.lock("a").force_release(token).await.unwrap();
    let lost = hold.until("lost").await;
    assert_eq!(lost["kind"], "lost");
    assert!(lost["reason"].as_str().unwrap().contains("does not own"), "{lost}");
    assert_eq!(hold.line().await, None);
}

#[tokio::test]
async fn places_in_the_queue_count_the_waiters_of_this_server() {
    let serving = Serving::start().await;
    let _guard = serving.client().await.lock("a").acquire().await.unwrap();
    let mut holds = Vec::new();
    for place in 1..=3 {
        let mut hold = serving.hold("a", "wait=60s").await;
        assert_eq!(hold.until("queued").await["place"], place);
        holds.push(hold);
    }
}

#[tokio::test]
async fn a_stream_that_its_client_does_not_read_stops_no_other() {
    let serving = Serving::start().await;
    let unread = serving.hold("a", "ttl=100ms").await;
    let _events = serving.open("GET /v1/events", "").await;
    assert_eq!(serving.acquire("b", "").await.status, 200);
    let mut other = serving.hold("c", "ttl=300ms").await;
    other.until("heartbeat").await;
    drop(unread);
    let lock = serving.client().await.lock("a");
    lock.acquire().await.unwrap().release().await.unwrap();
}
