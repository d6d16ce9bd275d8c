//! What clients cost the database while none of their tasks waits: no listening connection, no
//! polling.

use leasehold_conformance::until;
use leasehold_core::Client;
use leasehold_test_servers::{MariaDb, Postgres, Proxy};

use crate::{Test, connect, ms, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(postgres_listens_while_a_task_waits_and_not_for_ever, Postgres),
    test!(listening_connections_that_break_soon_are_made_anew_with_growing_pauses, Postgres),
    test!(a_holder_behind_whom_no_task_waits_asks_postgres_nothing, Postgres),
    test!(a_holder_behind_whom_no_task_waits_asks_mysql_nothing, MySql),
];

/// Acquires `a` for a task of `client`, and returns when it is queued.
async fn waiting(client: &Client) -> tokio::task::JoinHandle<leasehold_core::Result<()>> {
    let lock = client.lock("a");
    let task = tokio::spawn(async move { lock.acquire().await?.release().await });
    until("it waits", || async { client.usage().waiting == 1 }).await.unwrap();
    task
}

async fn postgres_listens_while_a_task_waits_and_not_for_ever() {
    let server = Postgres::start(&[]).unwrap();
    let listeners = || {
        // Without the connections that have asked this before and are about to end.
        let all = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%LISTEN%' \
                   AND query NOT LIKE '%pg_stat_activity%'";
        server.sql(all).unwrap()
    };
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    for _ in 0..2 {
        let held = one.lock("a").acquire().await.unwrap();
        assert_eq!(listeners(), "0");
        let next = waiting(&two).await;
        until("the waiter listens, and the holder does not", || async { listeners() == "1" })
            .await
            .unwrap();
        held.release().await.unwrap();
        next.await.unwrap().unwrap();
        let quiet = || async { listeners() == "0" };
        // Ten seconds, and no more than the timeouts of two such waits.
        if until("it listens no more", quiet).await.is_err() {
            until("it listens no more", quiet).await.unwrap();
        }
    }
}

async fn listening_connections_that_break_soon_are_made_anew_with_growing_pauses() {
    let server = Postgres::start(&[]).unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    let one = connect(&server.url()).await;
    let two = connect(&format!("{}?listen={}", server.url(), proxy.address())).await;
    let held = one.lock("a").ttl(secs(600)).acquire().await.unwrap();
    let next = waiting(&two).await;
    until("it listens", || async { proxy.connections_made() > 0 }).await.unwrap();
    // Each connection has time to listen before it is cut.
    for _ in 0..60 {
        tokio::time::sleep(ms(150)).await;
        proxy.kill_connections();
    }
    // Without growing pauses there would be one for every cut or two.
    let made = proxy.connections_made();
    assert!((2..25).contains(&made), "{made} connections in {} cuts", 60);
    held.release().await.unwrap();
    next.await.unwrap().unwrap();
}

async fn a_holder_behind_whom_no_task_waits_asks_postgres_nothing() {
    let server = Postgres::start(&["log_statement=all"]).unwrap();
    let asked = || server.log().matches("FROM leasehold_waiters").count() as u64;
    asks_nothing(&server.url(), asked, 0).await;
}

async fn a_holder_behind_whom_no_task_waits_asks_mysql_nothing() {
    let server = MariaDb::start(&[]).unwrap();
    let asked = || {
        let said = server.sql("SHOW GLOBAL STATUS LIKE 'Com_select'").unwrap();
        said.split_whitespace().last().unwrap().parse().unwrap()
    };
    // A renewal selects once, every two seconds.
    asks_nothing(&server.url(), asked, 4).await;
}

/// Holds a lock for six seconds, in which `asked` grows by at most the `renewals`; a poll would
/// come every second or more often.
async fn asks_nothing(url: &str, asked: impl Fn() -> u64, renewals: u64) {
    let (one, two) = (connect(url).await, connect(url).await);
    let held = one.lock("a").ttl(secs(6)).acquire().await.unwrap();
    // Before its first renewal a holder would not poll for waiters in any case.
    let first = held.deadline().unwrap().steady_ns();
    let renewed = || async { held.deadline().is_some_and(|later| later.steady_ns() > first) };
    until("it renews", renewed).await.unwrap();
    let before = asked();
    tokio::time::sleep(secs(6)).await;
    let asked = asked() - before;
    assert!(asked <= renewals, "{asked} questions while no task waits");
    // If its own tasks keep the lock busy, it polls for other waiters, and they acquire it.
    let busy: Vec<_> = (0..4)
        .map(|_| {
            let lock = one.lock("a");
            tokio::spawn(async move {
                loop {
                    let guard = lock.acquire().await?;
                    tokio::time::sleep(ms(2)).await;
                    guard.release().await?;
                }
                #[allow(unreachable_code, reason = "names the error")]
                Ok::<_, leasehold_core::Error>(())
            })
        })
        .collect();
    until("its tasks wait", || async { one.usage().queues == 1 }).await.unwrap();
    held.release().await.unwrap();
    let next = two.lock("a").acquire_within(secs(20)).await.unwrap();
    busy.iter().for_each(tokio::task::JoinHandle::abort);
    next.release().await.unwrap();
}
