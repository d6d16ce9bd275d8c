//! Locks in the format of rueidislock: several keys on one server, of which a majority makes a holder.

mod steps;

use std::sync::Arc;

use leasehold_conformance::until;
use leasehold_core::{Client, Error, ErrorKind, State, StoreUrl};
use leasehold_test_servers::{RedisCluster, RedisServer, RedisSettings, Value};

use crate::{Test, plain, secs, test};
use steps::{a_planted_bug_in_the_script_is_found, the_script_does_what_a_majority_needs};

pub(crate) const TESTS: &[Test] = &[
    test!(all_keys_are_taken_and_freed_together),
    test!(a_majority_without_the_first_key_is_waited_for),
    test!(an_attempt_of_rueidislock_is_neither_overwritten_nor_deleted),
    test!(a_key_that_was_lost_is_taken_again_while_a_majority_is_left),
    test!(a_lock_that_rueidislock_takes_by_force_is_lost),
    test!(a_lock_of_a_clock_that_is_behind_ends_at_once),
    test!(another_majority_under_one_name_is_refused),
    test!(a_cluster_needs_a_tag_in_the_name),
    test!(the_script_does_what_a_majority_needs),
    test!(a_planted_bug_in_the_script_is_found),
];

// The scripts of rueidislock 1.0.79, each for one key: acquire until a time, acquire by force, delete.
pub(crate) const ACQUIRE: &str = r#"local r = redis.call("SET",KEYS[1],ARGV[1],"NX","PXAT",ARGV[2]);redis.call("GET",KEYS[1]);return r"#;
const FORCE: &str = r#"local r = redis.call("SET",KEYS[1],ARGV[1],"PXAT",ARGV[2]);redis.call("GET",KEYS[1]);return r"#;
pub(crate) const EXTEND: &str = r#"if redis.call("GET",KEYS[1]) == ARGV[1] then local r = redis.call("PEXPIREAT",KEYS[1],ARGV[2]);redis.call("GET",KEYS[1]);return r end;return 0"#;
pub(crate) const DELETE: &str =
    r#"if redis.call("GET",KEYS[1]) == ARGV[1] then return redis.call("DEL",KEYS[1]) end;return 0"#;

/// As the library makes them: 24 bytes, which need be no text.
const THEIRS: &str = "\u{1}\u{fffd}bytes of a rueidislock";
/// Far in the future, in ms of the Unix epoch.
pub(crate) const LATE: &str = "4102444800000";

/// Runs a script of rueidislock on the key of this number for the lock `a`. Returns true if it did something.
fn rueidislock(server: &RedisServer, script: &str, number: usize, value: &str) -> bool {
    until_then(server, script, number, value, LATE)
}

/// The same by a clock that says when the lock ends.
fn until_then(server: &RedisServer, script: &str, number: usize, value: &str, ends: &str) -> bool {
    let answer = server.admin(&["EVAL", script, "1", &key(number), value, ends]).unwrap();
    !matches!(answer, Value::Null | Value::Integer(0))
}

fn key(number: usize) -> String {
    format!("rueidislock:{number}:a")
}

fn values(server: &RedisServer) -> Vec<Option<Vec<u8>>> {
    let value = |number| match server.admin(&["GET", &key(number)]).unwrap() {
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    };
    (0..3).map(value).collect()
}

async fn try_wire(url: &str, options: &str) -> Result<Client, Error> {
    let url = format!("{url}?wire=rueidis&{options}");
    let backend = leasehold_redis::connect_with_wire(StoreUrl::parse(&url)?).await?;
    Client::new(Arc::new(backend))
}

async fn wire(server: &RedisServer) -> Client {
    try_wire(&server.url(), "majority=2").await.unwrap()
}

async fn all_keys_are_taken_and_freed_together() {
    let server = plain();
    let client = wire(&server).await;
    let guard = client.lock("a").acquire().await.unwrap();
    let held = values(&server);
    assert!(held[0].as_ref().is_some_and(|value| value.starts_with(b"leasehold:")), "{held:?}");
    assert!(held.iter().all(|value| *value == held[0]), "{held:?}");
    for number in 0..3 {
        assert!(!rueidislock(&server, ACQUIRE, number, THEIRS), "{number}");
        let left = server.admin(&["PTTL", &key(number)]).unwrap().integer().unwrap();
        assert!((1..=30_000).contains(&left), "{left}");
    }
    guard.release().await.unwrap();
    assert_eq!(values(&server), [None, None, None]);
}

