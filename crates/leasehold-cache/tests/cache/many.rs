//! Many keys at once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_cache::{Cache, ErrorKind, Mode, Result};
use leasehold_test_servers::{RedisServer, RedisSettings};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::{Database, Test, exists, ms, open, quiet, secs, server, test, until, until_it_ends};

pub(crate) const TESTS: &[Test] = &[
    test!(many_keys_cost_one_read_of_redis_and_one_load),
    test!(keys_that_somebody_loads_are_waited_for),
    test!(a_write_in_the_middle_refuses_its_key_alone),
    test!(a_load_that_fails_gives_its_keys_back),
    test!(a_load_goes_on_when_its_call_is_dropped),
    test!(what_is_no_longer_fresh_is_loaded_anew),
    test!(callers_of_a_hundred_keys_load_each_key_once),
    test!(callers_of_one_key_and_of_many_share_a_load),
    test!(a_slow_load_of_some_keys_does_not_delay_readers_of_another),
    test!(a_failed_load_is_replaced_by_stale_values),
    test!(a_slow_load_is_replaced_by_stale_values_and_goes_on),
    test!(one_key_without_a_stale_value_fails_the_call),
    test!(while_redis_is_down_keys_are_loaded_once_in_down_ttl),
    test!(while_redis_is_down_a_failed_load_is_replaced_by_what_the_process_has),
    test!(strong_readers_of_many_keys_do_not_share_an_older_load),
];

