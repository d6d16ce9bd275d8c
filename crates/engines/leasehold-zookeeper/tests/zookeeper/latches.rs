//! Latches: their nodes, their end by the clock of the servers, and other kinds under their names.

use leasehold_conformance::until;
use leasehold_core::{ErrorKind, State, StoreUrl};
use leasehold_test_servers::{ZooKeeperServer, ZooKeeperSettings};
use zookeeper_client::{Acls, Client as ZooKeeper, CreateMode};

use crate::{Test, connect, free, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_latch_outlasts_the_empty_node_of_a_lock),
    test!(an_expired_latch_gives_its_name_to_a_lock),
    test!(a_latch_and_a_lock_that_begin_at_once_never_share_a_name),
    test!(what_is_forgotten_is_what_is_not_needed),
    test!(other_data_is_no_latch),
    test!(a_clock_is_read_without_a_trace),
];

async fn zookeeper(server: &ZooKeeperServer) -> ZooKeeper {
    ZooKeeper::connect(&server.address().to_string()).await.unwrap()
}

async fn a_latch_outlasts_the_empty_node_of_a_lock() {
    let settings = ZooKeeperSettings::new().containers_every_ms(50);
    let server = ZooKeeperServer::start(settings).unwrap();
    let client = connect(&server.url()).await;
    let other = zookeeper(&server).await;
    // The node of a lock that had a child is removed when it is empty.
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    let latch = client.latch("a", 2);
    while let Err(error) = latch.count_down("one").await {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    let generation = latch.state().await.unwrap().generation;
    client.lock("b").acquire().await.unwrap().release().await.unwrap();
    until("the server has looked for empty nodes", || async {
        other.check_stat("/leasehold/b").await.unwrap().is_none()
    })
    .await
    .unwrap();
    let state = latch.state().await.unwrap();
    assert_eq!((state.generation, state.missing), (generation, 1));
}

async fn an_expired_latch_gives_its_name_to_a_lock() {
    let server = plain();
    let client = connect(&server.url()).await;
    let lock = client.lock("a");
    client.latch("a", 1).ttl(secs(2)).count_down("one").await.unwrap();
    let status = lock.status().await.unwrap();
    if let Some(note) = &status.note {
        assert!(note.contains("latch") && status.remaining.unwrap() <= secs(2), "{status:?}");
    }
    let mut refused = 0;
    let guard = loop {
        match lock.try_acquire().await {
            Ok(Some(guard)) => break guard,
            Ok(None) => {}
            Err(error) => {
                assert!(error.message().contains("latch"), "{error}");
                refused += 1;
            }
        }
    };
    assert!(refused > 0 || status.note.is_none(), "the latch did not keep its name");
    assert!(client.latch("a", 1).count_down("one").await.is_err(), "a latch of a held lock");
    guard.release().await.unwrap();
    free(&client, "a").await;
    client.latch("a", 1).count_down("one").await.unwrap();
}

async fn a_latch_and_a_lock_that_begin_at_once_never_share_a_name() {
    let server = plain();
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    for round in 0..40 {
        let name = format!("{}", round % 5);
        // Odd rounds begin with the empty node of a lock.
        if round % 2 == 1 {
            one.lock(&name).acquire().await.unwrap().release().await.unwrap();
        }
        let (lock, latch) = (one.lock(&name), two.latch(&name, 1));
        let (locked, counted) = tokio::join!(lock.try_acquire(), latch.count_down("a"));
        let is_locked = matches!(locked, Ok(Some(_)));
        assert!(!(is_locked && counted.is_ok()), "both in round {round}");
        if let Ok(Some(guard)) = locked {
            guard.release().await.unwrap();
        }
        one.settle().await;
        let other = zookeeper(&server).await;
        for node in ["latch", ""] {
            let path = format!("/leasehold/{name}/{node}");
            other.delete(path.trim_end_matches('/'), None).await.ok();
        }
    }
}

async fn what_is_forgotten_is_what_is_not_needed() {
    let server = plain();
    let client = connect(&server.url()).await;
    let other = zookeeper(&server).await;
    client.latch("x/old", 1).ttl(secs(1)).count_down("one").await.unwrap();
    client.latch("x/new", 1).count_down("one").await.unwrap();
    client.semaphore("x/unused", 1).acquire().await.unwrap().release().await.unwrap();
    let held = client.semaphore("x/held", 1).acquire().await.unwrap();
    client.semaphore("x/changed", 1).set_limit(2).await.unwrap();
    client.semaphore("x/changed", 2).set_limit(3).await.unwrap();
    until("the latch has expired", || async {
        client.lock("x/old").status().await.unwrap().note.is_none()
    })
    .await
    .unwrap();
    let url = StoreUrl::parse(&server.url()).unwrap();
    assert_eq!(leasehold_zookeeper::forget(url, "x/").await.unwrap(), 2);
    let mut left = other.list_children("/leasehold").await.unwrap();
    left.sort();
    assert_eq!(left, ["x%2Fchanged", "x%2Fheld", "x%2Fnew"]);
    assert!(held.is_valid());
    held.release().await.unwrap();
}

async fn other_data_is_no_latch() {
    let server = plain();
    let client = connect(&server.url()).await;
    client.latch("a", 2).count_down("one").await.unwrap();
    client.semaphore("b", 2).acquire().await.unwrap().release().await.unwrap();
    let other = zookeeper(&server).await;
    other.set_data("/leasehold/a/latch", b"10.0.0.7", None).await.unwrap();
    other.set_data("/leasehold/b/semaphore", b"10.0.0.7", None).await.unwrap();
    let errors = [
        client.latch("a", 2).count_down("one").await.unwrap_err(),
        client.lock("a").try_acquire().await.unwrap_err(),
        client.semaphore("b", 2).try_acquire().await.unwrap_err(),
        client.semaphore("b", 2).acquire().await.unwrap_err(),
        client.lock("b").status().await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
        assert!(error.to_string().contains("update the clients"), "{error}");
    }
    client.settle().await;
    assert_eq!(other.list_children("/leasehold/b/semaphore").await.unwrap().len(), 0, "left");
    // A node that is no permit.
    other.delete("/leasehold/b/semaphore", None).await.unwrap();
    client.semaphore("b", 2).acquire().await.unwrap().release().await.unwrap();
    let node = CreateMode::Persistent.with_acls(Acls::anyone_all());
    other.create("/leasehold/b/semaphore/config", b"", &node).await.unwrap();
    let error = client.semaphore("b", 2).acquire().await.unwrap_err();
    assert!(error.to_string().contains("/leasehold/b/semaphore/config"), "{error}");
}

async fn a_clock_is_read_without_a_trace() {
    let server = plain();
    let client = connect(&server.url()).await;
    client.latch("a", 2).count_down("one").await.unwrap();
    // Another client knows no time of the servers.
    let second = connect(&server.url()).await;
    assert_eq!(second.latch("a", 2).state().await.unwrap().missing, 1);
    let other = zookeeper(&server).await;
    assert_eq!(other.list_children("/leasehold/a").await.unwrap(), ["latch"]);
    assert_eq!(other.list_children("/leasehold/a/latch").await.unwrap().len(), 0);
    assert_eq!(second.lock("a").status().await.unwrap().state, State::Latch);
}
