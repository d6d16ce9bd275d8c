//! Redis dies, comes back, or is silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leasehold_cache::{Builder, Cache, ErrorKind};
use leasehold_conformance as conformance;
use leasehold_test_servers::{Proxy, RedisServer, Value};

use super::{Database, Test, fails, ms, open, quiet, secs, server, test, until, until_it_ends};

pub(crate) const TESTS: &[Test] = &[
    test!(values_are_loaded_while_redis_is_down),
    test!(a_process_does_not_serve_what_it_could_not_hear_of),
    test!(a_slow_load_is_not_replaced_by_a_value_from_before_the_outage),
    test!(a_failed_load_is_replaced_by_a_value_from_before_the_outage_for_stale_for),
    test!(a_slow_load_is_not_replaced_by_a_value_loaded_earlier_in_the_outage),
    test!(a_write_says_when_redis_is_down),
    test!(a_stale_value_stands_in_for_a_failed_load),
    test!(a_stale_value_that_is_invalidated_while_a_load_is_waited_for_is_no_error),
    test!(redis_may_come_later),
    test!(an_invalidation_is_made_again_however_long_no_server_was_there),
];

const K: &str = "k";

async fn values_are_loaded_while_redis_is_down() {
    let (mut server, database) = (server(), Database::default());
    let cache = quiet().redis_limit(ms(300)).local_size(100).open(&server.url()).unwrap();
    database.commit(K, 1);
    assert_eq!(database.get(&cache, K).await, Some(1));
    server.kill();
    database.commit(K, 2);
    until("it is noticed", || {
        cache.stats().remote_errors > 0 || {
            let (cache, database) = (cache.clone(), database.clone());
            tokio::spawn(async move { database.get(&cache, K).await });
            false
        }
    })
    .await;
    for key in ["a", "b", "c"] {
        database.commit(key, 7);
        assert_eq!(database.get(&cache, key).await, Some(7));
    }
    server.restart().unwrap();
    // It has come back empty.
    conformance::until("what is loaded is stored again", async || {
        let key = format!("later{}", database.reads());
        database.commit(&key, 7);
        assert_eq!(database.get(&cache, &key).await, Some(7));
        let stored = server.admin(&["KEYS", "{leasehold-cache:test:later*}"]).unwrap();
        !stored.items().is_empty()
    })
    .await
    .unwrap();
    assert_eq!(database.get(&cache, K).await, Some(2));
}

async fn a_process_does_not_serve_what_it_could_not_hear_of() {
    let (mut server, database) = (server(), Database::default());
    let cache = quiet().local_size(100).redis_limit(ms(300)).open(&server.url()).unwrap();
    database.commit(K, 1);
    database.kept(&cache, K).await;
    server.kill();
    // Another client writes meanwhile, and no process can receive its invalidation.
    database.commit(K, 2);
    conformance::until("it is read anew", async || database.get(&cache, K).await == Some(2))
        .await
        .unwrap();
}

/// A cache that has kept 1 in the process, and its server, which has been killed since.
async fn outage(settings: Builder<str, u64>) -> (RedisServer, Cache<str, u64>, Database) {
    let (mut server, database) = (server(), Database::default());
    let settings = settings.local_size(100).redis_limit(ms(300)).soft_limit(ms(50));
    let cache = settings.open(&server.url()).unwrap();
    database.commit(K, 1);
    database.kept(&cache, K).await;
    server.kill();
    (server, cache, database)
}

/// What a reader sees whose loader takes 300 ms, six times `soft_limit`: in that time nothing else is to
/// answer it.
async fn slowly(cache: &Cache<str, u64>, database: &Database) -> Option<u64> {
    let database = database.clone();
    let load = move |_| async move {
        tokio::time::sleep(ms(300)).await;
        Ok::<_, String>(database.read(K))
    };
    cache.get(K, load).await.unwrap()
}

/// Waits until a reader waits for a slow load. The loads fail, so that they leave the old value in its place.
async fn until_slow_loads_are_waited_for(cache: &Cache<str, u64>) {
    conformance::until("a slow load is waited for", async || {
        let (begun, ended) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (begins, ends) = (begun.clone(), ended.clone());
        let load = move |_| async move {
            begins.store(true, Ordering::SeqCst);
            tokio::time::sleep(ms(300)).await;
            ends.store(true, Ordering::SeqCst);
            Err("the database is down")
        };
        let _ = cache.get(K, load).await;
        let waited = ended.load(Ordering::SeqCst);
        if begun.load(Ordering::SeqCst) {
            until("the load ends", || ended.load(Ordering::SeqCst)).await;
        }
        waited
    })
    .await
    .unwrap();
}

async fn a_slow_load_is_not_replaced_by_a_value_from_before_the_outage() {
    let (_server, cache, database) = outage(quiet().down_ttl(secs(1))).await;
    // Another process writes; no server is there to pass the invalidation on.
    database.commit(K, 2);
    // For `down_ttl` the old value stands in; `stale_for`, in which it may for a load that fails, is a minute.
    until_slow_loads_are_waited_for(&cache).await;
    assert_eq!(slowly(&cache, &database).await, Some(2));
}

