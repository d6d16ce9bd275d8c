//! Others under the same nodes: Curator's locks, and what is no lock at all.

use leasehold_conformance::until;
use leasehold_core::{ErrorKind, State};
use leasehold_test_servers::{ZooKeeperServer, ZooKeeperSettings};
use zookeeper_client::{Acls, Client as ZooKeeper, CreateMode};

use crate::{Test, connect, free, ms, plain, secs, test, waiting};

pub(crate) const TESTS: &[Test] = &[
    test!(curators_mutex_and_ours_exclude_each_other),
    test!(what_is_no_lock_is_left_alone_and_named),
    test!(a_node_that_is_not_ephemeral_is_shown_and_can_be_removed),
    test!(locks_beside_other_nodes_are_listed),
    test!(names_that_are_free_leave_no_nodes_and_come_back),
];

const PREFIX: &str = "/locks/orders/_c_01234567-89ab-cdef-0123-456789abcdef-lock-";

async fn curators_mutex_and_ours_exclude_each_other() {
    let server = plain();
    let client = connect(&(server.url() + "/locks")).await;
    let lock = client.lock("orders");
    let guard = lock.acquire().await.unwrap();
    let curator = ZooKeeper::connect(&server.address().to_string()).await.unwrap();
    let mode = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (_, number) = curator.create(PREFIX, b"10.0.0.7", &mode).await.unwrap();
    waiting(&client, "orders", 1).await;
    let waiters = lock.status().await.unwrap().waiters.unwrap();
    assert_eq!(waiters[0].holder.host, "10.0.0.7");
    guard.release().await.unwrap();
    // Now it is Curator's turn.
    assert!(lock.try_acquire().await.unwrap().is_none(), "two hold it");
    let other = lock.clone();
    let next = tokio::spawn(async move { other.acquire_within(secs(60)).await });
    waiting(&client, "orders", 1).await;
    curator.delete(&format!("{PREFIX}{number}"), None).await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    free(&client, "orders").await;
}

async fn what_is_no_lock_is_left_alone_and_named() {
    let server = plain();
    let client = connect(&(server.url() + "/locks")).await;
    client.lock("orders").acquire().await.unwrap().release().await.unwrap();
    let other = ZooKeeper::connect(&server.address().to_string()).await.unwrap();
    let node = CreateMode::Persistent.with_acls(Acls::anyone_all());
    other.create("/locks/orders/config", b"x", &node).await.unwrap();
    let lock = client.lock("orders");
    let errors = [
        lock.try_acquire().await.unwrap_err(),
        lock.acquire_within(secs(5)).await.unwrap_err(),
        lock.status().await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
        assert!(error.to_string().contains("/locks/orders/config"), "{error}");
        assert!(error.to_string().contains("choose another"), "{error}");
    }
    client.settle().await;
    assert_eq!(other.list_children("/locks/orders").await.unwrap(), ["config"], "left behind");
    let ephemeral = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    other.create("/locks/short", b"", &ephemeral).await.unwrap();
    let error = client.lock("short").acquire_within(secs(5)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
}

async fn a_node_that_is_not_ephemeral_is_shown_and_can_be_removed() {
    let server = plain();
    let client = connect(&(server.url() + "/locks")).await;
    let lock = client.lock("orders");
    lock.acquire().await.unwrap().release().await.unwrap();
    let other = ZooKeeper::connect(&server.address().to_string()).await.unwrap();
    let lasting = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
    other.create(PREFIX, b"", &lasting).await.unwrap();
    let error = lock.acquire_within(ms(200)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    let status = lock.status().await.unwrap();
    assert!(status.note.unwrap().contains("ephemeral"));
    lock.force_release(status.token.unwrap()).await.unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
}

async fn locks_beside_other_nodes_are_listed() {
    let server = plain();
    let client = connect(&(server.url() + "/")).await;
    let _held = [
        client.lock("zookeeper").acquire().await.unwrap(),
        client.lock("a/b").acquire().await.unwrap(),
    ];
    let other = ZooKeeper::connect(&server.address().to_string()).await.unwrap();
    let node = CreateMode::Persistent.with_acls(Acls::anyone_all());
    other.create("/app", b"x", &node).await.unwrap();
    other.create("/app/config", b"x", &node).await.unwrap();
    let listed = client.list("", 100).await.unwrap();
    let names: Vec<_> = listed.iter().map(|status| status.name.as_str()).collect();
    assert_eq!(names, ["a/b", "zookeeper"]);
    assert!(listed.iter().all(|status| status.state == State::Held));
}

async fn names_that_are_free_leave_no_nodes_and_come_back() {
    let settings = ZooKeeperSettings::new().containers_every_ms(50);
    let server = ZooKeeperServer::start(settings).unwrap();
    let client = connect(&(server.url() + "/one/two")).await;
    let other = ZooKeeper::connect(&server.address().to_string()).await.unwrap();
    let mut last = 0;
    for _ in 0..3 {
        let guards = [
            client.lock("a").acquire().await.unwrap(),
            client.lock("b/c").acquire().await.unwrap(),
        ];
        for guard in guards {
            assert!(guard.token().get() > last, "tokens went back with the nodes");
            last = guard.token().get();
            guard.release().await.unwrap();
        }
        until("the server has removed the containers", || async {
            other.check_stat("/one").await.unwrap().is_none()
        })
        .await
        .unwrap();
    }
}
