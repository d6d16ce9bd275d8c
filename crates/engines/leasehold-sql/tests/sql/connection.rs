//! Connections that are cut, silent, or closed by the database.

use std::task::Poll;
use std::time::Duration;

use leasehold_conformance::until;
use leasehold_core::backend::{Answer, Backend, Renewed, Verdict};
use leasehold_core::{ErrorKind, Forced, State};
use leasehold_test_servers::{Direction, MariaDb, Postgres, Proxy};

use crate::side::{Side, name, release, unheard};
use crate::tls::{mysql_is_used_over_tls, postgres_is_used_over_tls};
use crate::{Test, connect, ms, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_lost_reply_on_postgres_changes_nothing, Postgres),
    test!(a_lost_reply_on_mysql_changes_nothing, MySql),
    test!(a_forced_release_without_a_reply_on_postgres_reports_the_end, Postgres),
    test!(a_forced_release_without_a_reply_on_mysql_reports_the_end, MySql),
    test!(what_may_have_been_done_is_never_refused, Postgres),
    test!(a_request_that_arrives_late_on_postgres_does_nothing, Postgres),
    test!(a_request_that_arrives_late_on_mysql_does_nothing, MySql),
    test!(a_backend_that_is_terminated_costs_no_lock, Postgres),
    test!(a_connection_that_falls_silent_ends_in_time_and_is_made_anew, Postgres),
    test!(a_client_that_is_dropped_leaves_no_connection, Postgres),
    test!(a_release_dropped_anywhere_leaves_no_transaction_on_postgres, Postgres),
    test!(a_release_dropped_anywhere_leaves_no_transaction_on_mysql, MySql),
    test!(postgres_is_used_over_tls, PostgresTls),
    test!(mysql_is_used_over_tls, MySqlTls),
];

/// `postgres://` or `mysql://` through a proxy.
pub(crate) fn through(url: &str, proxy: &Proxy) -> String {
    let (login, rest) = url.rsplit_once('@').unwrap();
    let (_, database) = rest.split_once('/').unwrap();
    format!("{login}@{}/{database}", proxy.address())
}

async fn a_lost_reply_on_postgres_changes_nothing() {
    let server = Postgres::start(&[]).unwrap();
    lost_replies(&server.url(), &Proxy::opaque(server.address()).unwrap()).await;
}

async fn a_lost_reply_on_mysql_changes_nothing() {
    let server = MariaDb::start(&[]).unwrap();
    lost_replies(&server.url(), &Proxy::opaque(server.address()).unwrap()).await;
}

/// Uses each connection of the pool, so that it replaces those that were killed: a new connection
/// could not be opened while replies are cut. The pool takes them in turn.
pub(crate) async fn leave_working_connections(side: &Side) {
    for _ in 0..20 {
        side.status().await;
    }
}

