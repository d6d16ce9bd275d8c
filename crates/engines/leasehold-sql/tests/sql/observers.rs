//! Observers on PostgreSQL, whose connections break, and clients that have none.

use leasehold_conformance::{pushed_until, until};
use leasehold_core::State;
use leasehold_test_servers::{PgBouncer, Postgres, Proxy};

use crate::connection::through;
use crate::{Test, connect, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(an_observer_on_postgres_outlives_broken_connections, Postgres),
    test!(without_observers_postgres_sends_no_message, Postgres),
    test!(an_observer_behind_a_pooler_polls, Pooler),
];

async fn an_observer_on_postgres_outlives_broken_connections() {
    let server = Postgres::start(&[]).unwrap();
    let proxy = Proxy::opaque(server.address()).unwrap();
    let (near, far) =
        (connect(&server.url()).await, connect(&through(&server.url(), &proxy)).await);
    assert!(far.capability().observe);
    let mut changes = far.lock("a").changes().unwrap();
    for _ in 0..3 {
        let guard = near.lock("a").acquire().await.unwrap();
        pushed_until(&mut changes, &far.lock("a"), State::Held).await;
        // The change happens while the connection is interrupted.
        proxy.cut_all();
        proxy.kill_connections();
        guard.release().await.unwrap();
        proxy.heal();
        pushed_until(&mut changes, &far.lock("a"), State::Free).await;
    }
    // Other kinds of names, too.
    let mut changes = far.lock("s").changes().unwrap();
    let permit = near.semaphore("s", 2).acquire().await.unwrap();
    pushed_until(&mut changes, &far.lock("s"), State::Permits).await;
    permit.release().await.unwrap();
    pushed_until(&mut changes, &far.lock("s"), State::Free).await;
    let latch = far.latch("l", 2);
    let waiting = tokio::spawn(async move { latch.wait_within(secs(60)).await });
    near.latch("l", 2).count_down("x").await.unwrap();
    near.latch("l", 2).count_down("y").await.unwrap();
    waiting.await.unwrap().unwrap();
}

async fn without_observers_postgres_sends_no_message() {
    let server = Postgres::start(&[]).unwrap();
    let client = connect(&server.url()).await;
    let rows = || server.sql("SELECT count(*) FROM leasehold_observers").unwrap();
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    let listens = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    assert_eq!((rows(), server.sql(listens).unwrap()), ("0".to_owned(), "0".to_owned()));
    let mut changes = client.lock("a").changes().unwrap();
    until("it observes", || async { rows() == "1" }).await.unwrap();
    let guard = client.lock("a").acquire().await.unwrap();
    pushed_until(&mut changes, &client.lock("a"), State::Held).await;
    // The row of an observer that has left is removed, so no client is notified any more.
    drop(changes);
    until("it observes no more", || async { rows() == "0" }).await.unwrap();
    guard.release().await.unwrap();
}

async fn an_observer_behind_a_pooler_polls() {
    let server = Postgres::start(&[]).unwrap();
    let pooler = PgBouncer::start(&server, 4).unwrap();
    let (one, two) = (connect(&pooler.url()).await, connect(&pooler.url()).await);
    let mut changes = two.lock("a").changes().unwrap();
    for _ in 0..3 {
        let guard = one.lock("a").acquire().await.unwrap();
        pushed_until(&mut changes, &two.lock("a"), State::Held).await;
        guard.release().await.unwrap();
        pushed_until(&mut changes, &two.lock("a"), State::Free).await;
    }
}