/// Gets these, and notes what was loaded.
async fn get(
    cache: &Cache<str, u64>,
    database: &Database,
    keys: &[&'static str],
    loaded: &Arc<Mutex<Vec<Vec<String>>>>,
) -> Vec<Option<u64>> {
    let (database, loaded, names) = (database.clone(), loaded.clone(), keys.to_vec());
    let load = move |at: Vec<usize>, _| {
        let wanted: Vec<String> = at.into_iter().map(|at| names[at].to_owned()).collect();
        let values = wanted.iter().map(|key| database.read(key)).collect();
        loaded.lock().unwrap().push(wanted);
        std::future::ready(Ok::<_, String>(values))
    };
    cache.get_many(keys, load).await.unwrap()
}

/// Loads of each key, counted.
#[derive(Clone, Default)]
struct Counted(Arc<Mutex<HashMap<String, u64>>>);

impl Counted {
    /// Gets `keys`, each with the value that `database` has `takes` later.
    async fn get(
        &self,
        cache: &Cache<str, u64>,
        database: &Database,
        keys: &[String],
        takes: Duration,
    ) -> Result<Vec<Option<u64>>> {
        let (counted, database, names) = (self.clone(), database.clone(), keys.to_vec());
        let load = move |at: Vec<usize>, _| {
            let wanted: Vec<String> = at.into_iter().map(|at| names[at].clone()).collect();
            for key in &wanted {
                *counted.0.lock().unwrap().entry(key.clone()).or_default() += 1;
            }
            let database = database.clone();
            async move {
                tokio::time::sleep(takes).await;
                Ok::<_, String>(wanted.iter().map(|key| database.read(key)).collect())
            }
        };
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        cache.get_many(&keys, load).await
    }

    fn each(&self) -> HashMap<String, u64> {
        self.0.lock().unwrap().clone()
    }
}

/// A hundred keys, each with its number as its value.
fn hundred(database: &Database) -> Vec<String> {
    let keys: Vec<String> = (0..100).map(|key| format!("key {key}")).collect();
    for (value, key) in keys.iter().enumerate() {
        database.commit(key, value as u64);
    }
    keys
}

async fn fails(cache: &Cache<str, u64>, keys: &[&str]) -> Result<Vec<Option<u64>>> {
    cache.get_many(keys, |_, _| async { Err("the database is down") }).await
}

async fn many_keys_cost_one_read_of_redis_and_one_load() {
    let (server, database, loaded) = (server(), Database::default(), Arc::default());
    let cache = open(&server);
    for (value, key) in ["a", "b", "d"].into_iter().enumerate() {
        database.commit(key, value as u64);
    }
    assert_eq!(database.get(&cache, "b").await, Some(1));
    let got = get(&cache, &database, &["a", "b", "c", "d", "a"], &loaded).await;
    assert_eq!(got[..4], [Some(0), Some(1), None, Some(2)]);
    assert_eq!(got[4], Some(0), "named twice");
    server.admin(&["CONFIG", "RESETSTAT"]).unwrap();
    let before = loaded.lock().unwrap().len();
    let got = get(&cache, &database, &["a", "b", "c", "d"], &loaded).await;
    assert_eq!(got, [Some(0), Some(1), None, Some(2)]);
    assert_eq!(loaded.lock().unwrap().len(), before);
    assert!(server.info("cmdstat_mget").unwrap().starts_with("calls=1,"));
    assert!(get(&cache, &database, &[], &loaded).await.is_empty());
}

async fn keys_that_somebody_loads_are_waited_for() {
    let (server, database, loaded) = (server(), Database::default(), Arc::default());
    let (one, two) = (open(&server), open(&server));
    database.commit("a", 1);
    database.commit("b", 2);
    let (go, slow) = database.slow(&one, "a").await;
    let both = get(&two, &database, &["a", "b"], &loaded);
    let told = async {
        until("b is loaded", || !loaded.lock().unwrap().is_empty()).await;
        go.send(()).unwrap();
    };
    let (got, ()) = tokio::join!(both, told);
    assert_eq!(got, [Some(1), Some(2)]);
    assert_eq!(slow.await.unwrap(), Some(1));
    assert_eq!(*loaded.lock().unwrap(), [["b"]]);
}

async fn a_write_in_the_middle_refuses_its_key_alone() {
    let (server, database) = (server(), Database::default());
    let (reader, writer) = (open(&server), open(&server));
    database.commit("a", 1);
    database.commit("b", 1);
    let (commits, invalidates) = (database.clone(), writer.clone());
    let load = move |at: Vec<usize>, _| {
        let (database, writer) = (commits.clone(), invalidates.clone());
        async move {
            let values = at.iter().map(|_| Some(1)).collect();
            database.commit("b", 2);
            writer.invalidate(&["b"]).await.unwrap();
            Ok::<_, String>(values)
        }
    };
    assert_eq!(reader.get_many(&["a", "b"], load).await.unwrap(), [Some(1), Some(1)]);
    assert_eq!(reader.stats().refused_fills, 1);
    let reads = database.reads();
    assert_eq!(database.get(&reader, "a").await, Some(1));
    assert_eq!(database.reads(), reads, "filled");
    assert_eq!(database.get(&reader, "b").await, Some(2));
}

async fn a_load_that_fails_gives_its_keys_back() {
    let (server, database) = (server(), Database::default());
    let cache = quiet().lease(secs(3600)).hard_limit(secs(7200)).open(&server.url()).unwrap();
    database.commit("a", 1);
    let failed = cache.get_many(&["a", "b"], |_, _| async { Err("no database") }).await;
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Load);
    // Else it asks for one of them first, and waits for the other.
    let leased = |key| exists(&server, &format!("{{leasehold-cache:test:{key}}}:l"));
    until("both are given back", || !leased("a") && !leased("b")).await;
    // A call that joins a load which is about to fail gets its error too. While only one key has
    // been given back, the load is asked for that one alone: it has to fail then as well.
    leasehold_conformance::until("a load of its own fails", async || {
        let load = |at: Vec<usize>, _| async move { Ok::<_, String>(vec![Some(1); at.len() - 1]) };
        let few = cache.get_many(&["a", "b"], load).await.unwrap_err();
        few.to_string().contains("1 values for 2 keys")
    })
    .await
    .unwrap();
    assert_eq!(database.get(&open(&server), "a").await, Some(1));
}

async fn a_load_goes_on_when_its_call_is_dropped() {
    let (server, database) = (server(), Database::default());
    let cache = quiet().lease(secs(3600)).hard_limit(secs(7200)).open(&server.url()).unwrap();
    let (began, begins) = oneshot::channel();
    let (go, goes) = oneshot::channel::<()>();
    let (once, other) = (Mutex::new(Some((began, goes))), cache.clone());
    let task = tokio::spawn(async move {
        let load = move |_, _| {
            let (began, goes) = once.lock().unwrap().take().unwrap();
            async move {
                began.send(()).unwrap();
                let _ = goes.await;
                Ok::<_, String>(vec![Some(1), None])
            }
        };
        other.get_many(&["a", "b"], load).await
    });
    begins.await.unwrap();
    task.abort();
    go.send(()).unwrap();
    assert_eq!(database.get(&open(&server), "a").await, Some(1));
    assert_eq!(database.reads(), 0, "what the dropped call has loaded was filled");
}

