//! Redis dies, comes back, or is silent.

use leasehold_cache::ErrorKind;
use leasehold_conformance as conformance;
use leasehold_conformance::kit::{Proxy, Value};

use super::{Database, Test, ms, open, quiet, secs, server, test, until};

pub(crate) const TESTS: &[Test] = &[
    test!(values_are_loaded_while_redis_is_down),
    test!(a_process_does_not_serve_what_it_could_not_hear_of),
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
    until("kept in the process", || {
        cache.stats().local_hits > 0 || {
            let (cache, database) = (cache.clone(), database.clone());
            tokio::spawn(async move { database.get(&cache, K).await });
            false
        }
    })
    .await;
    server.kill();
    // Somebody writes meanwhile whose invalidation nobody can hear.
    database.commit(K, 2);
    conformance::until("it is read anew", async || database.get(&cache, K).await == Some(2))
        .await
        .unwrap();
}

async fn a_write_says_when_redis_is_down() {
    let (mut server, database) = (server(), Database::default());
    let cache = quiet().redis_limit(ms(300)).open(&server.url()).unwrap();
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
    tokio::time::sleep(ms(60)).await;
    let got = cache.get(K, |_| async { Err("the database is down") }).await;
    assert_eq!(got.unwrap(), Some(1));
    assert!(cache.stats().stale > 0);
}

async fn a_stale_value_that_is_invalidated_while_a_load_is_waited_for_is_no_error() {
    let (server, database) = (server(), Database::default());
    let (writer, soft) = (open(&server), ms(500));
    let reader = quiet().local_size(100).ttl(ms(300)).stale_for(secs(60)).soft_limit(soft);
    let reader = reader.open(&server.url()).unwrap();
    database.commit(K, 1);
    conformance::until("kept in the process", async || {
        assert_eq!(database.get(&reader, K).await, Some(1));
        reader.stats().local_hits > 0
    })
    .await
    .unwrap();
    // It has ended, and Redis has evicted it: what the process has stands in for so long.
    tokio::time::sleep(ms(300)).await;
    server.admin(&["DEL", "{leasehold-cache:test:k}"]).unwrap();
    let (go, task) = database.slow(&reader, K).await;
    writer.invalidate(&[K]).await.unwrap();
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
    tokio::time::sleep(hold + secs(1)).await;
    assert_eq!(database.get(&reader, K).await, Some(1));
    proxy.point_to(new.address());
    proxy.refuse_connections(false).unwrap();
    conformance::until("the new server is told", async || {
        database.get(&reader, K).await == Some(2)
    })
    .await
    .unwrap();
}
