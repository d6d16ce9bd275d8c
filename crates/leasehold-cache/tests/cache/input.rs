//! What is refused, and what is a miss.

use leasehold_cache::{Builder, Cache, ErrorKind};
use leasehold_test_servers::RedisServer;

use super::{Database, Test, ms, open, quiet, secs, server, test};

pub(crate) const TESTS: &[Test] = &[
    test!(settings_that_are_not_allowed_are_named),
    test!(keys_that_are_not_allowed_are_refused),
    test!(foreign_values_are_left_alone),
    test!(entries_of_other_versions_are_left_alone),
    test!(a_value_that_is_too_large_is_not_cached),
    test!(a_value_of_another_type_is_a_miss),
    test!(a_value_that_does_not_decode_is_overwritten),
    test!(many_values_that_do_not_decode_are_overwritten_by_one_load),
    test!(a_value_with_bytes_left_over_is_a_miss),
    test!(values_of_another_schema_are_never_decoded),
    test!(caches_of_two_schemas_share_their_invalidations),
    test!(a_password_is_never_shown),
];

type Settings = fn(Builder<str, u64>) -> Builder<str, u64>;

async fn settings_that_are_not_allowed_are_named() {
    let wrong: [(&str, Settings); 9] = [
        ("ttl", |builder| builder.ttl(ms(0))),
        ("null_ttl", |builder| builder.null_ttl(secs(86_400 * 31))),
        ("jitter", |builder| builder.jitter(1.0)),
        ("jitter", |builder| builder.jitter(f64::NAN)),
        ("early", |builder| builder.early(-1.0)),
        ("lease", |builder| builder.lease(ms(1))),
        ("hard_limit", |builder| builder.lease(secs(5)).hard_limit(secs(5))),
        ("max_loads", |builder| builder.max_loads(0)),
        ("prefix", |builder| builder.prefix("a}b")),
    ];
    for (field, wrong) in wrong {
        let error = wrong(quiet()).open("redis://127.0.0.1:1").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().starts_with(field), "{error}");
    }
    for name in ["", "a b", "a:b", &"n".repeat(65)] {
        let error = Cache::<str, u64>::builder(name).open("redis://127.0.0.1:1").unwrap_err();
        assert!(error.to_string().starts_with("name"), "{error}");
    }
    for url in ["", "http://a", "redis://:pa ss@", "nonsense"] {
        assert_eq!(quiet().open(url).unwrap_err().kind(), ErrorKind::Invalid, "{url}");
    }
}

