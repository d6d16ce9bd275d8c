//! Several relays and many writers; how a relay is woken, and ends.

use std::collections::HashMap;
use std::time::Instant;

use leasehold_outbox::Outbox;
use sqlx::Pool;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::database::Talk;
use super::recorder::Recorder;
use super::{cache, change, ms, outbox, rows, secs, server, start, until, until_stats};

pub(crate) async fn two_relays_share_the_rows<E: Talk>(pool: Pool<E>) {
    let redis = server();
    let cache = cache(&redis.url());
    let (outbox, builder) = outbox(&pool).await;
    let keys: Vec<String> = (0..300).map(|at| format!("key {at}")).collect();
    for page in keys.chunks(30) {
        change(&pool, &outbox, &cache, &page.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    let recorder = Recorder::new();
    let builder = builder.batch(10);
    let relays = [0; 2].map(|_| builder.clone().to(recorder.clone()).unwrap());
    let tasks = relays.each_ref().map(start);
    until("all are delivered", || async { rows(&pool).await == 0 }).await;
    let once: HashMap<_, _> = keys.into_iter().map(|key| (key, 1)).collect();
    assert_eq!(recorder.delivered(), once);
    until("they count them", || {
        let all: u64 = relays.iter().map(|relay| relay.stats().delivered).sum();
        std::future::ready(all == 300)
    })
    .await;
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Writers are not disturbed by relays either: none of them fails.
pub(crate) async fn what_was_rolled_back_is_never_delivered<E: Talk>(pool: Pool<E>) {
    let redis = server();
    let cache = cache(&redis.url());
    let (outbox, builder) = outbox(&pool).await;
    let recorder = Recorder::new();
    let builder = builder.batch(7).poll(ms(10));
    let relays = [0; 2].map(|_| builder.clone().to(recorder.clone()).unwrap());
    let tasks = relays.each_ref().map(start);
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let (pool, outbox, cache) = (pool.clone(), outbox.clone(), cache.clone());
        writers.spawn(async move {
            for at in 0..40 {
                let mut tx = pool.begin().await.unwrap();
                let (keep, key) = (fastrand::bool(), format!("{writer} {at}"));
                let (key, other) = (format!("{key} {keep}"), format!("{key} {keep} too"));
                for key in [&key, &other] {
                    cache.invalidate_in_tx(&outbox, &mut tx, &[key.as_str()]).await.unwrap();
                }
                match keep {
                    true => tx.commit().await.unwrap(),
                    false => tx.rollback().await.unwrap(),
                }
            }
        });
    }
    writers.join_all().await;
    until("all are delivered", || async { rows(&pool).await == 0 }).await;
    let delivered = recorder.delivered();
    assert!(!delivered.is_empty());
    assert!(delivered.keys().all(|key| key.contains("true")), "{delivered:?}");
    for relay in &relays {
        let stats = relay.stats();
        // With one writer at a time, a relay may have to wait for its turn in vain.
        assert!(stats.failures == 0 || E::ONE_WRITER, "{stats:?}");
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

pub(crate) async fn a_key_that_changed_often_is_delivered_once<E: Talk>(pool: Pool<E>) {
    let redis = server();
    let cache = cache(&redis.url());
    let (outbox, builder) = outbox(&pool).await;
    for _ in 0..20 {
        change(&pool, &outbox, &cache, &["a", "b"]).await;
    }
    let recorder = Recorder::new();
    let relay = builder.to(recorder.clone()).unwrap();
    assert_eq!(relay.once().await.unwrap(), 40);
    assert_eq!(recorder.delivered(), [("a".into(), 1), ("b".into(), 1)].into());
    assert_eq!((rows(&pool).await, relay.once().await.unwrap()), (0, 0));
}

pub(crate) async fn a_relay_that_is_stopped_ends_its_batch<E: Talk>(pool: Pool<E>) {
    let redis = server();
    let cache = cache(&redis.url());
    let (outbox, builder) = outbox(&pool).await;
    change(&pool, &outbox, &cache, &["a", "b", "c"]).await;
    let recorder = Recorder::of(0);
    let relay = builder.batch(2).to(recorder.clone()).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let own = relay.clone();
    let task = tokio::spawn(async move { own.run(async { drop(stopped.await) }).await });
    until("it delivers", || std::future::ready(recorder.arrived() == 2)).await;
    stop.send(()).unwrap();
    tokio::task::yield_now().await;
    recorder.let_through(9);
    task.await.unwrap();
    assert_eq!((relay.stats().delivered, rows(&pool).await), (2, 1), "and begins no other");
}

pub(crate) async fn a_relay_is_woken_by_the_commit(pool: Pool<sqlx::Postgres>) {
    let redis = server();
    let cache = cache(&redis.url());
    let (outbox, builder) = outbox(&pool).await;
    let relay = builder.poll(secs(60)).to(Recorder::new()).unwrap();
    let task = start(&relay);
    // It has looked at an empty table, and would look again in a minute.
    until_stats("it listens", &relay, |stats| stats.delivered == 0).await;
    let begin = Instant::now();
    let mut done = 0;
    while begin.elapsed() < secs(50) && relay.stats().delivered < 5 {
        change(&pool, &outbox, &cache, &["a"]).await;
        done += 1;
        until("it is delivered", || {
            let waited = begin.elapsed() > secs(50);
            std::future::ready(relay.stats().delivered >= done || waited)
        })
        .await;
    }
    assert_eq!(relay.stats().delivered, 5);
    // Where it is not told, it does not come. It looks when it begins, when it listens, and once at most
    // for each of the five; five of these looks have found a row. Two at most may still be on their way.
    for found in 0.. {
        assert!(found <= 2, "it looks without a notification");
        change(&pool, &Outbox::new().notify(false), &cache, &["a"]).await;
        tokio::time::sleep(ms(300)).await;
        if rows(&pool).await == 1 {
            break;
        }
        until_stats("it counts it", &relay, |stats| stats.delivered == 6 + found).await;
    }
    task.abort();
}
