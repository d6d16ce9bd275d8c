//! What a reader may and may not see, driven by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_cache::{Mode, Source};
use leasehold_test_servers::{RedisServer, RedisSettings, Value};

use super::{Database, Test, exists, ms, open, quiet, server, test, until};

pub(crate) const TESTS: &[Test] = &[
    test!(a_hit_costs_one_get_and_nothing_else),
    test!(that_there_is_no_value_is_remembered),
    test!(strong_readers_after_a_commit_see_it),
    test!(strong_readers_that_hear_of_nothing_see_what_was_committed),
    test!(a_failed_load_gives_its_stale_value_to_nobody_who_came_after_a_write),
    test!(a_write_wakes_those_who_wait_for_a_load),
    test!(a_beginning_that_fails_in_part_holds_nothing_for_long),
    test!(an_invalidation_that_redis_lost_is_made_again),
    test!(a_load_under_a_hold_is_told_to_read_the_primary_in_strong_mode),
    test!(nothing_is_filled_while_replicas_are_behind),
    test!(a_load_goes_on_when_its_caller_has_gone),
    test!(an_entry_is_loaded_anew_while_it_is_served),
    test!(an_expired_lease_does_not_fill_over_a_newer_one),
];

const K: &str = "k";

async fn a_hit_costs_one_get_and_nothing_else() {
    let (server, database) = (server(), Database::default());
    let cache = open(&server);
    database.commit(K, 1);
    assert_eq!(database.get(&cache, K).await, Some(1));
    server.admin(&["CONFIG", "RESETSTAT"]).unwrap();
    for _ in 0..50 {
        assert_eq!(database.get(&cache, K).await, Some(1));
    }
    let calls = |command: &str| server.info(&format!("cmdstat_{command}")).unwrap_or_default();
    assert!(calls("get").starts_with("calls=50,"), "{}", calls("get"));
    let stats = server.admin(&["INFO", "commandstats"]).unwrap().text();
    let commands =
        stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next());
    // What makes and keeps a connection, and what asks for the figures.
    let known =
        ["get", "auth", "client|setinfo", "config|resetstat", "hello", "info", "ping", "subscribe"];
    let others: Vec<&str> = commands.filter(|command| !known.contains(command)).collect();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(cache.stats().remote_hits, 50);
}

async fn that_there_is_no_value_is_remembered() {
    let (server, database) = (server(), Database::default());
    let cache = open(&server);
    for _ in 0..10 {
        assert_eq!(database.get(&cache, K).await, None);
    }
    assert_eq!(database.reads(), 1);
    database.commit(K, 1);
    cache.invalidate(&[K]).await.unwrap();
    assert_eq!(database.get(&cache, K).await, Some(1));
}

async fn strong_readers_after_a_commit_see_it() {
    let (server, database) = (server(), Database::default());
    let cache = quiet().mode(Mode::Strong).open(&server.url()).unwrap();
    let writer = quiet().mode(Mode::Strong).open(&server.url()).unwrap();
    database.commit(K, 1);
    let write = writer.begin_write(&[K]).await.unwrap();
    let (go, slow) = database.slow(&cache, K).await;
    database.commit(K, 2);
    write.committed().await.unwrap();
    // The slow one has read the old value; who asks now does not share it.
    assert_eq!(database.get(&cache, K).await, Some(2));
    go.send(()).unwrap();
    assert_eq!(slow.await.unwrap(), Some(1));

    // And so when the load has a lease that the write takes away.
    let (go, slow) = {
        writer.invalidate(&[K]).await.unwrap();
        database.slow(&cache, K).await
    };
    let write = writer.begin_write(&[K]).await.unwrap();
    database.commit(K, 3);
    write.committed().await.unwrap();
    let (late, later, misses) = (cache.clone(), database.clone(), cache.stats().misses);
    let asks = tokio::spawn(async move { later.get(&late, K).await });
    until("it has asked Redis", || cache.stats().misses > misses).await;
    go.send(()).unwrap();
    assert_eq!(slow.await.unwrap(), Some(2));
    assert_eq!(asks.await.unwrap(), Some(3));
}