async fn keys_that_are_not_allowed_are_refused() {
    let (server, database) = (server(), Database::default());
    let cache = open(&server);
    for key in [String::new(), "k".repeat(513), "a\nb".into()] {
        let error = cache.get(&key, |_| async { Ok::<_, String>(Some(1)) }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(cache.invalidate(&[&key]).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    for key in ["k".repeat(512), "{a}b}".into(), "ключ / 键".into()] {
        database.commit(&key, 1);
        for _ in 0..2 {
            assert_eq!(database.get(&cache, &key).await, Some(1));
        }
        cache.invalidate(&[&key]).await.unwrap();
    }
    assert_eq!(cache.stats().remote_hits, 3);
}

async fn foreign_values_are_left_alone() {
    let (server, database) = (server(), Database::default());
    let cache = open(&server);
    database.commit("k", 1);
    let key = "{leasehold-cache:test:k}";
    for make in [vec!["SET", key, "foreign"], vec!["RPUSH", key, "a", "b"]] {
        server.admin(&["DEL", key]).unwrap();
        server.admin(&make).unwrap();
        let before = server.admin(&["DUMP", key]).unwrap();
        for _ in 0..3 {
            assert_eq!(database.get(&cache, "k").await, Some(1));
        }
        assert_eq!(server.admin(&["DUMP", key]).unwrap(), before);
    }
    assert_eq!((cache.stats().remote_hits, cache.stats().bypasses), (0, 6));
}

async fn entries_of_other_versions_are_left_alone() {
    let (server, database) = (server(), Database::default());
    let cache = open(&server);
    database.commit("k", 1);
    server.admin(&["SET", "{leasehold-cache:test:k}", "L2 of a newer program"]).unwrap();
    assert_eq!(database.get(&cache, "k").await, Some(1));
    let there = server.admin(&["GET", "{leasehold-cache:test:k}"]).unwrap();
    assert_eq!(there, leasehold_test_servers::Value::Bytes(b"L2 of a newer program".to_vec()));
}

async fn a_value_that_is_too_large_is_not_cached() {
    let server = server();
    let cache: Cache<str, String> =
        Cache::builder("large").max_value(100).redis_limit(secs(10)).open(&server.url()).unwrap();
    for _ in 0..2 {
        let got = cache.get("k", |_| async { Ok::<_, String>(Some("x".repeat(200))) }).await;
        assert_eq!(got.unwrap().unwrap().len(), 200);
    }
    assert_eq!((cache.stats().loads, cache.stats().remote_hits), (2, 0));
    let write = cache.begin_write(&["k"]).await.unwrap();
    let error = write.committed_with(&[Some("x".repeat(200))]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("max_value"), "{error}");
}

async fn a_value_of_another_type_is_a_miss() {
    let (server, database) = (server(), Database::default());
    let texts: Cache<str, (String, bool)> = Cache::builder("test").open(&server.url()).unwrap();
    let text = ("a text that is no number".repeat(9), true);
    let loaded = text.clone();
    texts.get("k", |_| async { Ok::<_, String>(Some(loaded)) }).await.unwrap();
    database.commit("k", 1);
    let cache: Cache<str, (u64, bool, f64, String)> =
        Cache::builder("test").open(&server.url()).unwrap();
    let got =
        cache.get("k", |_| async { Ok::<_, String>(Some((1, true, 0.5, String::new()))) }).await;
    assert_eq!(got.unwrap(), Some((1, true, 0.5, String::new())));
}

/// A cache of the same name, with values of another type.
fn of<V>(server: &RedisServer, schema: u32) -> Cache<str, V>
where
    V: serde::Serialize + serde::de::DeserializeOwned + Clone + Send + Sync + 'static,
{
    let builder = Cache::<str, V>::builder("test").jitter(0.0).early(0.0).local_size(0);
    let builder = builder.ttl(secs(600)).redis_limit(secs(10)).hard_limit(secs(30)).schema(schema);
    builder.open(&server.url()).unwrap()
}

/// The value, and how often it was loaded by now.
async fn ask<V>(cache: &Cache<str, V>, key: &str, value: V) -> (V, u64)
where
    V: serde::Serialize + serde::de::DeserializeOwned + Clone + Send + Sync + 'static,
{
    let got = cache.get(key, |_| async { Ok::<_, String>(Some(value)) }).await;
    (got.unwrap().unwrap(), cache.stats().loads)
}

async fn a_value_that_does_not_decode_is_overwritten() {
    let server = server();
    let (old, new) = (of::<u64>(&server, 0), of::<String>(&server, 0));
    assert_eq!(ask(&old, "k", 200).await, (200, 1));
    assert_eq!(ask(&new, "k", "new".into()).await, ("new".to_owned(), 1));
    assert_eq!(ask(&new, "k", "newer".into()).await, ("new".to_owned(), 1), "it was filled");
    assert_eq!((new.stats().bypasses, new.stats().remote_hits), (0, 1));
    assert!(new.stats().undecodable > 0);
}

async fn many_values_that_do_not_decode_are_overwritten_by_one_load() {
    let server = server();
    let (old, new) = (of::<u64>(&server, 0), of::<String>(&server, 0));
    let keys: Vec<String> = (0..100).map(|key| format!("key {key}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let load = |at: Vec<usize>, _| async move { Ok::<_, String>(vec![Some(200); at.len()]) };
    old.get_many(&keys, load).await.unwrap();
    for _ in 0..3 {
        let load = |at: Vec<usize>, _| async move {
            Ok::<_, String>(vec![Some("new".to_owned()); at.len()])
        };
        let got = new.get_many(&keys, load).await.unwrap();
        assert!(got.iter().all(|value| value.as_deref() == Some("new")));
    }
    assert_eq!(new.stats().loads, 1);
}

async fn a_value_with_bytes_left_over_is_a_miss() {
    let server = server();
    let (old, new) = (of::<(u64, u64)>(&server, 0), of::<u64>(&server, 0));
    ask(&old, "k", (1, 2)).await;
    assert_eq!(ask(&new, "k", 3).await, (3, 1));
    assert_eq!(ask(&new, "k", 4).await, (3, 1));
}

async fn values_of_another_schema_are_never_decoded() {
    let server = server();
    // A zigzag number decodes as a plain one, to another value.
    let (old, new) = (of::<i64>(&server, 0), of::<u64>(&server, 7));
    assert_eq!(ask(&old, "k", -3).await, (-3, 1));
    assert_eq!(ask(&new, "k", 5).await, (5, 1));
    assert_eq!(ask(&new, "k", 6).await, (5, 1), "it was filled");
    // While both are in use, each overwrites what the other has.
    assert_eq!(ask(&old, "k", -4).await, (-4, 2));
    assert_eq!(ask(&of::<u64>(&server, 8), "k", 9).await, (9, 1));
    let write = new.begin_write(&["k"]).await.unwrap();
    assert_eq!(write.committed_with(&[Some(10)]).await.unwrap().filled, 1);
    assert_eq!(ask(&new, "k", 11).await, (10, 1));
    // That there is no value is of a schema too.
    let none: Option<u64> =
        of::<u64>(&server, 1).get("none", |_| async { Ok::<_, String>(None) }).await.unwrap();
    assert_eq!(none, None);
    assert_eq!(ask(&of::<u64>(&server, 2), "none", 1).await, (1, 1));
}

async fn caches_of_two_schemas_share_their_invalidations() {
    let server = server();
    let (old, new) = (of::<u64>(&server, 1), of::<u64>(&server, 2));
    assert_eq!(ask(&old, "k", 1).await, (1, 1));
    new.begin_write(&["k"]).await.unwrap().committed().await.unwrap();
    assert_eq!(ask(&old, "k", 2).await, (2, 2), "written by a program of another schema");
}

async fn a_password_is_never_shown() {
    let url = "redis://user:secret-word@127.0.0.1:1";
    let cache = quiet().redis_limit(ms(200)).open(url).unwrap();
    let error = cache.invalidate(&["k"]).await.unwrap_err();
    let shown = format!(
        "{cache:?} {error:?} {error} {:?}",
        quiet().open("redis://user:secret-word@[").unwrap_err()
    );
    assert!(!shown.contains("secret-word"), "{shown}");
}
