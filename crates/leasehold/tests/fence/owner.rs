//! Compare-and-set by attempt id: what it stops, and what it does not.

use std::sync::Arc;

use leasehold::AttemptId;
use leasehold::fence::redis::{Owned, RedisFence};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection as Connection;

use leasehold_test_servers::RedisServer;

const FENCE: RedisFence = RedisFence::new();

/// An earlier and a later holder of the lock "orders/555".
async fn holders() -> (AttemptId, AttemptId) {
    let client = leasehold::connect("memory:").await.unwrap();
    let lock = client.lock("orders/555");
    let earlier = lock.acquire().await.unwrap();
    let first = earlier.attempt();
    earlier.release().await.unwrap();
    (first, lock.acquire().await.unwrap().attempt())
}

async fn set(redis: &mut Connection, key: &str, value: &str, attempt: AttemptId) -> Owned {
    FENCE.set_if_owner(redis, key, value, attempt).await.unwrap()
}

async fn value(redis: &mut Connection, key: &str) -> Option<String> {
    redis.get(key).await.unwrap()
}

pub(crate) async fn a_claimed_key_stops_the_owner_before(
    mut redis: Connection,
    _: Arc<RedisServer>,
) {
    let (earlier, later) = holders().await;
    let unclaimed = set(&mut redis, "stops", "x", earlier).await;
    assert_eq!(unclaimed, Owned::NotOwner { owner: None });

    FENCE.claim(&mut redis, "stops", earlier).await.unwrap();
    assert_eq!(set(&mut redis, "stops", "first", earlier).await, Owned::Written);
    // The earlier holder is paused here.
    FENCE.claim(&mut redis, "stops", later).await.unwrap();
    assert_eq!(set(&mut redis, "stops", "second", later).await, Owned::Written);
    let late = set(&mut redis, "stops", "late", earlier).await;
    assert_eq!(late, Owned::NotOwner { owner: Some(later) });
    assert_eq!(value(&mut redis, "stops").await.as_deref(), Some("second"));
}

pub(crate) async fn a_late_writer_passes_until_the_new_owner_has_claimed(
    mut redis: Connection,
    _: Arc<RedisServer>,
) {
    let (earlier, later) = holders().await;
    FENCE.claim(&mut redis, "early", earlier).await.unwrap();
    // The later holder has the lock, has read the value, and has told the resource nothing yet.
    assert_eq!(value(&mut redis, "early").await, None);
    assert_eq!(set(&mut redis, "early", "late", earlier).await, Owned::Written);
    FENCE.claim(&mut redis, "early", later).await.unwrap();
    assert_eq!(value(&mut redis, "early").await.as_deref(), Some("late"));
}

pub(crate) async fn a_late_claim_passes_and_locks_the_later_owner_out(
    mut redis: Connection,
    _: Arc<RedisServer>,
) {
    let (earlier, later) = holders().await;
    FENCE.claim(&mut redis, "order", later).await.unwrap();
    assert_eq!(set(&mut redis, "order", "second", later).await, Owned::Written);
    // The earlier holder was paused before its claim, and wakes up. A token would stop it here.
    FENCE.claim(&mut redis, "order", earlier).await.unwrap();
    assert_eq!(set(&mut redis, "order", "late", earlier).await, Owned::Written);
    assert_eq!(value(&mut redis, "order").await.as_deref(), Some("late"));
    let out = set(&mut redis, "order", "third", later).await;
    assert_eq!(out, Owned::NotOwner { owner: Some(earlier) });
}