async fn what_is_no_longer_fresh_is_loaded_anew() {
    let (server, database, loaded) = (server(), Database::default(), Arc::default());
    let cache = quiet().ttl(ms(50)).open(&server.url()).unwrap();
    database.commit("a", 1);
    assert_eq!(database.get(&cache, "a").await, Some(1));
    until_it_ends(&cache, "a").await;
    database.commit("a", 2);
    assert_eq!(get(&cache, &database, &["a"], &loaded).await, [Some(2)]);
    assert_eq!(*loaded.lock().unwrap(), [["a"]]);
}

async fn callers_of_a_hundred_keys_load_each_key_once() {
    let (server, database, counted) = (server(), Database::default(), Counted::default());
    let (keys, caches) = (hundred(&database), [open(&server), open(&server)]);
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        let (cache, database) = (caches[caller % 2].clone(), database.clone());
        let (mut keys, counted) = (keys.clone(), counted.clone());
        // Each caller wants them in an order of its own.
        keys.rotate_left(caller * 6);
        callers.spawn(async move {
            let got = counted.get(&cache, &database, &keys, ms(100)).await.unwrap();
            let expected: Vec<_> = keys.iter().map(|key| database.read(key)).collect();
            assert_eq!(got, expected);
        });
    }
    callers.join_all().await;
    let each = counted.each();
    assert_eq!(each.len(), keys.len());
    assert!(each.values().all(|loads| *loads == 1), "{each:?}");
}

async fn callers_of_one_key_and_of_many_share_a_load() {
    let (server, database, counted) = (server(), Database::default(), Counted::default());
    let (keys, cache) = (hundred(&database), open(&server));
    let many = counted.get(&cache, &database, &keys, ms(300));
    let one = async {
        until("they are loaded", || !counted.each().is_empty()).await;
        cache.get("key 7", |_| async { Ok::<_, String>(Some(1_000)) }).await
    };
    let (many, one) = tokio::join!(many, one);
    assert_eq!((many.unwrap()[7], one.unwrap()), (Some(7), Some(7)));

    server.admin(&["FLUSHALL"]).unwrap();
    let before = counted.each()["key 7"];
    let (go, slow) = database.slow(&cache, "key 7").await;
    let many = counted.get(&cache, &database, &keys, ms(0));
    let told = async {
        until("the others are loaded", || counted.each()["key 8"] == 2).await;
        go.send(()).unwrap();
    };
    let (many, ()) = tokio::join!(many, told);
    assert_eq!(many.unwrap()[7], Some(7));
    assert_eq!(slow.await.unwrap(), Some(7));
    assert_eq!(counted.each()["key 7"], before);
}

/// What another process loads comes as soon as that has filled it.
async fn a_slow_load_of_some_keys_does_not_delay_readers_of_another() {
    let (server, database) = (server(), Database::default());
    let (here, there) = (open(&server), open(&server));
    database.commit("a", 1);
    let (go, elsewhere) = database.slow(&there, "a").await;
    let (began, begins) = (Arc::new(AtomicU64::new(0)), here.clone());
    let loads = began.clone();
    let many = tokio::spawn(async move {
        let load = move |_, _| {
            loads.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<Result<Vec<Option<u64>>, String>>()
        };
        begins.get_many(&["a", "b"], load).await
    });
    until("b is loaded", || began.load(Ordering::SeqCst) == 1).await;
    go.send(()).unwrap();
    assert_eq!(elsewhere.await.unwrap(), Some(1));
    let got = here.get("a", |_| async { Ok::<_, String>(Some(1_000)) });
    let got = tokio::time::timeout(secs(10), got).await.expect("it waits for b");
    assert_eq!(got.unwrap(), Some(1));
    many.abort();
}

async fn a_failed_load_is_replaced_by_stale_values() {
    let (server, database, loaded) = (server(), Database::default(), Arc::default());
    let settings = quiet().ttl(ms(50)).stale_for(secs(60)).soft_limit(secs(10));
    let cache = settings.open(&server.url()).unwrap();
    database.commit("a", 1);
    database.commit("b", 2);
    assert_eq!(get(&cache, &database, &["a", "b"], &loaded).await, [Some(1), Some(2)]);
    for key in ["a", "b"] {
        until_it_ends(&cache, key).await;
    }
    assert_eq!(fails(&cache, &["b", "a", "b"]).await.unwrap(), [Some(2), Some(1), Some(2)]);
    assert!(cache.stats().stale > 0);
    // And nothing is in the way of the next load.
    database.commit("a", 3);
    assert_eq!(get(&cache, &database, &["a"], &loaded).await, [Some(3)]);
}