/// Each kind of request is carried out, and its reply is lost.
async fn lost_replies(url: &str, proxy: &Proxy) {
    let mut far = Side::connect(&through(url, proxy), 1).await;
    let mut near = Side::connect(url, 2).await;
    // A lock that has a row.
    let first = far.request(secs(60));
    let grant = far.granted(&first).await;
    far.verdict(&release(&first, grant)).await;
    let request = far.request(secs(60));

    proxy.cut(Direction::ServerToClient);
    let asking = tokio::spawn({
        let (backend, request) = (far.backend.clone(), request.clone());
        async move { backend.acquire(request).await }
    });
    until("it holds", || async { near.status().await.state == State::Held }).await.unwrap();
    let before = near.status().await;
    proxy.kill_connections();
    proxy.heal();
    // Only the client knows whether it still wants the lock; it asks again.
    assert_eq!(asking.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    let grant = far.granted(&request).await;
    assert_eq!(Some(grant.tokens.base()), before.token, "the same lease and token");
    assert_eq!(far.granted(&request).await.tokens, grant.tokens);

    leave_working_connections(&far).await;
    let remaining = near.status().await.remaining.unwrap();
    proxy.cut(Direction::ServerToClient);
    let renewing = tokio::spawn({
        let (backend, request) = (far.backend.clone(), request.clone());
        async move {
            let (name, attempt, ttl) = (request.name, request.attempt, secs(600));
            let base = grant.tokens.base();
            let lease = leasehold_core::backend::Renewal::new(name, attempt, base, ttl);
            backend.renew(&[lease]).await.remove(0)
        }
    });
    until("it is renewed", || async { near.status().await.remaining.unwrap() > remaining })
        .await
        .unwrap();
    proxy.kill_connections();
    proxy.heal();
    assert_eq!(renewing.await.unwrap().unwrap(), Renewed::Renewed);

    leave_working_connections(&far).await;
    proxy.cut(Direction::ServerToClient);
    let ending = tokio::spawn({
        let (backend, release) = (far.backend.clone(), release(&request, grant));
        async move { backend.release(release).await }
    });
    until("it is released", || async { near.status().await.state == State::Free }).await.unwrap();
    let next = near.request(secs(60));
    let other = near.granted(&next).await;
    proxy.kill_connections();
    proxy.heal();
    assert_eq!(ending.await.unwrap().unwrap().verdict, Verdict::Released, "once, and told so");
    assert_eq!(
        near.renew(&next, other).await.unwrap(),
        Renewed::Renewed,
        "a successor was touched"
    );
    assert!(other.tokens.base() > grant.tokens.base());
}

async fn a_forced_release_without_a_reply_on_postgres_reports_the_end() {
    let server = Postgres::start(&[]).unwrap();
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let waits = || server.sql(waits).unwrap().trim() == "1";
    let proxy = Proxy::opaque(server.address()).unwrap();
    forced_without_a_reply::<sqlx::PgConnection>(&server.url(), &proxy, waits).await;
}

async fn a_forced_release_without_a_reply_on_mysql_reports_the_end() {
    let server = MariaDb::start(&[]).unwrap();
    let waits = "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
    let waits = || server.sql(waits).unwrap().trim() == "1";
    let proxy = Proxy::opaque(server.address()).unwrap();
    forced_without_a_reply::<sqlx::MySqlConnection>(&server.url(), &proxy, waits).await;
}

/// A forced release is carried out, its reply is lost, and another client acquires the lock before
/// the request is repeated: the answer is not that nothing was changed. The row is locked until the
/// release has read it, so that its replies can be cut in time.
async fn forced_without_a_reply<C>(url: &str, proxy: &Proxy, waits: impl Fn() -> bool)
where
    C: sqlx::Connection,
    for<'c> &'c mut C: sqlx::Executor<'c>,
{
    use sqlx::Executor as _;
    let far = Side::connect(&through(url, proxy), 1).await;
    let mut near = Side::connect(url, 2).await;
    let request = near.request(secs(60));
    let token = near.granted(&request).await.tokens.base();
    let mut locker = C::connect(url).await.unwrap();
    let lock = sqlx::raw_sql("BEGIN; SELECT 1 FROM leasehold_locks FOR UPDATE");
    (&mut locker).execute(lock).await.unwrap();
    let forcing = tokio::spawn({
        let backend = far.backend.clone();
        async move { backend.force_release(&name(), token).await }
    });
    until("the write waits for the row", || async { waits() }).await.unwrap();
    proxy.cut(Direction::ServerToClient);
    (&mut locker).execute(sqlx::raw_sql("COMMIT")).await.unwrap();
    until("the lease has ended", || async { near.status().await.state == State::Free })
        .await
        .unwrap();
    let next = near.request(secs(60));
    let other = near.granted(&next).await;
    proxy.kill_connections();
    proxy.heal();
    assert_eq!(forcing.await.unwrap().unwrap(), Forced::Ended);
    let renewed = near.renew(&next, other).await.unwrap();
    assert_eq!(renewed, Renewed::Renewed, "a successor was touched");

    // The lease ends by itself while the write waits: the forced release has not ended it.
    (&mut locker)
        .execute(sqlx::raw_sql("BEGIN; SELECT 1 FROM leasehold_locks FOR UPDATE"))
        .await
        .unwrap();
    let forcing = tokio::spawn({
        let backend = near.backend.clone();
        async move { backend.force_release(&name(), other.tokens.base()).await }
    });
    until("the write waits for the row", || async { waits() }).await.unwrap();
    let commit = "UPDATE leasehold_locks SET state = 0, stamp = stamp + 1; COMMIT";
    (&mut locker).execute(sqlx::raw_sql(commit)).await.unwrap();
    assert_eq!(forcing.await.unwrap().unwrap(), Forced::NotHeld);
}

/// Each time the reply to a release is lost, and the next request is refused: the same request
/// again, or the steps that follow if that has no effect.
async fn what_may_have_been_done_is_never_refused() {
    refused_after("ALTER ROLE app PASSWORD 'other'", "wrong user or password").await;
    refused_after("REVOKE ALL ON leasehold_waiters FROM app", "rights").await;
}

async fn refused_after(statement: &str, part: &str) {
    let server = Postgres::start(&[]).unwrap();
    let proxy = Proxy::opaque(server.address()).unwrap();
    let near = Side::connect(&server.url(), 2).await;
    server.sql("CREATE ROLE app LOGIN PASSWORD 'app'").unwrap();
    server.sql("GRANT ALL ON ALL TABLES IN SCHEMA public TO app").unwrap();
    let mut far = Side::connect(&through(&server.url_as("app", "app"), &proxy), 1).await;
    let request = far.request(secs(60));
    let grant = far.granted(&request).await;
    proxy.cut(Direction::ServerToClient);
    let ending = tokio::spawn({
        let (backend, release) = (far.backend.clone(), release(&request, grant));
        async move { backend.release(release).await }
    });
    until("it is released", || async { near.status().await.state == State::Free }).await.unwrap();
    server.sql(statement).unwrap();
    proxy.kill_connections();
    proxy.heal();
    let error = ending.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(part), "{error}");
}

