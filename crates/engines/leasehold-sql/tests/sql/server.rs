//! The whole database: restarted, killed, behind a pooler, with its clock and transactions.

use leasehold_conformance::until;
use leasehold_core::backend::{Backend, Renewal, Renewed};
use leasehold_core::{ErrorKind, Name, State};
use leasehold_test_servers::{MariaDb, PgBouncer, Postgres};

use crate::side::Side;
use crate::{Test, connect, ms, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(postgres_is_killed_and_comes_back, Postgres),
    test!(mysql_is_killed_and_comes_back, MySql),
    test!(a_server_that_is_gone_for_long_is_told_in_time, Postgres),
    test!(a_locked_row_on_postgres_costs_its_own_lease_alone, Postgres),
    test!(a_locked_row_on_mysql_costs_its_own_lease_alone, MySql),
    test!(strict_transactions_by_default_are_tried_again, Postgres),
    test!(behind_a_pooler_those_who_wait_look_by_themselves, Pooler),
];

async fn postgres_is_killed_and_comes_back() {
    let mut server = Postgres::start(&[]).unwrap();
    let client = connect(&server.url()).await;
    let guard = client.lock("a").ttl(secs(30)).acquire().await.unwrap();
    server.kill();
    let error = client.lock("a").status().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    server.start_again().unwrap();
    until("it works again", || async { client.lock("a").status().await.is_ok() }).await.unwrap();
    let status = client.lock("a").status().await.unwrap();
    assert_eq!((status.state, status.token), (State::Held, Some(guard.token())));
    let token = guard.token();
    guard.release().await.unwrap();
    server.restart().unwrap();
    let next = client.lock("a").acquire().await.unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
}

async fn mysql_is_killed_and_comes_back() {
    let mut server = MariaDb::start(&[]).unwrap();
    let client = connect(&server.url()).await;
    let guard = client.lock("a").ttl(secs(60)).acquire().await.unwrap();
    server.kill();
    let error = client.lock("a").status().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    server.start_again().unwrap();
    until("it works again", || async { client.lock("a").status().await.is_ok() }).await.unwrap();
    let status = client.lock("a").status().await.unwrap();
    assert_eq!((status.state, status.token), (State::Held, Some(guard.token())));
    guard.release().await.unwrap();
}

async fn a_server_that_is_gone_for_long_is_told_in_time() {
    let mut server = Postgres::start(&[]).unwrap();
    let client = connect(&server.url()).await;
    // The loss is reported a tenth of the ttl before the deadline.
    let guard = client.lock("a").ttl(secs(6)).acquire().await.unwrap();
    let waiter = connect(&server.url()).await;
    let lock = waiter.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until("it waits", || async {
        let status = client.lock("a").status().await;
        status.is_ok_and(|status| status.waiters.is_some_and(|waiters| !waiters.is_empty()))
    })
    .await
    .unwrap();
    server.kill();
    guard.lost().await;
    assert!(guard.remaining() > std::time::Duration::ZERO, "told too late");
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

async fn a_locked_row_on_postgres_costs_its_own_lease_alone() {
    let server = Postgres::start(&[]).unwrap();
    let lock = "SELECT 1 FROM leasehold_locks WHERE name = convert_to('lock 2', 'UTF8') FOR UPDATE; \
                SELECT pg_sleep(60)";
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE query LIKE '%pg_sleep(60)' AND pid <> pg_backend_pid()";
    let run = |sql: &str| drop(server.sql(sql));
    locked_row(&server.url(), || run(lock), || run(end)).await;
}

async fn a_locked_row_on_mysql_costs_its_own_lease_alone() {
    let server = MariaDb::start(&[]).unwrap();
    let lock = "BEGIN; SELECT 1 FROM leasehold_locks WHERE name = 'lock 2' FOR UPDATE; \
                SELECT SLEEP(60)";
    let asleep = "SELECT id FROM information_schema.processlist WHERE info = 'SELECT SLEEP(60)'";
    let run = |sql: &str| drop(server.sql(sql));
    let end = || run(&format!("KILL {}", server.sql(asleep).unwrap()));
    locked_row(&server.url(), || run(lock), end).await;
}

/// One batch of renewals, while another transaction locks the row of one of them.
async fn locked_row(url: &str, lock: impl Fn() + Sync, end: impl Fn()) {
    let mut side = Side::connect(url, 1).await;
    let mut leases = Vec::new();
    for number in 0..5 {
        let name = Name::new(format!("lock {number}")).unwrap();
        let mut request = side.request(secs(60));
        request.name = name;
        let base = side.granted(&request).await.tokens.base();
        leases.push(Renewal::new(request.name, request.attempt, base, request.ttl));
    }
    std::thread::scope(|scope| {
        let locker = scope.spawn(&lock);
        let renewing = async {
            until("the row is locked", || async {
                side.backend.renew(&leases[2..3]).await[0].is_err()
            })
            .await
            .unwrap();
            side.backend.renew(&leases).await
        };
        let answers =
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(renewing));
        end();
        locker.join().ok();
        for (at, answer) in answers.iter().enumerate() {
            assert_eq!(matches!(answer, Ok(Renewed::Renewed)), at != 2, "lock {at}: {answer:?}");
        }
    });
}

async fn strict_transactions_by_default_are_tried_again() {
    for level in ["serializable", "repeatable read"] {
        let setting = format!("default_transaction_isolation={level}");
        let server = Postgres::start(&[&setting]).unwrap();
        let mut tasks = Vec::new();
        for _ in 0..3 {
            let client = connect(&server.url()).await;
            tasks.push(tokio::spawn(async move {
                for round in 0..15_u64 {
                    let guard = client.lock("a").acquire().await?;
                    tokio::time::sleep(ms(round % 3)).await;
                    guard.release().await?;
                }
                Ok::<_, leasehold_core::Error>(())
            }));
        }
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    }
}

async fn behind_a_pooler_those_who_wait_look_by_themselves() {
    let server = Postgres::start(&[]).unwrap();
    let pooler = PgBouncer::start(&server, 4).unwrap();
    let listens = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    let (one, two) = (connect(&pooler.url()).await, connect(&pooler.url()).await);
    for _ in 0..3 {
        let guard = one.lock("a").acquire().await.unwrap();
        let lock = two.lock("a");
        let waiting = tokio::spawn(async move { lock.acquire().await });
        until("it waits", || async {
            let status = one.lock("a").status().await;
            status.is_ok_and(|status| status.waiters.is_some_and(|waiters| !waiters.is_empty()))
        })
        .await
        .unwrap();
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
    assert_eq!(server.sql(listens).unwrap(), "0", "LISTEN went to a shared connection");
    // With the database's own address, the server notifies.
    let past = format!("{}?listen={}", pooler.url(), server.address());
    let (one, two) = (connect(&past).await, connect(&past).await);
    let guard = one.lock("b").acquire().await.unwrap();
    let lock = two.lock("b");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until("it listens", || async { server.sql(listens).unwrap() == "1" }).await.unwrap();
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}