async fn a_majority_without_the_first_key_is_waited_for() {
    let server = plain();
    let client = wire(&server).await;
    for number in [1, 2] {
        assert!(rueidislock(&server, ACQUIRE, number, THEIRS));
    }
    let lock = client.lock("a");
    assert!(lock.try_acquire().await.unwrap().is_none());
    let status = lock.status().await.unwrap();
    assert_eq!(status.state, State::Held);
    assert!(status.note.is_some_and(|note| note.contains("another library")));
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    for number in [2, 1] {
        assert!(rueidislock(&server, DELETE, number, THEIRS));
    }
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// It has one key so far, and is about to take the next: without a majority it will give that back.
async fn an_attempt_of_rueidislock_is_neither_overwritten_nor_deleted() {
    let server = plain();
    let client = wire(&server).await;
    assert!(rueidislock(&server, ACQUIRE, 0, THEIRS));
    assert!(client.lock("a").try_acquire().await.unwrap().is_none());
    assert_eq!(values(&server), [Some(THEIRS.as_bytes().to_vec()), None, None]);
    assert!(rueidislock(&server, ACQUIRE, 1, THEIRS));
    assert!(rueidislock(&server, EXTEND, 0, THEIRS));
}

async fn a_key_that_was_lost_is_taken_again_while_a_majority_is_left() {
    let server = plain();
    let client = wire(&server).await;
    let guard = client.lock("a").renew_after(secs(1)).acquire().await.unwrap();
    server.admin(&["DEL", &key(0)]).unwrap();
    until("the key is back", || async { values(&server)[0].is_some() }).await.unwrap();
    guard.ensure(secs(0)).unwrap();
    guard.release().await.unwrap();
    assert_eq!(values(&server), [None, None, None]);
}

async fn a_lock_that_rueidislock_takes_by_force_is_lost() {
    let server = plain();
    let client = wire(&server).await;
    let lock = client.lock("a").ttl(secs(3600)).renew_after(secs(1));
    let guard = lock.acquire().await.unwrap();
    for number in [0, 1] {
        assert!(rueidislock(&server, FORCE, number, THEIRS));
    }
    guard.lost().await;
    // The third key is no obstacle for them long before it would end, and theirs are left alone.
    let ours_is_gone = || async { values(&server)[2].is_none() };
    until("our last key is deleted", ours_is_gone).await.unwrap();
    let theirs = Some(THEIRS.as_bytes().to_vec());
    assert_eq!(values(&server), [theirs.clone(), theirs, None]);
    guard.release().await.unwrap_err();
}

/// Its clients say by their own clocks when a lock ends. One that is behind believes that it holds, and so do we.
async fn a_lock_of_a_clock_that_is_behind_ends_at_once() {
    let server = plain();
    let client = wire(&server).await;
    for number in 0..3 {
        assert!(until_then(&server, ACQUIRE, number, THEIRS, "1"), "{number}: it has it");
    }
    let guard = client.lock("a").try_acquire().await.unwrap().unwrap();
    // Then it can do no harm to ours.
    for number in 0..3 {
        assert!(!rueidislock(&server, EXTEND, number, THEIRS), "{number}");
        assert!(!rueidislock(&server, DELETE, number, THEIRS), "{number}");
    }
    guard.ensure(secs(0)).unwrap();
    guard.release().await.unwrap();
    assert_eq!(values(&server), [None, None, None]);
}

async fn another_majority_under_one_name_is_refused() {
    let server = plain();
    wire(&server).await.lock("a").acquire().await.unwrap().release().await.unwrap();
    let other = try_wire(&server.url(), "majority=3").await.unwrap();
    let error = other.lock("a").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert!(error.to_string().contains("majority=2"), "{error}");
    let error = try_wire(&server.url(), "").await.unwrap_err();
    assert!(error.to_string().contains("KeyMajority"), "{error}");
}

async fn a_cluster_needs_a_tag_in_the_name() {
    let cluster = RedisCluster::start(RedisSettings::new().patient()).unwrap();
    let client = try_wire(&cluster.url(), "majority=2").await.unwrap();
    let error = client.lock("orders").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("a tag in braces"), "{error}");
    let guard = client.lock("{orders}/5").acquire_within(secs(60)).await.unwrap();
    assert!(client.lock("{orders}/5").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
}