async fn a_request_that_arrives_late_on_postgres_does_nothing() {
    let server = Postgres::start(&[]).unwrap();
    late_requests(&server.url(), &Proxy::opaque(server.address()).unwrap()).await;
}

async fn a_request_that_arrives_late_on_mysql_does_nothing() {
    let server = MariaDb::start(&[]).unwrap();
    late_requests(&server.url(), &Proxy::opaque(server.address()).unwrap()).await;
}

/// Each kind of request is on its way while its attempt ends and a successor takes over.
async fn late_requests(url: &str, proxy: &Proxy) {
    let mut far = Side::connect(&through(url, proxy), 1).await;
    let mut near = Side::connect(url, 2).await;
    let first = far.request(secs(60));
    let grant = far.granted(&first).await;
    let asks = [far.request(secs(60)), far.request(secs(60))];
    far.status().await;

    // An acquire, a renewal and a release are sent and delayed.
    let sent = proxy.bytes(Direction::ClientToServer);
    proxy.cut(Direction::ClientToServer);
    let mut under_way = Vec::new();
    for request in &asks {
        let (backend, request) = (far.backend.clone(), request.clone());
        under_way.push(tokio::spawn(async move {
            backend.acquire(request).await.ok();
        }));
    }
    let (backend, request) = (far.backend.clone(), first.clone());
    under_way.push(tokio::spawn(async move {
        let (name, attempt, ttl, base) =
            (request.name, request.attempt, request.ttl, grant.tokens.base());
        let lease = leasehold_core::backend::Renewal::new(name, attempt, base, ttl);
        backend.renew(&[lease]).await;
    }));
    let (backend, ending) = (far.backend.clone(), release(&first, grant));
    under_way.push(tokio::spawn(async move {
        backend.release(ending).await.ok();
    }));
    until("each has a connection", || async { proxy.connections().len() > asks.len() + 1 })
        .await
        .unwrap();

    // Another connection ends everything, and another client acquires the lock.
    assert_eq!(near.verdict(&release(&first, grant)).await, Verdict::Released);
    for request in &asks {
        near.verdict(&unheard(request).with_suspect(true)).await;
    }
    let next = near.request(secs(60));
    let other = near.granted(&next).await;
    under_way.iter().for_each(tokio::task::JoinHandle::abort);
    proxy.heal();
    until("the late requests have arrived", || async {
        proxy.bytes(Direction::ClientToServer) > sent
    })
    .await
    .unwrap();
    until("nobody is left of them", || async { proxy.connections().is_empty() }).await.unwrap();
    let status = near.status().await;
    assert_eq!(status.holder.unwrap().attempt, next.attempt);
    assert!(status.waiters.unwrap().is_empty());
    assert_eq!(near.renew(&next, other).await.unwrap(), Renewed::Renewed);
    assert_eq!(near.verdict(&release(&next, other)).await, Verdict::Released);
    for request in &asks {
        assert_eq!(near.backend.acquire(request.clone()).await.unwrap(), Answer::Ended);
    }
}

