//! Servers that cannot push, or proxies in front of them: waiters ask again, and status shows that.

use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::until;
use leasehold_core::backend::{AcquireRequest, Answer, Backend, EventSink};
use leasehold_core::{AttemptId, Client, ClientId, ErrorKind, Name, StoreUrl};
use leasehold_redis::WireBackend;
use leasehold_test_servers::{RedisServer, RedisSettings};

use crate::{Test, calls, connect, everything_works, plain, secs, test, try_connect};

pub(crate) const TESTS: &[Test] = &[
    test!(without_the_right_to_subscribe_waiters_ask_again),
    test!(without_resp3_waiters_ask_again),
    test!(without_resp3_what_a_server_is_stays_known),
    test!(a_right_that_is_taken_away_later_stops_nobody),
    test!(without_the_right_to_see_who_listens_locks_are_handed_on),
    test!(without_reports_of_changes_waiters_of_other_formats_ask_each_second),
    test!(waiters_of_other_formats_ask_each_second_once_reports_are_refused),
];

/// Two clients acquire the lock in turn, and no client is in the queue of the server.
async fn waiters_ask_again(server: &RedisServer, url: &str) {
    let (one, two) = (connect(url).await, connect(url).await);
    assert!(!one.capability().push && !one.capability().ordered);
    let mut token = None;
    for _ in 0..3 {
        let held = one.lock("a").ttl(secs(60)).acquire().await.unwrap();
        assert!(Some(held.token()) > token);
        let lock = two.lock("a").ttl(secs(60));
        let before = calls(server);
        let waiting = tokio::spawn(async move { lock.acquire_within(secs(30)).await });
        until("it has asked, and again", || async { calls(server) > before + 1 }).await.unwrap();
        assert_eq!(server.admin(&["EXISTS", "leasehold:{a}:q"]).unwrap().integer(), Some(0));
        held.release().await.unwrap();
        let next = waiting.await.unwrap().unwrap();
        token = Some(next.token());
        next.release().await.unwrap();
    }
    // A process hands the lock on in memory, and exchanges a lock that no other client wants.
    let both = (0..20).map(|_| {
        let lock = one.lock("b");
        tokio::spawn(async move { lock.acquire_within(secs(30)).await.unwrap().release().await })
    });
    for task in both.collect::<Vec<_>>() {
        task.await.unwrap().unwrap();
    }
}

async fn without_the_right_to_subscribe_waiters_ask_again() {
    let settings = RedisSettings::new().user("app", &format!("{} -subscribe", crate::RIGHTS));
    let server = RedisServer::start(settings).unwrap();
    waiters_ask_again(&server, &server.url_as("app", "s3cret")).await;
    assert!(connect(&server.url()).await.capability().push);
}

async fn without_resp3_waiters_ask_again() {
    let server =
        RedisServer::start(RedisSettings::new().line("rename-command HELLO \"\"")).unwrap();
    waiters_ask_again(&server, &server.url()).await;
    let client = connect(&server.url()).await;
    server.admin(&["CLIENT", "KILL", "TYPE", "normal"]).ok();
    client.lock("a").acquire_within(secs(30)).await.unwrap().release().await.unwrap();
    until("the new connection is good", || async { client.lock("a").status().await.is_ok() })
        .await
        .unwrap();
}

async fn without_resp3_what_a_server_is_stays_known() {
    let master = plain();
    let settings = RedisSettings::new().line("rename-command HELLO \"\"");
    let replica = RedisServer::start(settings.clone().replica_of(&master)).unwrap();
    let error = try_connect(&replica.url()).await.unwrap_err();
    assert!(error.to_string().contains("replica"), "{error}");
    let node = RedisServer::start(settings.cluster()).unwrap();
    let error = try_connect(&node.url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

async fn a_right_that_is_taken_away_later_stops_nobody() {
    let server = RedisServer::start(RedisSettings::new().user("app", crate::RIGHTS)).unwrap();
    let url = server.url_as("app", "s3cret");
    let (one, two) = (connect(&url).await, connect(&url).await);
    one.lock("a").acquire().await.unwrap().release().await.unwrap();
    server.admin(&["ACL", "SETUSER", "app", "-subscribe"]).unwrap();
    server.admin(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
    let held = one.lock("a").ttl(secs(60)).acquire_within(secs(30)).await.unwrap();
    let lock = two.lock("a").ttl(secs(60));
    let before = calls(&server);
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(30)).await });
    until("it has asked", || async { calls(&server) > before }).await.unwrap();
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

async fn without_the_right_to_see_who_listens_locks_are_handed_on() {
    let rights = format!("{} -pubsub|numsub", crate::RIGHTS);
    let server = RedisServer::start(RedisSettings::new().user("app", &rights)).unwrap();
    let url = server.url_as("app", "s3cret");
    everything_works(&url).await;
    let (one, two) = (connect(&url).await, connect(&url).await);
    let held = one.lock("a").ttl(secs(60)).acquire().await.unwrap();
    let lock = two.lock("a").ttl(secs(60));
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(30)).await });
    let queue_length = || server.admin(&["ZCARD", "leasehold:{a}:q"]).unwrap().integer();
    until("it stands in line", || async { queue_length() == Some(1) }).await.unwrap();
    // A dead waiter is ahead of it.
    let gone = format!("{:032x}{:08}{:08}0000", 7, 60_000, 1);
    server.admin(&["ZADD", "leasehold:{a}:q", "1", &gone]).unwrap();
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

async fn set_nx(url: &str) -> WireBackend {
    let url = StoreUrl::parse(&format!("{url}?wire=set-nx")).unwrap();
    leasehold_redis::connect_with_wire(url).await.unwrap()
}

/// After what time a waiter of the lock `a` is to ask again, if the server has answered.
async fn asks_again(backend: &WireBackend) -> Option<Duration> {
    let attempt = AttemptId::new(ClientId::from_bits(7), 1, 0);
    let request = AcquireRequest::new(Name::new("a").unwrap(), attempt, secs(30)).with_wait(true);
    match backend.acquire(request).await {
        Ok(Answer::Busy { ask_again }) => ask_again,
        _ => None,
    }
}

async fn without_reports_of_changes_waiters_of_other_formats_ask_each_second() {
    let rights = "on >s3cret ~* &* +@all -client|tracking";
    let server = RedisServer::start(RedisSettings::new().user("app", rights)).unwrap();
    server.admin(&["SET", "a", "theirs"]).unwrap();
    let backend = set_nx(&server.url_as("app", "s3cret")).await;
    assert!(!backend.capability().push && !backend.capability().observe);
    assert_eq!(asks_again(&backend).await, Some(secs(1)));
    let client = Client::new(Arc::new(backend)).unwrap();
    let lock = client.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    server.admin(&["DEL", "a"]).unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

async fn waiters_of_other_formats_ask_each_second_once_reports_are_refused() {
    let rights = "on >s3cret ~* &* +@all";
    let server = RedisServer::start(RedisSettings::new().user("app", rights)).unwrap();
    server.admin(&["SET", "a", "theirs"]).unwrap();
    let backend = set_nx(&server.url_as("app", "s3cret")).await;
    let (events, _heard) = EventSink::channel();
    backend.attach(ClientId::from_bits(7), events);
    assert_eq!(asks_again(&backend).await, Some(secs(5)));
    server.admin(&["ACL", "SETUSER", "app", "-client|tracking"]).unwrap();
    server.admin(&["CLIENT", "KILL", "USER", "app"]).unwrap();
    until("it asks each second", || async { asks_again(&backend).await == Some(secs(1)) })
        .await
        .unwrap();
}
