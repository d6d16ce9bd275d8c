//! Redis is away for a while, or does not take a key.

use leasehold_test_servers::Value;
use sqlx::Pool;

use super::database::{Talk, exec, stock};
use super::{cache, change, outbox, read, rows, secs, server, start, until, until_stats};

pub(crate) async fn while_redis_is_down_rows_wait_and_nothing_is_parked<E: Talk>(pool: Pool<E>) {
    let mut redis = server();
    let cache = cache(&redis.url());
    let (outbox, relay) = outbox(&pool).await;
    stock(&pool, 1).await;
    assert_eq!(read(&cache, &pool).await, 1);
    // One failure would be enough to be parked, if it were the row's.
    let relay = relay.tries(1).open(&redis.url()).unwrap();
    redis.kill();
    exec(&pool, "UPDATE stock SET amount = 2").await;
    change(&pool, &outbox, &cache, &["1"]).await;
    let task = start(&relay);
    until_stats("it fails", &relay, |stats| stats.failures >= 4).await;
    let stats = relay.stats();
    assert!(stats.problem.is_some_and(|problem| problem.contains("Redis")));
    assert_eq!((stats.delivered, stats.refused, stats.parked), (0, 0, 0));
    assert_eq!(rows(&pool).await, 1);
    assert!(relay.once().await.is_err());
    redis.restart().unwrap();
    until_stats("it is delivered", &relay, |stats| stats.delivered == 1).await;
    assert_eq!(read(&cache, &pool).await, 2);
    until_stats("all is well", &relay, |stats| stats.problem.is_none()).await;
    task.abort();
}

pub(crate) async fn a_row_that_is_refused_is_parked_with_its_reason_and_can_be_tried_anew<
    E: Talk,
>(
    pool: Pool<E>,
) {
    let redis = server();
    let cache = cache(&redis.url());
    let (outbox, relay) = outbox(&pool).await;
    let relay = relay.tries(2).open(&redis.url()).unwrap();
    let foreign = "{leasehold-cache:test:bad}:h";
    redis.admin(&["SET", foreign, "foreign"]).unwrap();
    change(&pool, &outbox, &cache, &["good", "bad", "better"]).await;
    let task = start(&relay);
    until_stats("it is parked", &relay, |stats| stats.parked == 1).await;
    let stats = relay.stats();
    assert_eq!((stats.delivered, stats.refused, stats.failures), (2, 2, 0));
    until_stats("it is seen", &relay, |stats| stats.parked_rows == 1 && stats.oldest.is_zero())
        .await;
    let parked = relay.parked(10).await.unwrap();
    assert_eq!((parked.len(), parked[0].key.as_str()), (1, "bad"));
    assert_eq!(parked[0].cache, "leasehold-cache:test");
    assert!(parked[0].problem.contains("WRONGTYPE"), "{parked:?}");
    // What comes later is not held up.
    change(&pool, &outbox, &cache, &["later"]).await;
    until_stats("the next is delivered", &relay, |stats| stats.delivered == 3).await;
    redis.admin(&["DEL", foreign]).unwrap();
    assert_eq!(relay.unpark().await.unwrap(), 1);
    until_stats("it is delivered", &relay, |stats| stats.delivered == 4).await;
    assert_eq!((rows(&pool).await, relay.unpark().await.unwrap()), (0, 0));
    assert_eq!(redis.admin(&["EXISTS", foreign]).unwrap(), Value::Integer(0));
    task.abort();
}

pub(crate) async fn the_age_of_the_oldest_row_is_measured<E: Talk>(pool: Pool<E>) {
    let mut redis = server();
    let cache = cache(&redis.url());
    let (outbox, relay) = outbox(&pool).await;
    let relay = relay.open(&redis.url()).unwrap();
    redis.kill();
    change(&pool, &outbox, &cache, &["a"]).await;
    let task = start(&relay);
    until_stats("it has been there for a second", &relay, |stats| stats.oldest >= secs(1)).await;
    let before = relay.stats().oldest;
    until_stats("it gets older", &relay, |stats| stats.oldest > before).await;
    redis.restart().unwrap();
    until_stats("there is none", &relay, |stats| stats.oldest.is_zero()).await;
    until("the outbox is empty", || async { rows(&pool).await == 0 }).await;
    task.abort();
}

/// One failure would be enough to be parked, if it were the row's.
pub(crate) async fn what_the_server_refuses_altogether_parks_nothing<E: Talk>(pool: Pool<E>) {
    let redis = server();
    let cache = cache(&redis.url());
    let (outbox, builder) = outbox(&pool).await;
    let builder = builder.tries(1);
    change(&pool, &outbox, &cache, &["a"]).await;
    // There are 16 databases.
    let relay = builder.clone().open(&format!("{}/99", redis.url().trim_end_matches('/'))).unwrap();
    assert!(relay.once().await.is_err());
    let user =
        ["ACL", "SETUSER", "relay", "on", ">secret", "~*", "&*", "+@all", "-evalsha", "-eval"];
    redis.admin(&user).unwrap();
    let relay = builder.open(&redis.url_as("relay", "secret")).unwrap();
    assert!(relay.once().await.is_err());
    assert_eq!((relay.stats().refused, rows(&pool).await), (0, 1));
    assert!(relay.parked(1).await.unwrap().is_empty());
    // One key that this user may not write is the row's.
    let user = ["ACL", "SETUSER", "relay", "resetkeys", "~{leasehold-cache:test:b}*", "+@all"];
    redis.admin(&user).unwrap();
    change(&pool, &outbox, &cache, &["b"]).await;
    relay.once().await.unwrap();
    let stats = relay.stats();
    assert_eq!((stats.delivered, stats.parked), (1, 1), "{stats:?}");
    let parked = relay.parked(1).await.unwrap();
    assert!(parked[0].problem.contains("access"), "{parked:?}");
}

pub(crate) async fn a_password_that_is_right_at_last_is_tried<E: Talk>(pool: Pool<E>) {
    let redis = server();
    let cache = cache(&redis.url());
    let (outbox, builder) = outbox(&pool).await;
    change(&pool, &outbox, &cache, &["a"]).await;
    let relay = builder.open(&redis.url_as("relay", "secret")).unwrap();
    let task = start(&relay);
    until_stats("it is refused", &relay, |stats| stats.failures >= 2).await;
    redis.admin(&["ACL", "SETUSER", "relay", "on", ">secret", "~*", "&*", "+@all"]).unwrap();
    until_stats("it is delivered", &relay, |stats| stats.delivered == 1).await;
    task.abort();
}
