//! Hold by lease, lists, and errors.

use std::time::Duration;

use leasehold::State;
use leasehold_serve::StoreSetting;
use serde_json::json;

use crate::support::{HOLDER, OTHER, Serving, until};

fn lease(name: &str, id: &serde_json::Value) -> String {
    format!("/v1/stores/main/locks/{name}/leases/{}", id.as_str().unwrap())
}

#[tokio::test]
async fn a_lease_is_acquired_renewed_and_released() {
    let serving = Serving::start().await;
    let granted = serving.acquire("orders%2F1", "ttl=20s").await.json();
    assert_eq!(granted["ttl_ms"], 20_000);
    let valid = granted["valid_for_ms"].as_u64().unwrap();
    assert!(valid > 0 && valid <= 20_000, "{granted}");
    assert!(granted["valid_until_ms"].as_u64().unwrap() >= valid);
    let lock = serving.client().await.lock("orders/1");
    let status = lock.status().await.unwrap();
    assert_eq!(status.token.unwrap().get(), granted["token"].as_u64().unwrap());
    let taken = serving.acquire("orders%2F1", "wait=0").await;
    assert_eq!((taken.status, taken.kind().as_str()), (409, "timeout"));
    assert_eq!(taken.header("content-type"), Some("application/problem+json"));

    let path = lease("orders%2F1", &granted["lease"]);
    let renewed = serving.change(&format!("POST {path}/renew"), HOLDER).await;
    assert_eq!(renewed.status, 200, "{renewed:?}");
    assert_eq!(renewed.json()["token"], granted["token"]);
    assert_eq!(serving.change(&format!("DELETE {path}"), HOLDER).await.status, 204);
    assert_eq!(lock.status().await.unwrap().state, State::Free);
    // A repeated release has the same result, and does not end the lease of the next holder.
    let next = lock.acquire().await.unwrap();
    assert_eq!(serving.change(&format!("DELETE {path}"), HOLDER).await.status, 204);
    assert!(next.is_valid() && lock.status().await.unwrap().state == State::Held);
    let late = serving.change(&format!("POST {path}/renew"), HOLDER).await;
    assert_eq!((late.status, late.kind().as_str()), (410, "released"));
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_expires_and_not_before_its_validity() {
    let serving = Serving::start().await;
    let lock = serving.client().await.lock("a");
    let start = std::time::Instant::now();
    let granted = serving.acquire("a", "ttl=1s").await.json();
    let waits = Duration::from_millis(granted["valid_for_ms"].as_u64().unwrap());
    let guard = lock.acquire().await.unwrap();
    assert!(start.elapsed() >= waits, "{:?} of {waits:?}", start.elapsed());
    assert!(guard.token().get() > granted["token"].as_u64().unwrap());
    let line = format!("POST {}/renew", lease("a", &granted["lease"]));
    let late = serving.change(&line, HOLDER).await;
    assert_eq!((late.status, late.kind().as_str()), (410, "expired"));
}

#[tokio::test]
async fn a_renewed_lease_outlasts_its_ttl() {
    let serving = Serving::start().await;
    let granted = serving.acquire("a", "ttl=4s").await.json();
    let line = format!("POST {}/renew", lease("a", &granted["lease"]));
    let lock = serving.client().await.lock("a");
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_secs(6) {
        let renewed = serving.change(&line, HOLDER).await;
        assert_eq!(renewed.status, 200, "{renewed:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(lock.try_acquire().await.unwrap().is_none());
}

#[tokio::test]
async fn a_lost_lease_is_reported_as_lost() {
    let serving = Serving::start().await;
    let granted = serving.acquire("a", "").await.json();
    let lock = serving.client().await.lock("a");
    lock.force_release(leasehold::Token::new(granted["token"].as_u64().unwrap()).unwrap())
        .await
        .unwrap();
    let line = format!("POST {}/renew", lease("a", &granted["lease"]));
    until("the loss is known", || async {
        let answer = serving.change(&line, HOLDER).await;
        answer.status == 410 && answer.kind() == "lost"
    })
    .await;
    let history = serving.get("/v1/stores/main/locks/a").await.json()["history"].to_string();
    assert!(history.contains("\"lost\""), "{history}");
}

#[tokio::test]
async fn a_repeated_acquire_with_the_same_key_gets_the_same_lease() {
    let serving = Serving::start().await;
    let acquire = async |token: &str, query: &str| {
        let headers =
            format!("X-Leasehold: 1\nAuthorization: Bearer {token}\nIdempotency-Key: job-1");
        serving.send(&format!("POST /v1/stores/main/locks/a/acquire?{query}"), &headers, "").await
    };
    let both = tokio::join!(acquire(HOLDER, "wait=0"), acquire(HOLDER, "wait=0"));
    let (one, other) = (both.0.json(), both.1.json());
    assert!(one["lease"].is_string(), "{one}");
    assert_eq!((&one["lease"], &one["token"]), (&other["lease"], &other["token"]));
    let changed = acquire(HOLDER, "wait=1s").await;
    assert_eq!((changed.status, changed.kind().as_str()), (422, "key_reused"));
    // The key of another token is another key.
    assert_eq!(acquire(OTHER, "wait=0").await.status, 409);
    assert_eq!(acquire(HOLDER, "wait=0").await.json()["lease"], one["lease"]);
    let path = lease("a", &one["lease"]);
    assert_eq!(serving.change(&format!("DELETE {path}"), HOLDER).await.status, 204);
    assert_ne!(acquire(HOLDER, "wait=0").await.json()["lease"], one["lease"]);
}

#[tokio::test]
async fn readers_share_a_lock_and_a_writer_waits_for_them() {
    let serving = Serving::start().await;
    let one = serving.acquire("a", "mode=shared").await;
    let other = serving.acquire("a", "mode=shared&wait=0").await;
    assert_eq!((one.status, other.status), (200, 200), "{other:?}");
    assert_eq!(one.json()["token"], other.json()["token"]);
    assert_eq!(serving.acquire("a", "wait=0").await.status, 409);
    for granted in [one.json(), other.json()] {
        let line = format!("DELETE {}", lease("a", &granted["lease"]));
        assert_eq!(serving.change(&line, HOLDER).await.status, 204);
    }
    assert_eq!(serving.acquire("a", "wait=0").await.status, 200);
}

#[tokio::test]
async fn a_list_has_pages_a_prefix_and_an_order() {
    let serving = Serving::start().await;
    let client = serving.client().await;
    let mut guards = Vec::new();
    for name in ["b/1", "a/1", "a/2", "a/3"] {
        guards.push(client.lock(name).acquire().await.unwrap());
        // The store counts milliseconds.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let list = async |query: &str| {
        let path = format!("/v1/stores/main/locks?{query}");
        let answer = serving.get(&path).await.json();
        let names = answer["locks"].as_array().unwrap().iter().map(|lock| lock["name"].clone());
        (names.collect::<Vec<_>>(), answer["next"].as_str().map(str::to_owned))
    };
    until("the scan sees them", || async { list("").await.0.len() == 4 }).await;
    let (names, next) = list("prefix=a/&limit=2").await;
    assert_eq!(names, [json!("a/1"), json!("a/2")]);
    let (names, next) = list(&format!("prefix=a/&limit=2&after={}", next.unwrap())).await;
    assert_eq!((names, next), (vec![json!("a/3")], None));
    let (names, _) = list("sort=held&limit=1").await;
    assert_eq!(names, [json!("b/1")]);
    for wrong in ["limit=0", "limit=1001", "sort=x", "after=x", "taken=x", "nonsense=1"] {
        let answer = serving.get(&format!("/v1/stores/main/locks?{wrong}")).await;
        assert_eq!((answer.status, answer.kind().as_str()), (400, "invalid"), "{wrong}");
    }
}

#[tokio::test]
async fn a_broken_store_says_why_and_the_others_work() {
    let serving = Serving::start_with(|settings| {
        let url = "file:/dev/null/locks".into();
        settings.stores.insert(0, StoreSetting { name: "broken".into(), url });
    })
    .await;
    let broken = serving.get("/v1/stores/broken/locks").await;
    assert!(broken.status >= 500, "{broken:?}");
    assert!(!broken.json()["next"].as_str().unwrap().is_empty());
    assert_eq!(serving.acquire("a", "").await.status, 200);
    let stores = serving.get("/v1/stores").await.json();
    assert!(stores["stores"][0]["problem"]["detail"].is_string(), "{stores}");
    assert!(stores["stores"][1]["problem"].is_null(), "{stores}");
    let page = serving.get("/").await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("role=\"alert\"") && page.body.contains("/dev/null"));
    assert!(serving.get("/?store=main").await.body.contains("Locks"));
    assert_eq!(serving.get("/v1/stores/none/locks").await.kind(), "unknown_store");
}

#[tokio::test]
async fn wrong_requests_name_what_is_allowed() {
    let serving = Serving::start().await;
    for (query, part) in [
        ("ttl=1ms", "ttl"),
        ("ttl=2d", "ttl"),
        ("wait=x", "wait"),
        ("mode=y", "exclusive or shared"),
        ("tll=3s", "use wait, ttl"),
        ("wait=1&wait=2", "twice"),
    ] {
        let answer = serving.acquire("a", query).await;
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.body.contains(part), "{query}: {}", answer.body);
    }
    assert_eq!(serving.acquire("a%0Ab", "").await.status, 400);
    assert_eq!(serving.acquire(&"x".repeat(513), "").await.status, 400);
    assert_eq!(serving.get("/v1/a/b/c").await.kind(), "unknown_path");
    assert_eq!(serving.change("PUT /v1/stores", HOLDER).await.status, 405);
}
