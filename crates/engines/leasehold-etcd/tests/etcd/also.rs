//! Locks in two formats at once (`also=concurrency`), beside clients with `wire` and without an option.

use leasehold_conformance::also::{
    both_are_held_and_freed, in_both_formats, is_refused, used_meanwhile, wire_waits_for_also,
};
use leasehold_conformance::until;
use leasehold_core::{Client, ErrorKind, StoreUrl};
use leasehold_etcd_api::Client as Etcd;
use leasehold_test_servers::EtcdServer;

use crate::{Test, connect, ms, operator, secs, server, test};

pub(crate) const TESTS: &[Test] = &[
    test!(both_keys_are_held_and_freed),
    test!(a_mark_of_the_format_is_relied_on_while_it_lasts),
    test!(a_client_with_wire_waits_for_one_with_also),
    test!(a_lost_cover_or_key_is_a_lost_lease),
    test!(a_native_key_alone_is_waited_for_if_a_client_with_also_has_put_it),
    test!(a_client_with_wire_never_fails_beside_clients_with_also),
];

async fn also(server: &EtcdServer) -> Client {
    let parse = |url: String| StoreUrl::parse(&url).unwrap();
    let foreign = parse(format!("{}?wire=concurrency", server.url()));
    let foreign = leasehold_etcd::connect_with_wire(foreign).await.unwrap().beside_native();
    in_both_formats(foreign, leasehold_etcd::connect(parse(server.url())).await.unwrap()).unwrap()
}

async fn wire(server: &EtcdServer) -> Client {
    connect(&format!("{}?wire=concurrency", server.url())).await
}

/// The lease of a key; `None` if there is no such key.
async fn lease_of(operator: &Etcd, key: &str) -> Option<i64> {
    operator.get(key, None).await.unwrap().kvs.first().map(|kv| kv.lease)
}

const MARK: &str = "leasehold/a\nwire";
const COVER: &str = "leasehold/a\nwire-also";

async fn both_keys_are_held_and_freed() {
    let server = server();
    let (native, client) = (connect(&server.url()).await, also(&server).await);
    both_are_held_and_freed(&client, &native, "a").await.unwrap();
    wire(&server).await.lock("a").acquire().await.unwrap().release().await.unwrap();
}

async fn a_mark_of_the_format_is_relied_on_while_it_lasts() {
    let server = server();
    let operator = operator(&server).await;
    let (native, marking) = (connect(&server.url()).await, wire(&server).await);
    marking.lock("a").acquire().await.unwrap().release().await.unwrap();
    let client = also(&server).await;
    let guard = client.lock("a").renew_after(ms(200)).acquire().await.unwrap();
    assert!(lease_of(&operator, COVER).await.is_some());
    assert!(marking.lock("a").try_acquire().await.unwrap().is_none());
    // The last client with wire was here five minutes ago.
    let mark = lease_of(&operator, MARK).await.unwrap();
    operator.lease_revoke(mark).await.unwrap();
    let deadline = guard.deadline();
    until("it is renewed", || async { guard.deadline() != deadline }).await.unwrap();
    assert!(is_refused(&native, "a").await.unwrap(), "the holder relies on the mark");
    let token = guard.token();
    guard.release().await.unwrap();
    let guard = client.lock("a").acquire().await.unwrap();
    assert!(guard.token() > token && lease_of(&operator, COVER).await.is_none());
    assert!(!is_refused(&native, "a").await.unwrap());
    assert!(native.lock("a").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
}

async fn a_client_with_wire_waits_for_one_with_also() {
    let server = server();
    let (client, marking) = (also(&server).await, wire(&server).await);
    let native = connect(&server.url()).await;
    wire_waits_for_also(&client, &marking, &native, "a").await.unwrap();
}

async fn a_lost_cover_or_key_is_a_lost_lease() {
    let server = server();
    let operator = operator(&server).await;
    for is_marked in [false, true] {
        if is_marked {
            wire(&server).await.lock("a").acquire().await.unwrap().release().await.unwrap();
        }
        let client = also(&server).await;
        let guard = client.lock("a").renew_after(ms(200)).acquire().await.unwrap();
        let lost = match is_marked {
            true => COVER.into(),
            false => operator
                .get("leasehold/a\t", Some(leasehold_etcd_api::GetOptions::new().with_prefix()))
                .await
                .unwrap()
                .kvs[0]
                .key
                .clone(),
        };
        operator.delete(lost).await.unwrap();
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

async fn a_native_key_alone_is_waited_for_if_a_client_with_also_has_put_it() {
    let server = server();
    let operator = operator(&server).await;
    let marking = wire(&server).await;
    // The lease of the foreign key has ended first, as after a crash.
    let key = "leasehold/a\t0123456789abcdef0123456789abcdef";
    let value = r#"{"host":"h","pid":7,"since":1700000000000,"also":true}"#;
    operator.put(key, value, None).await.unwrap();
    assert!(marking.lock("a").try_acquire().await.unwrap().is_none(), "no error");
    let waiting = {
        let lock = marking.lock("a");
        tokio::spawn(async move { lock.acquire_within(secs(60)).await })
    };
    // One key of a client without an option is enough to fail, also behind others.
    let native = connect(&server.url()).await;
    let behind = {
        let lock = native.lock("a");
        tokio::spawn(async move { lock.acquire_within(secs(60)).await })
    };
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    operator.delete(key).await.unwrap();
    behind.await.unwrap().unwrap().release().await.unwrap();
    marking.lock("a").acquire_within(secs(60)).await.unwrap().release().await.unwrap();
}

async fn a_client_with_wire_never_fails_beside_clients_with_also() {
    let server = server();
    let clients = [also(&server).await, also(&server).await];
    let marking = wire(&server).await;
    for round in 0..8 {
        let name = format!("a{round}");
        let tries = async {
            for _ in 0..12 {
                if let Some(guard) = marking.lock(&name).try_acquire().await.unwrap() {
                    guard.release().await.unwrap();
                }
            }
        };
        used_meanwhile(&clients, &name, tries).await.unwrap();
    }
}
