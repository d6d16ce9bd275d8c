//! Compare-token-and-set against a real Redis.

use std::sync::Arc;
use std::time::Duration;

use leasehold::fence::Fenced;
use leasehold::fence::redis::RedisFence;
use leasehold::{ErrorKind, Token};
use leasehold_conformance::until;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection as Connection;

use crate::connect;
use leasehold_test_servers::{RedisServer, RedisSettings};

const FENCE: RedisFence = RedisFence::new();

fn token(value: u64) -> Token {
    Token::new(value).unwrap()
}

async fn set(connection: &mut Connection, key: &str, value: &str, number: u64) -> Fenced {
    FENCE.set_if_newer(connection, key, value, token(number)).await.unwrap()
}

fn highest(answer: Fenced) -> u64 {
    answer.into_result().unwrap_err().highest.get()
}

async fn get(connection: &mut Connection, key: &str) -> (Option<String>, Option<u64>) {
    let got = FENCE.get(connection, key).await.unwrap();
    (got.value.map(|value| String::from_utf8(value).unwrap()), got.token.map(Token::get))
}

pub(crate) async fn an_older_token_changes_nothing(mut redis: Connection, _: Arc<RedisServer>) {
    let key = "user:{42}:older";
    assert_eq!(get(&mut redis, key).await, (None, None));
    assert_eq!(set(&mut redis, key, "a", 34).await, Fenced::Written);
    assert_eq!(set(&mut redis, key, "b", 34).await, Fenced::Written);
    assert_eq!(highest(set(&mut redis, key, "late", 33).await), 34);
    assert_eq!(get(&mut redis, key).await, (Some("b".into()), Some(34)));
    assert_eq!(set(&mut redis, key, "c", 35).await, Fenced::Written);
    assert_eq!(get(&mut redis, key).await, (Some("c".into()), Some(35)));
}

pub(crate) async fn tokens_compare_as_numbers_over_the_whole_range(
    mut redis: Connection,
    _: Arc<RedisServer>,
) {
    let max = Token::MAX.get();
    let rising = [1, 2, 9, 10, 99, 100, 999, 1000, 1 << 32, 1 << 52, max - 2, max - 1, max];
    for (at, number) in rising.into_iter().enumerate() {
        assert_eq!(set(&mut redis, "range", "x", number).await, Fenced::Written, "{number}");
        for smaller in &rising[..at] {
            assert_eq!(highest(set(&mut redis, "range", "late", *smaller).await), number);
        }
        assert_eq!(get(&mut redis, "range").await, (Some("x".into()), Some(number)));
    }
}

