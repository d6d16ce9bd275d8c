//! Locks in two formats at once (`also=concurrency`), beside clients with `wire` and without an option.

use std::sync::Arc;

use etcd_client::Client as Etcd;
use leasehold_conformance::until;
use leasehold_core::backend::{AlsoBackend, Mark};
use leasehold_core::{Client, ErrorKind, StoreUrl};
use leasehold_test_servers::EtcdServer;

use crate::{Test, connect, ms, operator, secs, server, test};

pub(crate) const TESTS: &[Test] = &[
    test!(both_keys_are_held_and_freed),
    test!(a_mark_of_the_format_is_relied_on_while_it_lasts),
    test!(a_client_with_wire_waits_for_one_with_also),
    test!(a_lost_cover_or_key_is_a_lost_lease),
];

async fn also(server: &EtcdServer) -> Client {
    let parse = |url: String| StoreUrl::parse(&url).unwrap();
    let foreign = parse(format!("{}?wire=concurrency", server.url()));
    let foreign = leasehold_etcd::connect_with_wire(foreign).await.unwrap().beside_native();
    let (foreign, native) = (Arc::new(foreign), leasehold_etcd::connect(parse(server.url())));
    let mark: Arc<dyn Mark> = foreign.clone();
    let native = Arc::new(native.await.unwrap());
    Client::new(Arc::new(AlsoBackend::new(foreign, native, Some(mark)))).unwrap()
}

async fn wire(server: &EtcdServer) -> Client {
    connect(&format!("{}?wire=concurrency", server.url())).await
}

/// The lease of a key; `None` if there is no such key.
async fn lease_of(operator: &mut Etcd, key: &str) -> Option<i64> {
    operator.get(key, None).await.unwrap().kvs().first().map(|kv| kv.lease())
}

async fn is_refused(native: &Client) -> bool {
    match native.lock("a").try_acquire().await {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
            true
        }
        Ok(guard) => {
            if let Some(guard) = guard {
                guard.release().await.unwrap();
            }
            false
        }
    }
}

const MARK: &str = "leasehold/a\nwire";
const COVER: &str = "leasehold/a\nwire-also";

async fn both_keys_are_held_and_freed() {
    let server = server();
    let (native, client) = (connect(&server.url()).await, also(&server).await);
    let guard = client.lock("a").acquire().await.unwrap();
    assert!(native.lock("a").try_acquire().await.unwrap().is_none());
    assert_eq!(native.lock("a").status().await.unwrap().token, Some(guard.token()));
    let waiting = {
        let lock = native.lock("a");
        tokio::spawn(async move { lock.acquire_within(secs(60)).await })
    };
    until("it waits", || async {
        native.lock("a").status().await.unwrap().waiters.unwrap().len() == 1
    })
    .await
    .unwrap();
    guard.release().await.unwrap();
    let theirs = waiting.await.unwrap().unwrap();
    assert!(client.lock("a").try_acquire().await.unwrap().is_none());
    let waiting = {
        let lock = client.lock("a");
        tokio::spawn(async move { lock.acquire_within(secs(60)).await })
    };
    until("it waits", || async {
        native.lock("a").status().await.unwrap().waiters.unwrap().len() == 1
    })
    .await
    .unwrap();
    theirs.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    wire(&server).await.lock("a").acquire().await.unwrap().release().await.unwrap();
}

async fn a_mark_of_the_format_is_relied_on_while_it_lasts() {
    let server = server();
    let mut operator = operator(&server).await;
    let (native, marking) = (connect(&server.url()).await, wire(&server).await);
    marking.lock("a").acquire().await.unwrap().release().await.unwrap();
    let client = also(&server).await;
    let guard = client.lock("a").renew_after(ms(200)).acquire().await.unwrap();
    assert!(lease_of(&mut operator, COVER).await.is_some());
    assert!(marking.lock("a").try_acquire().await.unwrap().is_none());
    // The last client with wire was here five minutes ago.
    let mark = lease_of(&mut operator, MARK).await.unwrap();
    operator.lease_revoke(mark).await.unwrap();
    let deadline = guard.deadline();
    until("it is renewed", || async { guard.deadline() != deadline }).await.unwrap();
    assert!(is_refused(&native).await, "the holder relies on the mark");
    let token = guard.token();
    guard.release().await.unwrap();
    let guard = client.lock("a").acquire().await.unwrap();
    assert!(guard.token() > token && lease_of(&mut operator, COVER).await.is_none());
    assert!(!is_refused(&native).await);
    assert!(native.lock("a").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
}

async fn a_client_with_wire_waits_for_one_with_also() {
    let server = server();
    let (client, marking) = (also(&server).await, wire(&server).await);
    let guard = client.lock("a").acquire().await.unwrap();
    assert!(marking.lock("a").try_acquire().await.unwrap().is_none(), "no error");
    let waiting = {
        let lock = marking.lock("a");
        tokio::spawn(async move { lock.acquire_within(secs(60)).await })
    };
    guard.release().await.unwrap();
    let theirs = waiting.await.unwrap().unwrap();
    let native = connect(&server.url()).await;
    assert!(is_refused(&native).await);
    theirs.release().await.unwrap();
}

async fn a_lost_cover_or_key_is_a_lost_lease() {
    let server = server();
    let mut operator = operator(&server).await;
    for is_marked in [false, true] {
        if is_marked {
            wire(&server).await.lock("a").acquire().await.unwrap().release().await.unwrap();
        }
        let client = also(&server).await;
        let guard = client.lock("a").renew_after(ms(200)).acquire().await.unwrap();
        let lost = match is_marked {
            true => COVER.to_owned(),
            false => operator
                .get("leasehold/a\t", Some(etcd_client::GetOptions::new().with_prefix()))
                .await
                .unwrap()
                .kvs()[0]
                .key_str()
                .unwrap()
                .to_owned(),
        };
        operator.delete(lost, None).await.unwrap();
        guard.lost().await;
        guard.release().await.unwrap_err();
        wire(&server)
            .await
            .lock("a")
            .acquire_within(secs(60))
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    }
}
