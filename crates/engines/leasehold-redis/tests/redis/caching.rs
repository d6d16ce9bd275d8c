//! Cached leases on a server: what they cost, and what happens to them when the server restarts, loses its
//! data or a message.

use std::sync::Arc;

use leasehold_conformance::until;
use leasehold_core::backend::{Event, Renewed};
use leasehold_core::{AttemptId, Client, LossReason, State, StoreUrl};
use leasehold_test_servers::{RedisServer, RedisSettings};

use crate::side::{Side, release};
use crate::{Test, calls, connect, ms, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_lease_that_is_cached_costs_the_server_nothing),
    test!(a_read_lease_that_is_cached_costs_the_server_nothing),
    test!(a_restart_without_data_ends_what_is_cached),
    test!(a_restart_without_data_ends_cached_read_leases),
    test!(a_restart_with_older_data_ends_what_is_cached),
    test!(a_taken_lease_of_a_flushed_server_is_a_loss_at_its_renewal),
    test!(the_first_waiter_repeats_that_it_waits_and_answers_tell_of_it),
    test!(a_user_that_may_not_subscribe_cannot_cache),
];

/// Connects, and returns when the client has handled the beginning of its subscription: that ends what is
/// cached.
async fn steady(server: &RedisServer) -> Client {
    let client = connect(&server.url()).await;
    client.lock("first").acquire().await.unwrap().release().await.unwrap();
    client.settle().await;
    client
}

/// Acquires and releases, and returns the token.
async fn turn(client: &Client) -> u64 {
    let guard = client.lock("a").ttl(secs(60)).cache(secs(30)).acquire().await.unwrap();
    let token = guard.token().get();
    guard.release().await.unwrap();
    token
}

async fn a_lease_that_is_cached_costs_the_server_nothing() {
    let server = plain();
    let client = steady(&server).await;
    let mut last = turn(&client).await;
    let before = calls(&server);
    for _ in 0..1000 {
        let token = turn(&client).await;
        assert!(token > last, "{token} after {last}");
        last = token;
    }
    assert_eq!(calls(&server), before);
    client.close().await;
    let status = connect(&server.url()).await.lock("a").status().await.unwrap();
    assert_eq!(status.state, State::Free);
}

/// Reads, and returns the token.
async fn read(client: &Client) -> u64 {
    let lock = client.rw_lock("a").ttl(secs(60)).cache(secs(30));
    let guard = lock.read_within(secs(60)).await.unwrap();
    let token = guard.token().get();
    guard.release().await.unwrap();
    token
}

async fn a_read_lease_that_is_cached_costs_the_server_nothing() {
    let server = plain();
    let client = steady(&server).await;
    let token = read(&client).await;
    let before = calls(&server);
    for _ in 0..1000 {
        assert_eq!(read(&client).await, token);
    }
    assert_eq!(calls(&server), before);
    let other = connect(&server.url()).await;
    let write = other.rw_lock("a").write_within(secs(30)).await.unwrap();
    assert!(write.token().get() > token);
    write.release().await.unwrap();
    assert!(read(&client).await > token);
    client.close().await;
    assert_eq!(other.lock("a").status().await.unwrap().state, State::Free);
}

/// Waits until no lease is cached and the server answers again.
async fn noticed(client: &Client) {
    until("the break is noticed", || async {
        client.usage().cached == 0 && client.lock("b").status().await.is_ok()
    })
    .await
    .unwrap();
}

async fn a_restart_without_data_ends_what_is_cached() {
    let mut server = plain();
    let client = steady(&server).await;
    let before = turn(&client).await;
    server.restart_empty().unwrap();
    noticed(&client).await;
    let guard = connect(&server.url()).await.lock("a").acquire().await.unwrap();
    assert!(guard.token().get() > before);
    assert!(client.lock("a").cache(secs(30)).try_acquire().await.unwrap().is_none());
    let token = guard.token().get();
    guard.release().await.unwrap();
    assert!(turn(&client).await > token);
    client.close().await;
}

