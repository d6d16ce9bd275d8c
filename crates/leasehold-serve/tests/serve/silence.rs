//! A store that does not answer, and a lock that another client holds.

use leasehold_test_servers::{Needs, Postgres, RedisServer, RedisSettings};

use crate::support::{HOLDER, Serving, until};

/// Starts a Redis server, and a server whose store it is; `None` if Redis is not installed.
async fn start() -> Option<(RedisServer, Serving)> {
    if Needs::Redis.is_skipped() {
        return None;
    }
    let started = tokio::task::spawn_blocking(|| RedisServer::start(RedisSettings::new()));
    let redis = started.await.unwrap().unwrap();
    let url = redis.url();
    let serving = Serving::start_with(|settings| settings.stores[0].url = url).await;
    Some((redis, serving))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_does_not_answer_is_unavailable_and_a_taken_lock_is_a_timeout() {
    let Some((redis, serving)) = start().await else { return };
    until("the store is connected", async || {
        serving.acquire("taken", "wait=0&ttl=24h").await.status != 503
    })
    .await;
    let taken = serving.acquire("taken", "wait=1s").await;
    assert_eq!((taken.status, taken.kind().as_str()), (409, "timeout"), "{taken:?}");

    // A wait that ends before the store answers shows the same.
    let short = serving.acquire("taken", "wait=1ms").await;
    assert_eq!((short.status, short.kind().as_str()), (409, "timeout"), "{short:?}");

    redis.stop().unwrap();
    // The second request for a lock waits behind the first, and asks the store nothing.
    let acquire = |name, query| serving.acquire(name, query);
    let (one, two, shared, slots, lead) = tokio::join!(
        acquire("free", "wait=1s"),
        acquire("free", "wait=1s"),
        acquire("shared", "wait=1s&mode=shared"),
        acquire("slots", "wait=1s&limit=2"),
        acquire("lead", "wait=1s&candidate=a"),
    );
    for answer in [one, two, shared, slots, lead, acquire("free", "wait=0").await] {
        assert_eq!((answer.status, answer.kind().as_str()), (503, "unavailable"), "{answer:?}");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
    }
    let mut hold = serving.hold("free", "wait=2s").await;
    let error = hold.until("error").await;
    assert_eq!((&error["kind"], &error["status"]), (&"unavailable".into(), &503.into()), "{error}");
    assert_eq!(hold.line().await, None);

    redis.resume().unwrap();
    until("a taken lock is a timeout again", async || {
        let taken = serving.acquire("taken", "wait=1s").await;
        taken.status == 409 && taken.kind() == "timeout"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_falls_silent_while_a_client_waits_is_unavailable() {
    let Some((redis, serving)) = start().await else { return };
    until("the store is connected", async || {
        serving.acquire("a", "wait=0&ttl=24h").await.status != 503
    })
    .await;
    // In the queue of the store, the client asks nothing more.
    let mut hold = serving.hold("a", "wait=12s").await;
    hold.until("queued").await;
    redis.stop().unwrap();
    let headers = format!("X-Leasehold: 1\nAuthorization: Bearer {HOLDER}");
    let line = "POST /v1/stores/main/locks/a/acquire?wait=2s";
    let behind = serving.send(line, &headers, "").await;
    assert_eq!((behind.status, behind.kind().as_str()), (503, "unavailable"), "{behind:?}");
    let error = hold.until("error").await;
    assert_eq!((&error["kind"], &error["status"]), (&"unavailable".into(), &503.into()), "{error}");
    redis.resume().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_the_store_does_not_confirm_is_not_called_done() {
    let Some((mut redis, serving)) = start().await else { return };
    let granted = serving.acquire("a", "wait=10s&ttl=10m").await.json();
    let line = format!("/v1/stores/main/locks/a/leases/{}", granted["lease"].as_str().unwrap());
    redis.kill();
    // A repeated request says the same until the lease has ended.
    for _ in 0..3 {
        let answer = serving.change(&format!("DELETE {line}"), HOLDER).await;
        assert_eq!((answer.status, answer.kind().as_str()), (503, "unavailable"), "{answer:?}");
    }
    let renewed = serving.change(&format!("POST {line}/renew"), HOLDER).await;
    assert_eq!((renewed.status, renewed.kind().as_str()), (503, "unavailable"), "{renewed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_cannot_be_scanned_is_not_shown_as_empty() {
    if Needs::Postgres.is_skipped() {
        return;
    }
    let start = || {
        let server = Postgres::start(&[])?;
        server.sql("CREATE ROLE one LOGIN PASSWORD 'one' CONNECTION LIMIT 1")?;
        server.sql("GRANT ALL ON SCHEMA public TO one")?;
        Ok::<_, std::io::Error>(server)
    };
    let server = tokio::task::spawn_blocking(start).await.unwrap().unwrap();
    let url = server.url_as("one", "one");
    let serving = Serving::start_with(|settings| settings.stores[0].url = url).await;
    until("a lock is held", async || serving.acquire("a", "wait=0&ttl=10m").await.status == 200)
        .await;
    until("the store says what is wrong", async || {
        let stores = serving.get("/v1/stores").await.json();
        stores["stores"][0]["problem"]["kind"].is_string()
    })
    .await;
    let list = serving.get("/v1/stores/main/locks").await;
    assert!(list.status >= 500, "{list:?}");
    let page = serving.get("/").await.body;
    assert!(page.contains("role=\"alert\""), "{page}");
}