async fn a_slow_load_is_replaced_by_stale_values_and_goes_on() {
    let (server, database, counted) = (server(), Database::default(), Counted::default());
    let settings = quiet().ttl(ms(50)).stale_for(secs(600)).soft_limit(ms(50));
    let cache = settings.open(&server.url()).unwrap();
    database.commit("a", 1);
    let keys = ["a".to_owned()];
    assert_eq!(counted.get(&cache, &database, &keys, ms(0)).await.unwrap(), [Some(1)]);
    until_it_ends(&cache, "a").await;
    database.commit("a", 2);
    let slow = counted.get(&cache, &database, &keys, ms(500));
    assert_eq!(slow.await.unwrap(), [Some(1)], "it has waited for the load");
    until("the load fills", || database.reads() == 2).await;
    let stored = open(&server);
    let got = leasehold_conformance::until("it is stored", async || {
        let got = stored.get("a", |_| async { Err("no load is needed") }).await;
        got.is_ok_and(|value| value == Some(2))
    });
    got.await.unwrap();
}

async fn one_key_without_a_stale_value_fails_the_call() {
    let (server, database, loaded) = (server(), Database::default(), Arc::default());
    let settings = quiet().ttl(ms(50)).stale_for(secs(60)).soft_limit(secs(10));
    let cache = settings.open(&server.url()).unwrap();
    database.commit("a", 1);
    get(&cache, &database, &["a"], &loaded).await;
    until_it_ends(&cache, "a").await;
    let failed = fails(&cache, &["a", "unknown"]).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Load);
    assert!(failed.to_string().contains("the database is down"), "{failed}");
}

async fn while_redis_is_down_keys_are_loaded_once_in_down_ttl() {
    let (mut server, database, counted) = (server(), Database::default(), Counted::default());
    let settings = quiet().local_size(1_000).redis_limit(ms(300)).down_ttl(secs(3600));
    let cache = settings.open(&server.url()).unwrap();
    let keys = hundred(&database);
    assert_eq!(database.get(&cache, "before").await, None);
    server.kill();
    // Until it is noticed, what is loaded is not kept.
    leasehold_conformance::until("it is noticed", async || {
        let reads = database.reads();
        database.get(&cache, "noticed").await;
        database.get(&cache, "noticed").await;
        database.reads() == reads
    })
    .await
    .unwrap();
    let callers = (0..8).map(|_| counted.get(&cache, &database, &keys, ms(100)));
    for got in futures_util::future::join_all(callers).await {
        assert_eq!(got.unwrap()[99], Some(99));
    }
    for _ in 0..3 {
        counted.get(&cache, &database, &keys, ms(0)).await.unwrap();
    }
    let each = counted.each();
    assert!(each.len() == 100 && each.values().all(|loads| *loads == 1), "{each:?}");
}

async fn while_redis_is_down_a_failed_load_is_replaced_by_what_the_process_has() {
    let (mut server, database, loaded) = (server(), Database::default(), Arc::default());
    let settings = quiet().local_size(100).redis_limit(ms(300)).down_ttl(ms(0));
    let cache = settings.open(&server.url()).unwrap();
    database.commit("a", 1);
    leasehold_conformance::until("kept in the process", async || {
        get(&cache, &database, &["a"], &loaded).await;
        cache.stats().local_hits > 0
    })
    .await
    .unwrap();
    server.kill();
    assert_eq!(fails(&cache, &["a"]).await.unwrap(), [Some(1)]);
}

async fn strong_readers_of_many_keys_do_not_share_an_older_load() {
    // A user that may not listen: an invalidation does not end the flights that are under way.
    let settings = RedisSettings::new().user("deaf", "on >word ~* +@all resetchannels");
    let (server, database) = (RedisServer::start(settings).unwrap(), Database::default());
    let (cache, loaded) = (quiet().mode(Mode::Strong), Arc::default());
    let cache = cache.open(&server.url_as("deaf", "word")).unwrap();
    let writer = open(&server);
    database.commit("a", 1);
    database.commit("b", 1);
    let (go, slow) = database.slow(&cache, "a").await;
    database.commit("a", 2);
    writer.invalidate(&["a"]).await.unwrap();
    let misses = cache.stats().misses;
    let many = get(&cache, &database, &["a", "b"], &loaded);
    let told = async {
        until("it has joined", || cache.stats().misses == misses + 2).await;
        // Nothing is to happen: it does not wait for the older load.
        tokio::time::sleep(ms(50)).await;
        go.send(()).unwrap();
    };
    let (many, ()) = tokio::join!(many, told);
    assert_eq!(many, [Some(2), Some(1)]);
    assert_eq!(slow.await.unwrap(), Some(1));
}
