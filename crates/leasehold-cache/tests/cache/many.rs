//! Many keys at once.

use std::sync::{Arc, Mutex};

use leasehold_cache::{Cache, ErrorKind};

use super::{Database, Test, exists, open, quiet, server, test};

pub(crate) const TESTS: &[Test] = &[
    test!(many_keys_cost_one_read_of_redis_and_one_load),
    test!(keys_that_somebody_loads_are_waited_for),
    test!(a_write_in_the_middle_refuses_its_key_alone),
    test!(a_load_that_fails_gives_its_keys_back),
    test!(a_call_that_is_dropped_gives_its_keys_back),
    test!(what_is_no_longer_fresh_is_loaded_anew),
];

/// Gets these, and notes what was loaded.
async fn get(
    cache: &Cache<str, u64>,
    database: &Database,
    keys: &[&str],
    loaded: &Arc<Mutex<Vec<Vec<String>>>>,
) -> Vec<Option<u64>> {
    let load = |at: Vec<usize>, _| async move {
        let wanted: Vec<String> = at.into_iter().map(|at| keys[at].to_owned()).collect();
        let values = wanted.iter().map(|key| database.read(key)).collect();
        loaded.lock().unwrap().push(wanted);
        Ok::<_, String>(values)
    };
    cache.get_many(keys, load).await.unwrap()
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
        super::until("b is loaded", || !loaded.lock().unwrap().is_empty()).await;
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
    let load = |at: Vec<usize>, _| {
        let (database, writer) = (database.clone(), writer.clone());
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
    let cache =
        quiet().lease(super::secs(3600)).hard_limit(super::secs(7200)).open(&server.url()).unwrap();
    database.commit("a", 1);
    let failed = cache.get_many(&["a", "b"], |_, _| async { Err("no database") }).await;
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Load);
    // Else it asks for one of them first, and waits for the other.
    let leased = |key| exists(&server, &format!("{{leasehold-cache:test:{key}}}:l"));
    super::until("both are given back", || !leased("a") && !leased("b")).await;
    let few = cache.get_many(&["a", "b"], |_, _| async { Ok::<_, String>(vec![Some(1)]) }).await;
    let few = few.unwrap_err();
    assert!(few.to_string().contains("1 values for 2 keys"), "{few}");
    assert_eq!(database.get(&open(&server), "a").await, Some(1));
}

async fn a_call_that_is_dropped_gives_its_keys_back() {
    let (server, database) = (server(), Database::default());
    let cache =
        quiet().lease(super::secs(3600)).hard_limit(super::secs(7200)).open(&server.url()).unwrap();
    database.commit("a", 1);
    let loads = Arc::new(Mutex::new(false));
    let (began, other) = (loads.clone(), cache.clone());
    let task = tokio::spawn(async move {
        let load = |_, _| {
            *began.lock().unwrap() = true;
            std::future::pending::<Result<_, String>>()
        };
        other.get_many(&["a", "b"], load).await
    });
    super::until("it loads", || *loads.lock().unwrap()).await;
    task.abort();
    assert_eq!(database.get(&open(&server), "a").await, Some(1));
}

async fn what_is_no_longer_fresh_is_loaded_anew() {
    let (server, database, loaded) = (server(), Database::default(), Arc::default());
    let cache = quiet().ttl(super::ms(50)).open(&server.url()).unwrap();
    database.commit("a", 1);
    assert_eq!(database.get(&cache, "a").await, Some(1));
    tokio::time::sleep(super::ms(60)).await;
    database.commit("a", 2);
    assert_eq!(get(&cache, &database, &["a"], &loaded).await, [Some(2)]);
    assert_eq!(*loaded.lock().unwrap(), [["a"]]);
}