async fn a_failed_load_is_replaced_by_a_value_from_before_the_outage_for_stale_for() {
    let (_server, cache, database) = outage(quiet().down_ttl(ms(0)).stale_for(secs(5))).await;
    database.commit(K, 2);
    assert_eq!(fails(&cache, K).await.unwrap(), Some(1));
    conformance::until("no value stands in any more", async || {
        fails(&cache, K).await.is_err_and(|error| error.kind() == ErrorKind::Load)
    })
    .await
    .unwrap();
}

async fn a_slow_load_is_not_replaced_by_a_value_loaded_earlier_in_the_outage() {
    let (_server, cache, database) = outage(quiet().down_ttl(ms(200))).await;
    conformance::until("loaded while Redis is down", async || {
        database.commit(K, 2);
        database.get(&cache, K).await == Some(2)
    })
    .await
    .unwrap();
    database.commit(K, 3);
    until_it_ends(&cache, K).await;
    assert_eq!(slowly(&cache, &database).await, Some(3));
    // It was kept when it was loaded, and stands in for a load that fails.
    database.commit(K, 4);
    until_it_ends(&cache, K).await;
    assert_eq!(fails(&cache, K).await.unwrap(), Some(3));
}

async fn a_write_says_when_redis_is_down() {
    let (mut server, database) = (server(), Database::default());
    let cache = quiet().redis_limit(secs(5)).open(&server.url()).unwrap();
    database.commit(K, 1);
    let write = cache.begin_write(&[K]).await.unwrap();
    server.kill();
    let failed = write.committed().await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Unavailable);
    assert!(failed.to_string().contains(K), "{failed}");
    assert_eq!(cache.begin_write(&[K]).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(cache.invalidate(&[K]).await.unwrap_err().kind(), ErrorKind::Unavailable);
}

async fn a_stale_value_stands_in_for_a_failed_load() {
    let (server, database) = (server(), Database::default());
    let cache =
        quiet().ttl(ms(50)).stale_for(secs(60)).soft_limit(secs(10)).open(&server.url()).unwrap();
    database.commit(K, 1);
    assert_eq!(database.get(&cache, K).await, Some(1));
    until_it_ends(&cache, K).await;
    assert_eq!(fails(&cache, K).await.unwrap(), Some(1));
    assert!(cache.stats().stale > 0);
}

async fn a_stale_value_that_is_invalidated_while_a_load_is_waited_for_is_no_error() {
    let (server, database) = (server(), Database::default());
    let (writer, soft) = (open(&server), ms(500));
    let reader = quiet().local_size(100).ttl(ms(300)).stale_for(secs(60)).soft_limit(soft);
    let reader = reader.open(&server.url()).unwrap();
    database.commit(K, 1);
    database.kept(&reader, K).await;
    // It has ended, and Redis has evicted it: what the process has stands in for so long.
    until_it_ends(&reader, K).await;
    server.admin(&["DEL", "{leasehold-cache:test:k}"]).unwrap();
    let (go, task) = database.slow(&reader, K).await;
    writer.invalidate(&[K]).await.unwrap();
    // Nothing happens when the reader's soft limit is over: that is what is tested.
    tokio::time::sleep(soft + ms(100)).await;
    go.send(()).unwrap();
    assert_eq!(task.await.unwrap(), Some(1));
}

async fn redis_may_come_later() {
    let (mut server, database) = (server(), Database::default());
    server.kill();
    let cache = quiet().redis_limit(ms(300)).open(&server.url()).unwrap();
    database.commit(K, 1);
    assert_eq!(database.get(&cache, K).await, Some(1));
    server.restart().unwrap();
    conformance::until("Redis is used", async || {
        database.get(&cache, K).await;
        cache.stats().remote_hits > 0
    })
    .await
    .unwrap();
}

/// What counts is how long before the connection was lost it was, not how long ago it is.
async fn an_invalidation_is_made_again_however_long_no_server_was_there() {
    let (old, new, database) = (server(), server(), Database::default());
    let proxy = Proxy::start(old.address()).unwrap();
    let hold = secs(4);
    let writer = quiet().write_hold(hold).redis_limit(ms(300)).open(&proxy.url()).unwrap();
    // The replica has the value, and not its invalidation, which the master has acknowledged.
    database.commit(K, 1);
    let reader = open(&new);
    assert_eq!(database.get(&reader, K).await, Some(1));
    conformance::until("the writer listens", async || {
        let count = ["PUBSUB", "NUMSUB", "leasehold-cache:test:changes"];
        old.admin(&count).unwrap().items().get(1) == Some(&Value::Integer(1))
    })
    .await
    .unwrap();
    database.commit(K, 2);
    writer.invalidate(&[K]).await.unwrap();
    proxy.refuse_connections(true).unwrap();
    proxy.kill_connections();
    // Nothing happens for longer than the hold.
    tokio::time::sleep(hold + secs(1)).await;
    assert_eq!(database.get(&reader, K).await, Some(1));
    proxy.point_to(new.address());
    proxy.refuse_connections(false).unwrap();
    conformance::until("the new server has the invalidation", async || {
        database.get(&reader, K).await == Some(2)
    })
    .await
    .unwrap();
}