async fn a_restart_without_data_ends_cached_read_leases() {
    let mut server = plain();
    let client = steady(&server).await;
    let before = read(&client).await;
    server.restart_empty().unwrap();
    noticed(&client).await;
    let guard = connect(&server.url()).await.rw_lock("a").write().await.unwrap();
    assert!(guard.token().get() > before);
    let lock = client.rw_lock("a").cache(secs(30));
    assert!(lock.try_read().await.unwrap().is_none(), "it was taken after the reconnect");
    let token = guard.token().get();
    guard.release().await.unwrap();
    assert!(read(&client).await > token);
    client.close().await;
}

async fn a_restart_with_older_data_ends_what_is_cached() {
    let settings = RedisSettings::new().append_only().line("appendfsync always");
    let mut server = RedisServer::start(settings).unwrap();
    let client = steady(&server).await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    let kept = server.aof_bytes().unwrap();
    let mut last = 0;
    for _ in 0..10 {
        last = turn(&client).await;
    }
    let all = server.aof_bytes().unwrap();
    server.kill();
    // The data that is left does not have the lease of which these tokens were.
    server.truncate_aof(all - kept).unwrap();
    server.start_again().unwrap();
    noticed(&client).await;
    let other = connect(&server.url()).await;
    let guard = other.lock("a").acquire_within(secs(60)).await.unwrap();
    assert!(guard.token().get() > last, "{} after {last}", guard.token());
    assert!(client.lock("a").cache(secs(30)).try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    client.close().await;
}

async fn a_taken_lease_of_a_flushed_server_is_a_loss_at_its_renewal() {
    let server = plain();
    let client = steady(&server).await;
    let lock = client.lock("a").ttl(secs(20)).renew_after(ms(400)).cache(secs(30));
    lock.acquire().await.unwrap().release().await.unwrap();
    server.admin(&["FLUSHALL"]).unwrap();
    // The connection has not broken: nothing tells this client before it renews.
    let guard = lock.acquire().await.unwrap();
    assert_eq!(guard.lost().await, LossReason::NotOwner);
    let next = lock.acquire().await.unwrap();
    assert!(next.token() > guard.token());
    next.release().await.unwrap();
}

async fn the_first_waiter_repeats_that_it_waits_and_answers_tell_of_it() {
    let server = plain();
    let (mut holder, mut other) =
        (Side::connect(&server.url()).await, Side::connect(&server.url()).await);
    let held = holder.request(secs(60));
    let grant = holder.granted(&held).await;
    assert_eq!(holder.renew(&held, grant).await.unwrap(), Renewed::Renewed);
    let (first, second) = (other.request(secs(60)), other.request(secs(60)));
    for _ in 0..3 {
        other.queued(&first).await;
        wanted(&mut holder, held.attempt).await;
        other.queued(&second).await;
    }
    assert_eq!(holder.renew(&held, grant).await.unwrap(), Renewed::Wanted);
    assert!(holder.granted(&held).await.wanted);
    // The second waiter has repeated nothing: the next message is about the lease that begins now.
    holder.release(&release(&held, grant)).await.unwrap();
    let (attempt, grant) = other.pushed().await;
    assert_eq!((attempt, grant.wanted), (first.attempt, true));
    other.release(&release(&first, grant)).await.unwrap();
    let (attempt, grant) = other.pushed().await;
    assert_eq!((attempt, grant.wanted), (second.attempt, false));
    other.release(&release(&second, grant)).await.unwrap();
}

async fn wanted(side: &mut Side, attempt: AttemptId) {
    loop {
        match side.next_event().await {
            Event::Wanted { attempt: told, .. } => return assert_eq!(told, attempt),
            Event::Reset => {}
            other => panic!("{other:?}"),
        }
    }
}

async fn a_user_that_may_not_subscribe_cannot_cache() {
    let rights = crate::RIGHTS.replace(" +subscribe", "");
    let server = RedisServer::start(RedisSettings::new().user("app", &rights)).unwrap();
    let url = StoreUrl::parse(&server.url_as("app", "s3cret")).unwrap();
    let backend = Arc::new(leasehold_redis::connect(url).await.unwrap());
    let client = Client::new(backend).unwrap();
    let error = client.lock("a").cache(secs(1)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), leasehold_core::ErrorKind::Unsupported, "{error}");
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
}
