//! A client that had to wait gets its whole validity, on each store, from another process or the same one.

use leasehold::Client;
use leasehold_serve::StoreSetting;
use leasehold_test_servers::{Needs, RedisServer, RedisSettings};
use serde_json::Value;

use crate::support::{HOLDER, Response, Serving, until, within};

/// Much longer than the 2 s for which a store offers a lock to a waiter.
const TTL_MS: u64 = 60_000;

/// Less than [`TTL_MS`] by far more than a slow machine needs between the store and the client.
const LEAST_MS: u64 = 30_000;

/// What a client can ask for, with the parameters for it.
const KINDS: [(&str, &str); 4] =
    [("lock", ""), ("shared", "&mode=shared"), ("permit", "&limit=1"), ("leader", "&candidate=b")];

/// Whatever excludes what a client asks for.
enum First {
    Lock(leasehold::Guard),
    Permit(leasehold::Permit),
}

impl First {
    async fn acquire(client: &Client, name: &str) -> Self {
        match name {
            "permit" => Self::Permit(client.semaphore(name, 1).acquire().await.unwrap()),
            "leader" => Self::Lock(
                client.election(name).candidate("a").lock().unwrap().acquire().await.unwrap(),
            ),
            _ => Self::Lock(client.lock(name).acquire().await.unwrap()),
        }
    }

    async fn release(self) {
        match self {
            Self::Lock(guard) => guard.release().await.unwrap(),
            Self::Permit(permit) => permit.release().await.unwrap(),
        }
    }
}

async fn acquire(serving: &Serving, store: &str, name: &str, kind: &str) -> Response {
    let line = format!("POST /v1/stores/{store}/locks/{name}/acquire?ttl=60s&wait=60s{kind}");
    within(serving.change(&line, HOLDER)).await
}

/// Waits until a request of the server waits, and the store has probably been asked. If it has not,
/// the lock is free when it is.
async fn queued(serving: &Serving, store: &str, name: &str) {
    until("a request waits", async || {
        let lock = serving.get(&format!("/v1/stores/{store}/locks/{name}")).await.json();
        lock["waiting_at_server"] == 1
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
}

fn check(what: &str, granted: &Value) {
    let valid = granted["valid_for_ms"].as_u64().unwrap();
    assert!((LEAST_MS..=TTL_MS).contains(&valid), "{what}: {granted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_waited_gets_its_whole_validity() {
    let folder = tempfile::TempDir::new().unwrap();
    let start =
        || (!Needs::Redis.is_skipped()).then(|| RedisServer::start(RedisSettings::new()).unwrap());
    let redis = tokio::task::spawn_blocking(start).await.unwrap();
    let mut stores = vec![
        ("file", format!("file:{}/locks", folder.path().display())),
        ("sqlite", format!("sqlite:{}/locks.db", folder.path().display())),
    ];
    stores.extend(redis.iter().map(|redis| ("redis", redis.url())));
    let serving = Serving::start_with(|settings| {
        settings.stores.extend(
            stores
                .iter()
                .map(|(name, url)| StoreSetting { name: (*name).into(), url: url.clone() }),
        );
    })
    .await;
    stores.push(("main", serving.url.clone()));
    for (store, url) in &stores {
        let client = leasehold::connect(url).await.unwrap();
        for (name, kind) in KINDS {
            let what = format!("{name} on {store}");
            // From a holder that uses the store.
            let first = First::acquire(&client, name).await;
            let releasing = async {
                queued(&serving, store, name).await;
                first.release().await;
            };
            let (granted, ()) = tokio::join!(acquire(&serving, store, name, kind), releasing);
            assert_eq!(granted.status, 200, "{what}: {granted:?}");
            check(&what, &granted.json());
            // From a client of the same server.
            let path = format!("/v1/stores/{store}/locks/{name}");
            let held = granted.json();
            let release = format!("DELETE {path}/leases/{}", held["lease"].as_str().unwrap());
            if kind == "&mode=shared" {
                assert_eq!(serving.change(&release, HOLDER).await.status, 204, "{what}");
                continue;
            }
            let releasing = async {
                queued(&serving, store, name).await;
                assert_eq!(serving.change(&release, HOLDER).await.status, 204, "{what}");
            };
            let (granted, ()) = tokio::join!(acquire(&serving, store, name, kind), releasing);
            assert_eq!(granted.status, 200, "{what}: {granted:?}");
            check(&what, &granted.json());
            let next = granted.json();
            let release = format!("DELETE {path}/leases/{}", next["lease"].as_str().unwrap());
            assert_eq!(serving.change(&release, HOLDER).await.status, 204, "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_waited_holds_its_whole_validity() {
    let serving = Serving::start().await;
    let first = serving.client().await.lock("a").acquire().await.unwrap();
    let mut stream = serving.hold("a", "wait=60s&ttl=60s").await;
    stream.until("queued").await;
    first.release().await.unwrap();
    check("a stream", &stream.until("held").await);
}
