//! Observers of a name: one watch for all of them, opened again when it breaks, and gone with the last of them.

use leasehold_conformance::{pushed_until, until};
use leasehold_core::{LockChanges, State};
use leasehold_test_servers::Proxy;

use crate::{Test, connect, secs, server, test, watched};

pub(crate) const TESTS: &[Test] = &[
    test!(observers_of_a_name_share_a_watch_and_leave_none),
    test!(a_change_while_the_connection_is_broken_is_pushed),
    test!(waiters_for_a_latch_are_pushed_to),
];

async fn observers_of_a_name_share_a_watch_and_leave_none() {
    let server = server();
    let (client, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let (one, two) = (client.lock("a"), client.lock("b"));
    let mut several: Vec<LockChanges> = (0..5).map(|_| one.changes().unwrap()).collect();
    let _beside = two.changes().unwrap();
    watched(&server, 2).await;
    let guard = other.lock("a").acquire().await.unwrap();
    for changes in &mut several {
        pushed_until(changes, &one, State::Held).await;
    }
    guard.release().await.unwrap();
    for changes in &mut several {
        pushed_until(changes, &one, State::Free).await;
    }
    several.truncate(1);
    watched(&server, 2).await;
    several.clear();
    watched(&server, 1).await;
    // It can be observed again.
    let mut changes = one.changes().unwrap();
    watched(&server, 2).await;
    let guard = other.lock("a").acquire().await.unwrap();
    pushed_until(&mut changes, &one, State::Held).await;
    guard.release().await.unwrap();
    drop((changes, _beside));
    watched(&server, 0).await;
}

async fn a_change_while_the_connection_is_broken_is_pushed() {
    let server = server();
    let holder = connect(&server.url()).await;
    let address = format!("127.0.0.1:{}", server.port()).parse::<std::net::SocketAddr>().unwrap();
    let proxy = Proxy::opaque(address).unwrap();
    let client = connect(&format!("etcd://{}", proxy.address())).await;
    let lock = client.lock("a");
    let mut changes = lock.changes().unwrap();
    watched(&server, 1).await;
    for _ in 0..3 {
        proxy.refuse_connections(true).unwrap();
        proxy.kill_connections();
        let guard = holder.lock("a").acquire().await.unwrap();
        proxy.refuse_connections(false).unwrap();
        pushed_until(&mut changes, &lock, State::Held).await;
        proxy.refuse_connections(true).unwrap();
        proxy.kill_connections();
        guard.release().await.unwrap();
        proxy.refuse_connections(false).unwrap();
        pushed_until(&mut changes, &lock, State::Free).await;
    }
    drop(changes);
    watched(&server, 0).await;
}

async fn waiters_for_a_latch_are_pushed_to() {
    let server = server();
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    let latch = one.latch("a", 2);
    latch.count_down("one").await.unwrap();
    let waiters: Vec<_> = (0..4)
        .map(|_| {
            let latch = one.latch("a", 2);
            tokio::spawn(async move { latch.wait_within(secs(60)).await })
        })
        .collect();
    watched(&server, 1).await;
    two.latch("a", 2).count_down("two").await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
    until("no watch is left", || async {
        server.metric("etcd_debugging_mvcc_watcher_total").unwrap() == 0.0
    })
    .await
    .unwrap();
}