async fn a_backend_that_is_terminated_costs_no_lock() {
    let server = Postgres::start(&[]).unwrap();
    let client = connect(&server.url()).await;
    let other = connect(&server.url()).await;
    let all = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE application_name = 'leasehold'";
    let held = client.lock("held").ttl(secs(60)).renew_after(secs(1)).acquire().await.unwrap();
    let lock = other.lock("held");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until("it waits", || async {
        let status = client.lock("held").status().await;
        status.is_ok_and(|status| status.waiters.is_some_and(|waiters| !waiters.is_empty()))
    })
    .await
    .unwrap();
    // During acquires and releases, again and again.
    for round in 0..20 {
        let lock = client.lock("busy");
        let busy = tokio::spawn(async move {
            for _ in 0..10 {
                lock.acquire().await?.release().await?;
            }
            Ok::<_, leasehold_core::Error>(())
        });
        tokio::time::sleep(ms(round % 5)).await;
        server.sql(all).unwrap();
        busy.await.unwrap().unwrap();
    }
    let deadline = held.deadline();
    until("it is renewed", || async { held.deadline() != deadline }).await.unwrap();
    assert!(held.is_valid(), "the lease is in the table, not in the connection");
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    for name in ["held", "busy"] {
        let status = client.lock(name).status().await.unwrap();
        assert_eq!(status.state, State::Free, "{status:?}");
    }
}

async fn a_connection_that_falls_silent_ends_in_time_and_is_made_anew() {
    let server = Postgres::start(&[]).unwrap();
    let proxy = Proxy::opaque(server.address()).unwrap();
    let (client, other) =
        (connect(&through(&server.url(), &proxy)).await, connect(&server.url()).await);
    // The loss is reported a tenth of the ttl before the deadline.
    let guard = client.lock("a").ttl(secs(6)).acquire().await.unwrap();
    proxy.cut_all();
    let lock = other.lock("a");
    let next = tokio::spawn(async move { lock.acquire().await });
    guard.lost().await;
    assert!(guard.remaining() > Duration::ZERO, "told too late");
    let next = next.await.unwrap().unwrap();
    assert!(!guard.is_valid(), "two holders");
    assert!(next.token() > guard.token());
    // A call ends within its limit though the server does not answer.
    assert!(client.lock("b").status().await.is_err());
    proxy.heal();
    until("it works again", || async { client.lock("b").status().await.is_ok() }).await.unwrap();
    assert!(guard.release().await.is_err());
    assert!(next.is_valid());
    next.release().await.unwrap();
}

async fn a_client_that_is_dropped_leaves_no_connection() {
    let server = Postgres::start(&[]).unwrap();
    let connections = |what: &str| {
        let all = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leasehold'";
        server.sql(&format!("{all} AND query LIKE '{what}'")).unwrap()
    };
    // At once, while it begins to listen for a waiter, and when it listens.
    for round in 0..6 {
        let client = connect(&server.url()).await;
        let (held, lock) = (client.lock("a").acquire().await.unwrap(), client.lock("a"));
        let waiting = tokio::spawn(async move { lock.acquire().await.map(drop) });
        match round {
            0..3 => tokio::time::sleep(ms(5 * round)).await,
            _ => until("it listens", || async { connections("LISTEN%") == "1" }).await.unwrap(),
        }
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        held.release().await.unwrap();
        client.settle().await;
        drop(client);
        until("all connections have ended", || async { connections("%") == "0" }).await.unwrap();
    }
}

async fn a_release_dropped_anywhere_leaves_no_transaction_on_postgres() {
    let server = Postgres::start(&[]).unwrap();
    let open = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'";
    dropped_releases(&server.url(), || server.sql(open).unwrap()).await;
}

async fn a_release_dropped_anywhere_leaves_no_transaction_on_mysql() {
    let server = MariaDb::start(&[]).unwrap();
    let open = "SELECT COUNT(*) FROM information_schema.innodb_trx";
    dropped_releases(&server.url(), || server.sql(open).unwrap()).await;
}

/// A release of a lease with waiters is dropped after this many polls: `open` returns how many
/// transactions are open.
async fn dropped_releases(url: &str, open: impl Fn() -> String) {
    let (mut one, mut two) = (Side::connect(url, 1).await, Side::connect(url, 2).await);
    for polls in 0..40 {
        let held = one.request(secs(60));
        let grant = one.granted(&held).await;
        let waits = two.request(secs(60)).with_wait(true);
        two.queued(&waits).await;
        let mut pending = one.backend.release(release(&held, grant));
        for _ in 0..polls {
            let woken = std::future::poll_fn(|context| {
                Poll::Ready(pending.as_mut().poll(context).is_ready())
            });
            if woken.await {
                break;
            }
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
        drop(pending);
        // No row stays locked for the tasks that finish it, and for the next client.
        one.verdict(&release(&held, grant)).await;
        let offered = two.pushed(&waits).await;
        two.verdict(&release(&waits, offered)).await;
    }
    until("no transaction is open", || async { open() == "0" }).await.unwrap();
}