async fn strong_readers_that_hear_of_nothing_see_what_was_committed() {
    let settings = RedisSettings::new().user("deaf", "on >word ~* +@all resetchannels");
    let (server, database) = (RedisServer::start(settings).unwrap(), Database::default());
    let writer = quiet().mode(Mode::Strong).open(&server.url()).unwrap();
    let reader = quiet().mode(Mode::Strong).open(&server.url_as("deaf", "word")).unwrap();
    database.commit(K, 1);
    let write = writer.begin_write(&[K]).await.unwrap();
    let (go, slow) = database.slow(&reader, K).await;
    database.commit(K, 2);
    write.committed().await.unwrap();
    assert_eq!(database.get(&reader, K).await, Some(2));
    go.send(()).unwrap();
    assert_eq!(slow.await.unwrap(), Some(1));
    assert_eq!(reader.stats().invalidations, 0);
}

async fn a_failed_load_gives_its_stale_value_to_nobody_who_came_after_a_write() {
    let (server, database) = (
        RedisServer::start(RedisSettings::new().user("deaf", "on >word ~* +@all resetchannels"))
            .unwrap(),
        Database::default(),
    );
    let writer = quiet().mode(Mode::Strong).open(&server.url()).unwrap();
    let settings = quiet().mode(Mode::Strong).ttl(ms(50)).soft_limit(super::secs(10));
    let reader = settings.open(&server.url_as("deaf", "word")).unwrap();
    database.commit(K, 1);
    assert_eq!(database.get(&reader, K).await, Some(1));
    tokio::time::sleep(ms(60)).await;
    let (has_begun, begun) = tokio::sync::oneshot::channel();
    let (fail, failing) = tokio::sync::oneshot::channel::<()>();
    let leads = reader.clone();
    let leader = tokio::spawn(async move {
        let load = |_| async move {
            has_begun.send(()).unwrap();
            let _ = failing.await;
            Err("the database is down")
        };
        leads.get(K, load).await
    });
    begun.await.unwrap();
    let write = writer.begin_write(&[K]).await.unwrap();
    database.commit(K, 2);
    write.committed().await.unwrap();
    let (later, asked) = (reader.clone(), database.clone());
    let follower = tokio::spawn(async move { asked.get(&later, K).await });
    until("it has asked Redis", || reader.stats().misses == 3).await;
    tokio::time::sleep(ms(20)).await;
    fail.send(()).unwrap();
    assert_eq!(leader.await.unwrap().unwrap(), Some(1), "it had seen it before the write");
    assert_eq!(follower.await.unwrap(), Some(2));
}

async fn a_write_wakes_those_who_wait_for_a_load() {
    let (server, database) = (server(), Database::default());
    let (one, two) = (open(&server), open(&server));
    let lasts =
        quiet().lease(super::secs(3600)).hard_limit(super::secs(7200)).open(&server.url()).unwrap();
    database.commit(K, 1);
    let (go, slow) = database.slow(&lasts, K).await;
    let (waits, asked) = (one.clone(), database.clone());
    let waiter = tokio::spawn(async move { asked.get(&waits, K).await });
    until("it waits", || one.stats().misses == 1).await;
    two.invalidate(&[K]).await.unwrap();
    assert_eq!(waiter.await.unwrap(), Some(1), "it has loaded itself");
    drop(go);
    slow.await.unwrap();
}

async fn a_beginning_that_fails_in_part_holds_nothing_for_long() {
    let (server, database) = (server(), Database::default());
    let cache = quiet().write_hold(super::secs(3600)).open(&server.url()).unwrap();
    database.commit("a", 1);
    // What lies there is no set of holds, so that the script fails.
    server.admin(&["SET", "{leasehold-cache:test:b}:h", "foreign"]).unwrap();
    let failed = cache.begin_write(&["a", "b"]).await.unwrap_err();
    assert!(failed.to_string().contains('b'), "{failed}");
    until("the hold is ended", || !exists(&server, "{leasehold-cache:test:a}:h")).await;
    assert_eq!(database.get(&cache, "a").await, Some(1));
    let reads = database.reads();
    assert_eq!((database.get(&cache, "a").await, database.reads()), (Some(1), reads), "filled");
}

