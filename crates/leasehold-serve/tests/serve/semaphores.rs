//! Slots of a semaphore by connection and by lease.

use leasehold_serve::StoreSetting;
use leasehold_test_servers::{Needs, RedisServer, RedisSettings};
use serde_json::json;

use crate::support::{ADMIN, HOLDER, Response, Serving, until};

async fn release(serving: &Serving, granted: &serde_json::Value) -> Response {
    let id = granted["lease"].as_str().unwrap();
    serving.change(&format!("DELETE /v1/stores/main/locks/gpu/leases/{id}"), HOLDER).await
}

#[tokio::test]
async fn permits_have_the_lowest_free_slots_up_to_the_limit() {
    let serving = Serving::start().await;
    let one = serving.acquire("gpu", "limit=3").await.json();
    let two = serving.acquire("gpu", "limit=3&weight=2").await.json();
    assert_eq!((&one["slots"], &two["slots"]), (&json!([0]), &json!([1, 2])));
    assert!(one["token"].is_u64() && one["valid_for_ms"].is_u64(), "{one}");
    let full = serving.acquire("gpu", "limit=3&wait=0").await;
    assert_eq!((full.status, full.kind().as_str()), (409, "timeout"));
    assert_eq!(release(&serving, &one).await.status, 204);
    let again = serving.acquire("gpu", "limit=3&wait=0").await.json();
    assert_eq!(again["slots"], json!([0]));
    assert!(again["token"].as_u64() > one["token"].as_u64(), "{again} after {one}");
    // The library sees the same permits, and is counted with them.
    let gpus = serving.client().await.semaphore("gpu", 3);
    assert!(gpus.try_acquire().await.unwrap().is_none());
    assert_eq!(gpus.status().await.unwrap().permits.unwrap().held, 3);
}

#[tokio::test]
async fn a_hold_waits_for_its_slots_in_order_and_names_them() {
    let serving = Serving::start().await;
    let gpus = serving.client().await.semaphore("gpu", 2);
    let all = gpus.acquire_many(2).await.unwrap();
    let mut many = serving.hold("gpu", "limit=2&weight=2&wait=10m").await;
    assert_eq!(many.until("queued").await["place"], 1);
    let mut one = serving.hold("gpu", "limit=2&wait=10m").await;
    assert_eq!(one.until("queued").await["place"], 2);
    all.release().await.unwrap();
    let held = many.until("held").await;
    assert_eq!(held["slots"], json!([0, 1]));
    assert_eq!(release(&serving, &held).await.status, 204);
    assert_eq!(one.until("held").await["slots"], json!([0]));
}

#[tokio::test]
async fn a_permit_that_is_not_renewed_gives_exactly_its_slots_back() {
    let serving = Serving::start().await;
    let kept = serving.acquire("gpu", "limit=2&ttl=10m").await.json();
    let gone = serving.acquire("gpu", "limit=2&ttl=300ms").await.json();
    let next = serving.acquire("gpu", "limit=2&wait=10m").await.json();
    assert_eq!(
        (&kept["slots"], &gone["slots"], &next["slots"]),
        (&json!([0]), &json!([1]), &json!([1]))
    );
}

#[tokio::test]
async fn a_wrong_limit_and_another_kind_under_the_name_are_refused() {
    let serving = Serving::start().await;
    assert_eq!(serving.acquire("gpu", "limit=2").await.status, 200);
    assert_eq!(serving.acquire("lock", "").await.status, 200);
    for (name, query, part) in [
        ("gpu", "limit=3", "limit"),
        ("gpu", "", "semaphore"),
        ("gpu", "mode=shared", "semaphore"),
        ("gpu", "candidate=a", "semaphore"),
        ("lock", "limit=2", "lock"),
        ("x", "limit=0", "limit must be between 1 and 10000"),
        ("x", "limit=10001", "limit must be between 1 and 10000"),
        ("x", "limit=4&weight=5", "slots must be between 1 and 4"),
        ("x", "limit=4&weight=0", "slots must be between 1 and 4"),
        ("x", "limit=1.5", "limit"),
        ("x", "weight=2", "weight"),
        ("x", "limit=2&mode=shared", "mode"),
        ("x", "limit=2&candidate=a", "candidate"),
    ] {
        let line = format!("{query}&wait=0");
        let answer = serving.acquire(name, &line).await;
        let detail = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert_eq!((answer.status, answer.kind().as_str()), (400, "invalid"), "{name} {line}");
        assert!(detail.contains(part), "{name} {line}: {detail}");
        assert_eq!(serving.hold(name, &line).await.status, 400, "{name} {line}");
    }
    // None of them has stored a limit.
    assert_eq!(serving.acquire("x", "limit=4").await.status, 200);
}

#[tokio::test]
async fn a_store_without_semaphores_says_so() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let start = || RedisServer::start(RedisSettings::new()).unwrap();
    let server = tokio::task::spawn_blocking(start).await.unwrap();
    let url = format!("{}?wire=set-nx", server.url());
    let serving = Serving::start_with(|settings| {
        settings.stores.push(StoreSetting { name: "plain".into(), url });
    })
    .await;
    let line = "POST /v1/stores/plain/locks/gpu/acquire?limit=2";
    let answer = serving.change(line, HOLDER).await;
    assert_eq!((answer.status, answer.kind().as_str()), (501, "unsupported"), "{answer:?}");
}

#[tokio::test]
async fn permits_are_shown_and_ended_by_their_tokens() {
    let serving = Serving::start_with(|settings| {
        settings.allow_force_release = true;
        settings.audit_file = Some(settings.token_file.as_ref().unwrap().with_file_name("audit"));
    })
    .await;
    let one = serving.acquire("gpu", "limit=4&metadata=%3Cb%3E").await.json();
    let two = serving.acquire("gpu", "limit=4&weight=2").await.json();
    let shown = serving.get("/v1/stores/main/locks/gpu").await.json();
    assert_eq!(
        (&shown["state"], &shown["limit"], &shown["held_slots"]),
        (&json!("permits"), &json!(4), &json!(3))
    );
    assert_eq!(shown["holders"][1]["slots"], json!([1, 2]));
    assert_eq!(shown["holders"][1]["token"], two["token"]);
    assert!(shown["holders"][1]["remaining_ms"].is_u64());
    let page = serving.get("/lock?store=main&name=gpu").await.body;
    for part in ["Permits", "3 of 4 slots", "1-2", "&lt;b&gt;", &one["token"].to_string()] {
        assert!(page.contains(part), "{part}: {page}");
    }
    until("the overview shows it", async || serving.get("/").await.body.contains("3 of 4 slots"))
        .await;
    let force = async |token: u64| {
        let line =
            format!("POST /v1/stores/main/locks/gpu/force-release?token={token}&reason=test");
        serving.change(&line, ADMIN).await.status
    };
    assert_eq!(force(two["token"].as_u64().unwrap() + 1).await, 409);
    assert_eq!(force(two["token"].as_u64().unwrap()).await, 200);
    let shown = serving.get("/v1/stores/main/locks/gpu").await.json();
    assert_eq!((&shown["held_slots"], &shown["holders"][0]["token"]), (&json!(1), &one["token"]));
    until("the history has both ends", async || {
        let shown = serving.get("/v1/stores/main/locks/gpu").await.json();
        let history = shown["history"].to_string();
        history.contains("\"forced\"") && history.contains("\"slots\":[1,2]")
    })
    .await;
}
