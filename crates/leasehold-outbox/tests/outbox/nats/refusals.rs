//! Refusals by the stream, by Redis, or by a server that does not count.

use std::sync::Arc;

use leasehold_outbox::Receiver;
use serde_json::json;
use sqlx::{Pool, Sqlite};

use super::super::recorder::Recorder;
use super::super::{cache, change, outbox, rows, secs, server, start, until, until_stats};
use super::{STREAM, broker, changes, configure, keys, left, messages, receive, until_received};

pub(super) async fn what_the_stream_refuses_is_parked(pool: Pool<Sqlite>) {
    let nats = broker().await;
    configure(&nats, "max_msg_size", 300);
    let (outbox, builder) = outbox(&pool).await;
    let relay = builder.tries(2).open(&nats.url()).unwrap();
    changes(&pool, &outbox, &["good".into(), "l".repeat(400), "better".into()]).await;
    let task = start(&relay);
    until_stats("it is parked", &relay, |stats| stats.parked == 1).await;
    let stats = relay.stats();
    assert_eq!((stats.delivered, stats.refused, stats.failures), (2, 2, 0));
    let parked = relay.parked(10).await.unwrap();
    assert!(parked[0].problem.contains("message size exceeds maximum"), "{parked:?}");
    configure(&nats, "max_msg_size", -1);
    assert_eq!(relay.unpark().await.unwrap(), 1);
    until_stats("it is delivered", &relay, |stats| stats.delivered == 3).await;
    assert_eq!((rows(&pool).await, messages(&nats)), (0, 3));
    task.abort();
}

/// One failure would be enough to be parked, if it were the row's.
pub(super) async fn a_full_stream_parks_nothing(pool: Pool<Sqlite>) {
    let nats = broker().await;
    configure(&nats, "max_msgs", 3);
    let (outbox, builder) = outbox(&pool).await;
    let relay = builder.tries(1).open(&nats.url()).unwrap();
    changes(&pool, &outbox, &keys(5)).await;
    let error = relay.once().await.unwrap_err();
    assert!(error.to_string().contains("maximum messages exceeded"), "{error}");
    assert_eq!((rows(&pool).await, relay.stats().refused, messages(&nats)), (5, 0, 3));
    configure(&nats, "max_msgs", -1);
    assert_eq!((relay.once().await.unwrap(), messages(&nats)), (5, 5), "none is twice there");
}

pub(super) async fn while_redis_is_down_messages_wait_and_none_is_given_up(pool: Pool<Sqlite>) {
    let (mut redis, nats) = (server(), broker().await);
    let (outbox, relay) = outbox(&pool).await;
    let keys = keys(9);
    changes(&pool, &outbox, &keys).await;
    assert_eq!(relay.open(&nats.url()).unwrap().once().await.unwrap(), 9);
    for key in &keys {
        redis.admin(&["SET", &format!("{{leasehold-cache:test:{key}}}"), "old"]).unwrap();
    }
    redis.admin(&["SAVE"]).unwrap();
    let url = redis.url();
    // One failure would be enough to be given up, if it were the message's.
    let builder = Receiver::builder(&nats.url()).unwrap().batch(4).tries(1).claim(secs(1));
    let receiver = Arc::new(builder.open(&url).unwrap());
    redis.kill();
    let task = receive(&receiver);
    until_received("it fails", &receiver, |stats| stats.failures >= 5).await;
    let stats = receiver.stats();
    assert_eq!((stats.applied, stats.refused, stats.given_up), (0, 0, 0));
    assert!(stats.problem.is_some_and(|problem| problem.contains("Redis")));
    until_received("it gets older", &receiver, |stats| stats.oldest > secs(1)).await;
    assert_eq!(left(&nats, "leasehold-cache"), 9);
    redis.start_again().unwrap();
    until("all are applied", || async { left(&nats, "leasehold-cache") == 0 }).await;
    for key in &keys {
        let exists = redis.admin(&["EXISTS", &format!("{{leasehold-cache:test:{key}}}")]);
        assert_eq!(exists.unwrap().text(), "0", "{key}");
    }
    until_received("all is well", &receiver, |stats| stats.problem.is_none()).await;
    let stats = receiver.stats();
    assert_eq!((stats.refused, stats.given_up, stats.oldest), (0, 0, secs(0)));
    task.abort();
}

pub(super) async fn what_redis_refuses_is_given_up_and_stands_in_nobodys_way(pool: Pool<Sqlite>) {
    let (redis, nats) = (server(), broker().await);
    let cache = cache(&redis.url());
    let (outbox, relay) = outbox(&pool).await;
    redis.admin(&["SET", "{leasehold-cache:test:bad}:h", "foreign"]).unwrap();
    change(&pool, &outbox, &cache, &["good", "bad", "better"]).await;
    let relay = relay.open(&nats.url()).unwrap();
    assert_eq!(relay.once().await.unwrap(), 3);
    let builder = Receiver::builder(&nats.url()).unwrap().tries(2);
    let receiver = Arc::new(builder.open(&redis.url()).unwrap());
    let task = receive(&receiver);
    until_received("it is refused", &receiver, |stats| stats.refused == 1).await;
    assert_eq!(receiver.stats().applied, 2);
    change(&pool, &outbox, &cache, &["later"]).await;
    assert_eq!(relay.once().await.unwrap(), 1);
    until_received("it is given up", &receiver, |stats| stats.given_up == 1).await;
    until_received("what came later is not", &receiver, |stats| stats.applied == 3).await;
    assert_eq!((receiver.stats().refused, receiver.stats().failures), (2, 0));
    until("it does not come again", || async { left(&nats, "leasehold-cache") == 0 }).await;
    task.abort();
}

pub(super) async fn what_no_relay_has_written_is_given_up(pool: Pool<Sqlite>) {
    let nats = broker().await;
    for foreign in [
        json!("text"),
        json!({"cache": "no colon", "key": "a"}),
        json!({"cache": "a:b", "key": "a\n"}),
        json!({"cache": "a:b", "key": "a", "hold_ms": -1}),
        json!({"cache": "a:b", "key": "good"}),
    ] {
        let stored = nats.request("leasehold-cache.changes", &foreign).unwrap();
        assert_eq!(stored["stream"], STREAM);
    }
    let (outbox, relay) = outbox(&pool).await;
    changes(&pool, &outbox, &["better".into()]).await;
    assert_eq!(relay.open(&nats.url()).unwrap().once().await.unwrap(), 1);
    let recorder = Recorder::new();
    let receiver = Receiver::builder(&nats.url()).unwrap().to(recorder.clone()).unwrap();
    assert_eq!(receiver.once().await.unwrap(), 6);
    assert_eq!(recorder.delivered(), [("good".into(), 1), ("better".into(), 1)].into());
    let stats = receiver.stats();
    assert_eq!((stats.applied, stats.refused, stats.given_up), (2, 4, 4));
    until("they do not come again", || async { left(&nats, "leasehold-cache") == 0 }).await;
    assert_eq!(receiver.once().await.unwrap(), 0);
}
