//! A filter in the memory of each process: what one process adds, the others find.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_cache::{Cache, ErrorKind, Filter, Mode};
use leasehold_conformance as conformance;
use leasehold_test_servers::RedisServer;

use super::{Database, Test, ms, quiet, server, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_row_that_another_process_adds_is_found),
    test!(a_row_that_was_added_while_the_process_was_deaf_is_found),
    test!(a_row_of_a_writer_that_died_unheard_is_found_after_its_hold),
    test!(a_load_that_fails_or_panics_is_tried_again_and_denies_nothing),
    test!(strong_readers_are_refused_a_filter_that_learns_late),
];

const K: &str = "k";

/// One process's cache, with a filter that knows `known` when it is loaded.
fn open(server: &RedisServer, known: &Database) -> Cache<str, u64> {
    let known = known.clone();
    let filter = Filter::per_process(100, 0.000_1, move |filter| {
        known.0.values.lock().unwrap().keys().for_each(|key| {
            filter.add(key);
        });
        async { Ok::<_, String>(()) }
    });
    let builder = quiet().filter(filter.unwrap()).redis_limit(ms(500)).write_hold(ms(1_500));
    builder.open(&server.url()).unwrap()
}

/// Waits until the filter denies what does not exist.
async fn is_loaded(cache: &Cache<str, u64>, database: &Database) {
    conformance::until("the filter is loaded", async || {
        let before = cache.stats().filtered;
        assert_eq!(database.get(cache, "none").await, None);
        cache.stats().filtered > before
    })
    .await
    .unwrap();
}

async fn a_row_that_another_process_adds_is_found() {
    let (server, database) = (server(), Database::default());
    let (one, other) = (open(&server, &database), open(&server, &database));
    is_loaded(&one, &database).await;
    is_loaded(&other, &database).await;
    assert_eq!(database.get(&other, K).await, None);
    let write = one.begin_write(&[K]).await.unwrap();
    database.commit(K, 1);
    write.committed().await.unwrap();
    assert_eq!(database.get(&one, K).await, Some(1), "its own it knows at once");
    conformance::until("the other hears", async || database.get(&other, K).await == Some(1))
        .await
        .unwrap();
}

async fn a_row_that_was_added_while_the_process_was_deaf_is_found() {
    let (mut server, database) = (server(), Database::default());
    let cache = open(&server, &database);
    is_loaded(&cache, &database).await;
    server.kill();
    // The process that adds it does not notice.
    database.commit(K, 1);
    conformance::until("it is found", async || database.get(&cache, K).await == Some(1))
        .await
        .unwrap();
    server.restart().unwrap();
    is_loaded(&cache, &database).await;
    assert_eq!(database.get(&cache, K).await, Some(1));
}

async fn a_row_of_a_writer_that_died_unheard_is_found_after_its_hold() {
    let (server, database) = (server(), Database::default());
    // It begins to write before this process hears, and commits after the filter was loaded.
    let writer = quiet().write_hold(ms(1_500)).open(&server.url()).unwrap();
    let write = writer.begin_write(&[K]).await.unwrap();
    let cache = open(&server, &database);
    is_loaded(&cache, &database).await;
    database.commit(K, 1);
    std::mem::forget(write);
    assert_eq!(database.get(&cache, K).await, None, "no process has sent it");
    conformance::until("it is found", async || database.get(&cache, K).await == Some(1))
        .await
        .unwrap();
}

async fn a_load_that_fails_or_panics_is_tried_again_and_denies_nothing() {
    let (server, database) = (server(), Database::default());
    let tries = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&tries);
    let filter = Filter::per_process(100, 0.000_1, move |filter| {
        let tries = counted.fetch_add(1, Ordering::SeqCst);
        assert!(tries != 1, "the second try panics before there is a future");
        async move {
            assert!(tries != 2, "the third try panics");
            filter.add(K);
            if tries == 0 { Err("the first try fails") } else { Ok(()) }
        }
    });
    let cache = quiet().filter(filter.unwrap()).open(&server.url()).unwrap();
    database.commit(K, 1);
    conformance::until("it is tried", async || tries.load(Ordering::SeqCst) > 0).await.unwrap();
    assert_eq!(database.get(&cache, K).await, Some(1));
    is_loaded(&cache, &database).await;
    assert!(tries.load(Ordering::SeqCst) >= 4);
    assert_eq!(database.get(&cache, K).await, Some(1));
}

async fn strong_readers_are_refused_a_filter_that_learns_late() {
    let filter = Filter::per_process(100, 0.01, |_| async { Ok::<_, String>(()) }).unwrap();
    let error = quiet().mode(Mode::Strong).filter(filter).open("redis://127.0.0.1:1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("per_process"), "{error}");
    let error = Filter::per_process(0, 0.01, |_| async { Ok::<_, String>(()) }).unwrap_err();
    assert!(error.to_string().starts_with("items is 0"), "{error}");
}