pub(crate) async fn of_concurrent_writers_the_last_token_stays(
    _: Connection,
    server: Arc<RedisServer>,
) {
    let mut writers = Vec::new();
    for writer in 0..8_u64 {
        let mut redis = connect(&server).await;
        writers.push(tokio::spawn(async move {
            for round in 0..100 {
                let mine = 1 + round * 8 + (writer + round) % 8;
                match set(&mut redis, "many", &mine.to_string(), mine).await {
                    Fenced::Written => {
                        let (value, seen) = get(&mut redis, "many").await;
                        // One step: the value is always the one of the token beside it.
                        assert_eq!(value, seen.map(|seen| seen.to_string()));
                        assert!(seen >= Some(mine));
                    }
                    Fenced::Stale(stale) => assert!(stale.highest.get() > mine),
                    other => panic!("{other:?}"),
                }
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let mut redis = connect(&server).await;
    assert_eq!(get(&mut redis, "many").await, (Some("800".into()), Some(800)));
}

pub(crate) async fn flushed_scripts_are_sent_again_and_applied_once(
    mut redis: Connection,
    server: Arc<RedisServer>,
) {
    let mut other = connect(&server).await;
    for number in 1..=20 {
        let flush = redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut other).await;
        flush.unwrap();
        assert_eq!(set(&mut redis, "flush", "x", number).await, Fenced::Written);
    }
    assert_eq!(get(&mut redis, "flush").await.1, Some(20));
}

pub(crate) async fn the_token_outlives_its_value(mut redis: Connection, _: Arc<RedisServer>) {
    let fence = FENCE.ttl(Duration::from_millis(50)).retention(Duration::from_secs(600));
    let written = fence.set_if_newer(&mut redis, "short", "x", token(34)).await.unwrap();
    assert_eq!(written, Fenced::Written);
    until("the value has expired", || {
        let mut redis = redis.clone();
        async move { get(&mut redis, "short").await.0.is_none() }
    })
    .await
    .unwrap();
    assert_eq!(highest(set(&mut redis, "short", "late", 33).await), 34);
    let left: i64 = redis.pttl("{short}:fence").await.unwrap();
    assert!((1..=600_050).contains(&left), "{left}");

    // A value that stays has a fence that stays.
    assert_eq!(set(&mut redis, "short", "y", 34).await, Fenced::Written);
    let left: i64 = redis.pttl("{short}:fence").await.unwrap();
    assert_eq!(left, -1);

    let endless = FENCE.ttl(RedisFence::LONGEST).retention(RedisFence::LONGEST);
    let written = endless.set_if_newer(&mut redis, "short", "z", token(34)).await.unwrap();
    assert_eq!(written, Fenced::Written);
    let wrong = FENCE.ttl(Duration::ZERO).set_if_newer(&mut redis, "short", "", token(35)).await;
    assert_eq!(wrong.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(get(&mut redis, "short").await, (Some("z".into()), Some(34)));
}

pub(crate) async fn a_deleted_value_is_not_brought_back(
    mut redis: Connection,
    _: Arc<RedisServer>,
) {
    assert_eq!(set(&mut redis, "gone", "x", 34).await, Fenced::Written);
    let late = FENCE.delete_if_newer(&mut redis, "gone", token(33)).await.unwrap();
    assert_eq!(highest(late), 34);
    assert_eq!(get(&mut redis, "gone").await, (Some("x".into()), Some(34)));
    let deleted = FENCE.delete_if_newer(&mut redis, "gone", token(35)).await.unwrap();
    assert_eq!(deleted, Fenced::Written);
    assert_eq!(highest(set(&mut redis, "gone", "late", 34).await), 35);
    assert_eq!(get(&mut redis, "gone").await, (None, Some(35)));
    let left: i64 = redis.pttl("{gone}:fence").await.unwrap();
    let week = i64::try_from(RedisFence::RETENTION.as_millis()).unwrap();
    assert!((week - 60_000..=week).contains(&left), "{left}");
}

pub(crate) async fn an_announced_token_refuses_before_the_first_write(
    mut redis: Connection,
    _: Arc<RedisServer>,
) {
    assert_eq!(set(&mut redis, "told", "x", 33).await, Fenced::Written);
    let told = FENCE.announce(&mut redis, "told", token(34)).await.unwrap();
    assert_eq!(told, Fenced::Written);
    assert_eq!(highest(set(&mut redis, "told", "late", 33).await), 34);
    let late = FENCE.announce(&mut redis, "told", token(33)).await.unwrap();
    assert_eq!(highest(late), 34);
    assert_eq!(get(&mut redis, "told").await, (Some("x".into()), Some(34)));
}

pub(crate) async fn a_foreign_fence_is_left_as_it_is(mut redis: Connection, _: Arc<RedisServer>) {
    // Unpadded, empty, no digits, too long, and larger than any token.
    for foreign in ["34", "", "000000000000003x", "00000000000000034", "9999999999999999"] {
        let () = redis.set("{odd}:fence", foreign).await.unwrap();
        let () = redis.set("odd", "theirs").await.unwrap();
        let error = FENCE.set_if_newer(&mut redis, "odd", "ours", token(35)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{foreign}");
        let error = FENCE.get(&mut redis, "odd").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{foreign}");
        let left: (String, String) = redis.mget(&["odd", "{odd}:fence"]).await.unwrap();
        assert_eq!(left, ("theirs".into(), foreign.into()));
    }
    let () = redis.del("{odd}:fence").await.unwrap();
    let () = redis.rpush("{odd}:fence", "34").await.unwrap();
    let error = FENCE.delete_if_newer(&mut redis, "odd", token(35)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert!(error.to_string().starts_with("delete_if_newer: redis: "), "{error}");
}

pub(crate) async fn a_full_server_refuses_a_value_and_lets_it_be_deleted(
    _: Connection,
    _: Arc<RedisServer>,
) {
    // A server of its own: the others go on writing.
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let mut redis = connect(&server).await;
    assert_eq!(set(&mut redis, "full", "x", 33).await, Fenced::Written);
    let mut config = redis::cmd("CONFIG");
    config.arg("SET").arg("maxmemory").arg("1").exec_async(&mut redis).await.unwrap();
    let refused = FENCE.set_if_newer(&mut redis, "full", "y", token(34)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused, "{refused}");
    assert_eq!(get(&mut redis, "full").await, (Some("x".into()), Some(33)));
    let deleted = FENCE.delete_if_newer(&mut redis, "full", token(34)).await.unwrap();
    assert_eq!(deleted, Fenced::Written);
    assert_eq!(get(&mut redis, "full").await, (None, Some(34)));
}

pub(crate) async fn an_older_value_is_taken_over_and_read_by_plain_get(
    mut redis: Connection,
    _: Arc<RedisServer>,
) {
    let () = redis.set("plain", "before").await.unwrap();
    assert_eq!(get(&mut redis, "plain").await, (Some("before".into()), None));
    assert_eq!(set(&mut redis, "plain", "after\0\u{ff}", 1).await, Fenced::Written);
    let value: String = redis.get("plain").await.unwrap();
    assert_eq!(value, "after\0\u{ff}");
}
