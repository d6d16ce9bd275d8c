//! Live events, metrics, and the description of the API.

use crate::support::{Serving, until};

#[tokio::test]
async fn a_viewer_sees_what_happens_to_the_locks_that_it_asks_for() {
    let serving = Serving::start().await;
    let client = serving.client().await;
    let mut events = serving.open("GET /v1/events?prefix=a/", "").await;
    assert_eq!(events.status, 200);
    while events.line().await.unwrap() != "event: hello" {}
    until("the first scan", || async {
        !serving.get("/v1/stores").await.json()["stores"][0]["scanned_unix_ms"].is_null()
    })
    .await;
    let other = client.lock("b").acquire().await.unwrap();
    let guard = client.lock("a/1").acquire().await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let line = events.line().await.unwrap();
        if let Some(data) = line.strip_prefix("data: ").filter(|data| *data != "{}") {
            let event: serde_json::Value = serde_json::from_str(data).unwrap();
            assert_eq!((&event["name"], &event["store"]), (&"a/1".into(), &"main".into()));
            seen.push(event["what"].clone());
            if seen.len() == 1 {
                assert_eq!(event["token"], guard.token().get());
                client.lock("a/1").force_release(guard.token()).await.unwrap();
            }
        }
    }
    assert_eq!(seen, ["acquired", "freed"]);
    drop(other);
}

#[tokio::test]
async fn metrics_count_leases_and_locks() {
    let serving = Serving::start().await;
    assert_eq!(serving.acquire("a", "").await.status, 200);
    until("the scan sees it", || async {
        let text = serving.get("/metrics").await.body;
        text.contains("leasehold_serve_locks{store=\"main\",state=\"held\"} 1")
    })
    .await;
    let text = serving.get("/metrics").await.body;
    assert!(text.contains("leasehold_serve_leases 1\n"), "{text}");
    assert!(text.contains("leasehold_serve_store_up{store=\"main\"} 1\n"), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        assert!(text.contains(&format!("# TYPE {name} ")), "{line}");
        assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
    }
}

#[tokio::test]
async fn the_description_has_every_route_and_no_other() {
    let serving = Serving::start().await;
    let document = serving.get("/v1/openapi.json").await.json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    let source = include_str!("../../src/api.rs");
    let mut routes: Vec<&str> =
        source.split('"').filter(|text| text.starts_with("/v1/") && !text.contains("{*")).collect();
    let mut paths: Vec<&str> =
        document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    routes.sort_unstable();
    paths.sort_unstable();
    assert_eq!(paths, routes);
    for path in paths {
        for (method, operation) in document["paths"][path].as_object().unwrap() {
            let concrete =
                path.replace("{store}", "main").replace("{name}", "a").replace("{lease}", "x");
            let line = format!("{} {concrete}", method.to_uppercase());
            // A hold of a free lock does not end by itself, nor do events.
            if !path.ends_with("/hold") && !path.ends_with("/events") {
                let answer = serving.change(&line, crate::support::ADMIN).await;
                assert_ne!(answer.status, 405, "{line}");
                let known = &operation["responses"][answer.status.to_string()];
                assert!(known.is_object(), "{line}: {} is not described", answer.status);
            }
        }
    }
}