async fn an_invalidation_that_redis_lost_is_made_again() {
    let (server, database) = (server(), Database::default());
    let (reader, writer) = (open(&server), open(&server));
    database.commit(K, 1);
    assert_eq!(database.get(&reader, K).await, Some(1));
    let key = "{leasehold-cache:test:k}";
    let Value::Bytes(old) = server.admin(&["GET", key]).unwrap() else { panic!("no entry") };
    let write = writer.begin_write(&[K]).await.unwrap();
    database.commit(K, 2);
    write.committed().await.unwrap();
    // As a failover does that loses what the master had acknowledged.
    server.admin(&[&b"SET"[..], key.as_bytes(), &old]).unwrap();
    assert_eq!(database.get(&reader, K).await, Some(1));
    server.admin(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
    until("it is made again", || !exists(&server, key)).await;
    assert_eq!(database.get(&reader, K).await, Some(2));
}

async fn a_load_under_a_hold_is_told_to_read_the_primary_in_strong_mode() {
    let server = server();
    for (mode, source) in [(Mode::Strong, Source::Primary), (Mode::Eventual, Source::Any)] {
        let cache = quiet().mode(mode).open(&server.url()).unwrap();
        let write = cache.begin_write(&[K]).await.unwrap();
        let load = move |load: leasehold_cache::Load| async move {
            assert_eq!(load.source, source);
            Ok::<_, String>(Some(1))
        };
        assert_eq!(cache.get(K, load).await.unwrap(), Some(1));
        write.committed().await.unwrap();
    }
}

async fn nothing_is_filled_while_replicas_are_behind() {
    let (server, primary, replica) = (server(), Database::default(), Database::default());
    let cache = quiet().replica_lag(super::secs(4)).open(&server.url()).unwrap();
    replica.commit(K, 1);
    primary.commit(K, 1);
    let write = cache.begin_write(&[K]).await.unwrap();
    primary.commit(K, 2);
    write.committed().await.unwrap();
    assert_eq!(replica.get(&cache, K).await, Some(1), "from a replica that is behind");
    replica.commit(K, 2);
    let mut seen = replica.get(&cache, K).await;
    assert_eq!(seen, Some(2), "what was read before was not kept");
    until("it is filled", || !exists(&server, "{leasehold-cache:test:k}:h")).await;
    seen = replica.get(&cache, K).await;
    let reads = replica.reads();
    assert_eq!((seen, replica.get(&cache, K).await, replica.reads()), (Some(2), Some(2), reads));
}

async fn a_load_goes_on_when_its_caller_has_gone() {
    let (server, database) = (server(), Database::default());
    let cache = open(&server);
    database.commit(K, 1);
    let (go, slow) = database.slow(&cache, K).await;
    slow.abort();
    assert!(slow.await.unwrap_err().is_cancelled());
    go.send(()).unwrap();
    assert_eq!(database.get(&cache, K).await, Some(1));
    assert_eq!(database.reads(), 1, "the value of the first was taken");
}

async fn an_entry_is_loaded_anew_while_it_is_served() {
    let (server, database) = (server(), Database::default());
    let short = || quiet().ttl(ms(50)).stale_for(super::secs(60)).soft_limit(super::secs(10));
    let (one, two) = (short().open(&server.url()).unwrap(), short().open(&server.url()).unwrap());
    database.commit(K, 1);
    assert_eq!(database.get(&one, K).await, Some(1));
    tokio::time::sleep(ms(60)).await;
    database.commit(K, 2);
    let (go, slow) = database.slow(&one, K).await;
    // Another process gets the old value at once, and does not load.
    assert_eq!(database.get(&two, K).await, Some(1));
    assert_eq!((database.reads(), two.stats().stale), (2, 1));
    go.send(()).unwrap();
    assert_eq!(slow.await.unwrap(), Some(2));
}

async fn an_expired_lease_does_not_fill_over_a_newer_one() {
    let (server, database) = (server(), Database::default());
    let one = quiet().lease(ms(50)).open(&server.url()).unwrap();
    let two = open(&server);
    database.commit(K, 1);
    let (go, slow) = database.slow(&one, K).await;
    database.commit(K, 2);
    // It waits for the lease to pass, and loads itself.
    assert_eq!(database.get(&two, K).await, Some(2));
    go.send(()).unwrap();
    assert_eq!(slow.await.unwrap(), Some(1));
    let counted = Arc::new(AtomicU64::new(0));
    counted.store(database.reads(), Ordering::SeqCst);
    assert_eq!(database.get(&two, K).await, Some(2));
    assert_eq!(database.reads(), counted.load(Ordering::SeqCst));
}
