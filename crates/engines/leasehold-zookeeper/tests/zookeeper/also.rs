//! Locks in two formats at once (`also=curator`, `also=kazoo`), beside clients with `wire` and without an option.

use leasehold_conformance::also::{
    both_are_held_and_freed, in_both_formats, is_refused, used_meanwhile, wire_waits_for_also,
};
use leasehold_conformance::until;
use leasehold_core::{Client, ErrorKind, StoreUrl};
use leasehold_test_servers::ZooKeeperServer;
use zookeeper_client::{Acls, Client as ZooKeeper, CreateMode};

use crate::{Test, connect, ms, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(both_nodes_are_held_and_freed),
    test!(a_mark_of_the_format_is_relied_on_while_it_lasts),
    test!(a_client_with_wire_waits_for_one_with_also),
    test!(a_native_node_alone_is_waited_for_if_a_client_with_also_has_created_it),
    test!(a_client_with_wire_never_fails_beside_clients_with_also),
    test!(one_node_for_both_is_one_lock_of_curator_and_none_of_kazoo),
];

async fn also(url: &str, format: &str) -> Client {
    let parse = |url: String| StoreUrl::parse(&url).unwrap();
    let foreign = parse(format!("{url}?wire={format}"));
    let foreign = leasehold_zookeeper::connect_with_wire(foreign).await.unwrap().beside_native();
    let native = leasehold_zookeeper::connect(parse(url.to_owned())).await.unwrap();
    in_both_formats(foreign, native).unwrap()
}

async fn wire(server: &ZooKeeperServer, format: &str) -> Client {
    connect(&format!("{}?wire={format}", server.url())).await
}

async fn raw(server: &ZooKeeperServer) -> ZooKeeper {
    ZooKeeper::connect(&server.address().to_string()).await.unwrap()
}

const MARK: &str = "/leasehold/jobs%2Fa/wire";

async fn both_nodes_are_held_and_freed() {
    let server = plain();
    for format in ["curator", "kazoo"] {
        let (native, client) = (connect(&server.url()).await, also(&server.url(), format).await);
        both_are_held_and_freed(&client, &native, "jobs/a").await.unwrap();
        let raw = raw(&server).await;
        assert!(raw.list_children("/jobs/a").await.unwrap_or_default().is_empty());
    }
}

async fn a_mark_of_the_format_is_relied_on_while_it_lasts() {
    let server = plain();
    let raw = raw(&server).await;
    let (native, marking) = (connect(&server.url()).await, wire(&server, "kazoo").await);
    marking.lock("jobs/a").acquire().await.unwrap().release().await.unwrap();
    // It lasts for ten seconds more.
    raw.set_data(MARK, b"leasehold value 1 10000\nleasehold wire kazoo", None).await.unwrap();
    let client = also(&server.url(), "kazoo").await;
    let guard = client.lock("jobs/a").renew_after(ms(500)).acquire().await.unwrap();
    let (data, _) = raw.get_data(MARK).await.unwrap();
    let data = String::from_utf8(data).unwrap();
    assert!(data.contains("leasehold wire also:") && data.ends_with(":kazoo"), "{data}");
    assert!(marking.lock("jobs/a").try_acquire().await.unwrap().is_none());
    // The last client with wire was here five minutes ago.
    raw.set_data(MARK, b"leasehold value 1 60000\nleasehold wire also:1:kazoo", None)
        .await
        .unwrap();
    let deadline = guard.deadline();
    until("it is renewed", || async { guard.deadline() != deadline }).await.unwrap();
    assert!(is_refused(&native, "jobs/a").await.unwrap(), "the holder relies on the mark");
    let token = guard.token();
    guard.release().await.unwrap();
    let guard = client.lock("jobs/a").acquire().await.unwrap();
    assert!(guard.token() > token && raw.check_stat(MARK).await.unwrap().is_none());
    assert!(!is_refused(&native, "jobs/a").await.unwrap());
    guard.release().await.unwrap();
    let error = also(&server.url(), "curator").await.lock("jobs/b").try_acquire().await;
    error.unwrap().unwrap().release().await.unwrap();
}

async fn a_client_with_wire_waits_for_one_with_also() {
    let server = plain();
    for format in ["curator", "kazoo"] {
        let (client, marking) = (also(&server.url(), format).await, wire(&server, format).await);
        let native = connect(&server.url()).await;
        let name = format!("jobs/{format}");
        wire_waits_for_also(&client, &marking, &native, &name).await.unwrap();
    }
}

async fn a_native_node_alone_is_waited_for_if_a_client_with_also_has_created_it() {
    let server = plain();
    let (native, raw) = (connect(&server.url()).await, raw(&server).await);
    native.lock("jobs/a").acquire().await.unwrap().release().await.unwrap();
    let marking = wire(&server, "kazoo").await;
    // The session of the foreign node has ended first, as after a crash.
    let prefix = "/leasehold/jobs%2Fa/_c_01234567-89ab-cdef-0123-456789abcdef-lock-";
    let mode = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let data = br#"{"host":"h","pid":7,"also":true}"#;
    let (_, number) = raw.create(prefix, data, &mode).await.unwrap();
    assert!(marking.lock("jobs/a").try_acquire().await.unwrap().is_none(), "no error");
    let waiting = {
        let lock = marking.lock("jobs/a");
        tokio::spawn(async move { lock.acquire_within(secs(60)).await })
    };
    // One node of a client without an option is enough to fail, also behind others.
    let behind = {
        let lock = native.lock("jobs/a");
        tokio::spawn(async move { lock.acquire_within(secs(60)).await })
    };
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    raw.delete(&format!("{prefix}{number}"), None).await.unwrap();
    behind.await.unwrap().unwrap().release().await.unwrap();
    marking.lock("jobs/a").acquire_within(secs(60)).await.unwrap().release().await.unwrap();
}

async fn a_client_with_wire_never_fails_beside_clients_with_also() {
    let server = plain();
    for format in ["curator", "kazoo"] {
        let clients = [also(&server.url(), format).await, also(&server.url(), format).await];
        let marking = wire(&server, format).await;
        for round in 0..4 {
            let name = format!("jobs/{format}{round}");
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
}

async fn one_node_for_both_is_one_lock_of_curator_and_none_of_kazoo() {
    let server = plain();
    let url = format!("{}/both", server.url());
    let (native, client) = (connect(&url).await, also(&url, "curator").await);
    let guard = client.lock("a").acquire().await.unwrap();
    assert!(native.lock("a").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    let theirs = native.lock("a").try_acquire().await.unwrap().unwrap();
    assert!(client.lock("a").try_acquire().await.unwrap().is_none());
    theirs.release().await.unwrap();
    let error = also(&url, "kazoo").await.lock("a").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("leave out the chroot"), "{error}");
}
