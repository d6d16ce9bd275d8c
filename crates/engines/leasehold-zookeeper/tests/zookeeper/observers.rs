//! Pushes to observers: one watch for a name, over broken connections, and nothing left afterwards.

use std::time::Duration;

use leasehold_conformance::{pushed_until, until};
use leasehold_core::{LockChanges, State};
use leasehold_test_servers::{Proxy, ZooKeeperServer, ZooKeeperSettings};

use crate::{Test, connect, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(observers_of_a_name_share_a_watch_and_leave_nothing),
    test!(changes_of_every_kind_are_pushed),
    test!(changes_while_the_connection_was_broken_are_pushed),
    test!(observers_go_on_after_the_end_of_their_session),
    test!(observing_disturbs_no_reader_that_looks_for_writers),
];

/// Longer than a test: without a push it fails.
const NEVER: Duration = Duration::from_secs(3600);

fn number(server: &ZooKeeperServer, field: &str) -> u64 {
    server.number(field).unwrap() as u64
}

async fn observers_of_a_name_share_a_watch_and_leave_nothing() {
    let server = plain();
    let (client, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let sessions = number(&server, "zk_num_alive_connections");
    for _ in 0..2 {
        let mut all: Vec<LockChanges> =
            (0..5).map(|_| client.lock("a").changes().unwrap()).collect();
        let mut another = client.lock("b").changes().unwrap();
        // The session of the observers, with one watch for each name.
        until("the watches are set", || async {
            number(&server, "zk_num_alive_connections") == sessions + 1
                && number(&server, "zk_watch_count") >= 2
        })
        .await
        .unwrap();
        let guard = other.lock("a").acquire().await.unwrap();
        for changes in &mut all {
            pushed_until(changes, &client.lock("a"), State::Held).await;
        }
        let one = other.lock("b").acquire().await.unwrap();
        pushed_until(&mut another, &client.lock("b"), State::Held).await;
        guard.release().await.unwrap();
        all.truncate(1);
        pushed_until(&mut all[0], &client.lock("a"), State::Free).await;
        one.release().await.unwrap();
        drop((all, another));
        until("nothing is left", || async {
            number(&server, "zk_num_alive_connections") == sessions
                && number(&server, "zk_watch_count") == 0
        })
        .await
        .unwrap();
    }
}

async fn changes_of_every_kind_are_pushed() {
    let settings = ZooKeeperSettings::new().containers_every_ms(50);
    let server = ZooKeeperServer::start(settings).unwrap();
    let (client, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let mut semaphore = client.lock("a").changes().unwrap();
    let permit = other.semaphore("a", 2).acquire().await.unwrap();
    pushed_until(&mut semaphore, &client.lock("a"), State::Permits).await;
    permit.release().await.unwrap();
    pushed_until(&mut semaphore, &client.lock("a"), State::Free).await;
    let mut readers = client.lock("b").changes().unwrap();
    let read = other.rw_lock("b").read().await.unwrap();
    pushed_until(&mut readers, &client.lock("b"), State::Shared).await;
    read.release().await.unwrap();
    pushed_until(&mut readers, &client.lock("b"), State::Free).await;
    let (latch, mut counts) = (client.latch("c", 2), client.lock("c").changes().unwrap());
    for (party, missing) in [("one", 1), ("two", 0)] {
        other.latch("c", 2).count_down(party).await.unwrap();
        let told = async {
            while latch.state().await.unwrap().missing != missing {
                counts.within(NEVER).await;
            }
        };
        tokio::time::timeout(secs(60), told).await.expect("no change was pushed");
    }
}

async fn changes_while_the_connection_was_broken_are_pushed() {
    let server = plain();
    let proxy = Proxy::opaque(server.address()).unwrap();
    let client = connect(&format!("zookeeper://{}?session=20s", proxy.address())).await;
    let other = connect(&server.url()).await;
    let mut changes = client.lock("a").changes().unwrap();
    let guard = other.lock("a").acquire().await.unwrap();
    pushed_until(&mut changes, &client.lock("a"), State::Held).await;
    for _ in 0..3 {
        proxy.refuse_connections(true).unwrap();
        proxy.kill_connections();
        let next = other.lock("b").acquire().await.unwrap();
        proxy.refuse_connections(false).unwrap();
        next.release().await.unwrap();
    }
    proxy.refuse_connections(true).unwrap();
    proxy.kill_connections();
    guard.release().await.unwrap();
    proxy.refuse_connections(false).unwrap();
    pushed_until(&mut changes, &client.lock("a"), State::Free).await;
    let guard = other.lock("a").acquire().await.unwrap();
    pushed_until(&mut changes, &client.lock("a"), State::Held).await;
    guard.release().await.unwrap();
}

async fn observers_go_on_after_the_end_of_their_session() {
    let server = plain();
    let proxy = Proxy::opaque(server.address()).unwrap();
    let client = connect(&format!("zookeeper://{}?session=6s", proxy.address())).await;
    let other = connect(&server.url()).await;
    let own = connect(&(server.url() + "?session=6s")).await;
    let mut changes = client.lock("a").changes().unwrap();
    let guard = other.lock("a").acquire().await.unwrap();
    pushed_until(&mut changes, &client.lock("a"), State::Held).await;
    let sessions = number(&server, "zk_global_sessions");
    proxy.refuse_connections(true).unwrap();
    proxy.kill_connections();
    until("its sessions have ended", || async {
        number(&server, "zk_global_sessions") <= sessions - 2
    })
    .await
    .unwrap();
    guard.release().await.unwrap();
    proxy.refuse_connections(false).unwrap();
    pushed_until(&mut changes, &client.lock("a"), State::Free).await;
    let guard = own.lock("a").acquire().await.unwrap();
    pushed_until(&mut changes, &client.lock("a"), State::Held).await;
    guard.release().await.unwrap();
}

async fn observing_disturbs_no_reader_that_looks_for_writers() {
    let server = plain();
    let (client, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let lock = client.rw_lock("a");
    let read = lock.read().await.unwrap();
    let mut changes = client.lock("a").changes().unwrap();
    pushed_until(&mut changes, &client.lock("a"), State::Shared).await;
    drop(changes);
    let mut changes = client.lock("a").changes().unwrap();
    let writer = other.rw_lock("a");
    let writes = tokio::spawn(async move { writer.write().await });
    // A task that reads then joins the lease no more.
    let shown = async {
        while client.lock("a").status().await.unwrap().waiters.unwrap().is_empty() {
            changes.within(NEVER).await;
        }
    };
    tokio::time::timeout(secs(60), shown).await.expect("the writer was not pushed");
    read.release().await.unwrap();
    let write = writes.await.unwrap().unwrap();
    pushed_until(&mut changes, &client.lock("a"), State::Held).await;
    write.release().await.unwrap();
    pushed_until(&mut changes, &client.lock("a"), State::Free).await;
}
