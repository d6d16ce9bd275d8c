//! Changes that the server pushes to observers.

use std::time::Duration;

use leasehold_conformance::until;
use leasehold_core::{Client, Leader, Leaders};
use leasehold_test_servers::{Proxy, RedisServer, RedisSettings};

use crate::{Test, connect, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_change_while_the_connection_is_cut_is_seen_after_it),
    test!(what_an_operator_deletes_is_seen),
    test!(an_observer_outlives_the_runtime_of_another),
    test!(without_the_right_observers_ask_at_intervals),
    test!(a_lock_that_changes_often_is_asked_for_seldom),
    test!(an_observer_that_has_gone_is_not_asked_for_any_more),
];

const RARELY: Duration = Duration::from_secs(3600);

async fn observe(client: &Client, every: Duration) -> Leaders {
    client.election("a").observe_every(every).observe().await.unwrap()
}

async fn next(leaders: &mut Leaders) -> Option<Leader> {
    let next = tokio::time::timeout(secs(20), leaders.next()).await;
    next.expect("a change is seen in time").expect("the stream goes on")
}

async fn a_change_while_the_connection_is_cut_is_seen_after_it() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let (client, direct) = (connect(&proxy.url()).await, connect(&server.url()).await);
    let mut leaders = observe(&client, RARELY).await;
    assert!(next(&mut leaders).await.is_none());
    for _ in 0..3 {
        proxy.kill_connections();
        let guard = direct.lock("a").acquire().await.unwrap();
        assert_eq!(next(&mut leaders).await.unwrap().token, guard.token());
        proxy.kill_connections();
        guard.release().await.unwrap();
        assert!(next(&mut leaders).await.is_none());
    }
}

async fn what_an_operator_deletes_is_seen() {
    let server = plain();
    let (client, other) = (connect(&server.url()).await, connect(&server.url()).await);
    for command in [&["DEL", "leasehold:{a}"][..], &["FLUSHALL"], &["FLUSHALL", "ASYNC"]] {
        let _guard = other.lock("a").acquire().await.unwrap();
        let mut leaders = observe(&client, RARELY).await;
        assert!(next(&mut leaders).await.is_some());
        server.admin(command).unwrap();
        assert!(next(&mut leaders).await.is_none(), "{command:?}");
    }
}

async fn an_observer_outlives_the_runtime_of_another() {
    let server = plain();
    let (client, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let observer = client.clone();
    let first = std::thread::spawn(move || {
        let outside = observer.lock("a").changes().unwrap(); // No panic without a runtime.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let inside = runtime.block_on(async { observer.lock("a").changes().unwrap() });
        (outside, inside)
    });
    let _changes = tokio::task::spawn_blocking(|| first.join()).await.unwrap().unwrap();
    let mut leaders = observe(&client, RARELY).await;
    assert!(next(&mut leaders).await.is_none());
    let _guard = other.lock("a").acquire().await.unwrap();
    assert!(next(&mut leaders).await.is_some());
}

async fn without_the_right_observers_ask_at_intervals() {
    let rights = crate::RIGHTS.replace("+client|tracking", "");
    let server = RedisServer::start(RedisSettings::new().user("app", &rights)).unwrap();
    let url = server.url_as("app", "s3cret");
    let (client, other) = (connect(&url).await, connect(&url).await);
    let mut leaders = observe(&client, Duration::from_millis(50)).await;
    assert!(next(&mut leaders).await.is_none());
    let guard = other.lock("a").acquire().await.unwrap();
    assert!(next(&mut leaders).await.is_some());
    guard.release().await.unwrap();
    assert!(next(&mut leaders).await.is_none());
}

/// Returns how often the server was asked for reports.
fn requests(server: &RedisServer) -> u64 {
    let stats = server.admin(&["INFO", "commandstats"]).unwrap().text();
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_client|caching:calls="));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

async fn a_lock_that_changes_often_is_asked_for_seldom() {
    let server = plain();
    let (client, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let _changes = client.lock("a").changes().unwrap();
    until("the server reports", || async { requests(&server) == 1 }).await.unwrap();
    let start = std::time::Instant::now();
    for _ in 0..2_000 {
        other.lock("a").acquire().await.unwrap().release().await.unwrap();
    }
    let most = start.elapsed().as_millis() / 10 + 2;
    assert!(u128::from(requests(&server)) <= most, "{} of {most}", requests(&server));
}

async fn an_observer_that_has_gone_is_not_asked_for_any_more() {
    let server = plain();
    let (client, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let changes = client.lock("a").changes().unwrap();
    until("the server reports", || async { requests(&server) == 1 }).await.unwrap();
    drop(changes);
    let _others = client.lock("b").changes().unwrap();
    for asked in 2..7 {
        until("the server reports", || async { requests(&server) == asked }).await.unwrap();
        // The report about `a` would be the first.
        for name in ["a", "b"] {
            other.lock(name).acquire().await.unwrap().release().await.unwrap();
        }
    }
}
