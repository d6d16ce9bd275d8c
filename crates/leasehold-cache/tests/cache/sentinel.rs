//! Three real sentinels: the master is followed, and what a failover loses is made again.

use leasehold_cache::{Cache, ErrorKind};
use leasehold_conformance::until;
use leasehold_test_servers::{RedisSentinels, RedisSettings, Value, wait};

use super::{Database, Test, exists, ms, quiet, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_killed_master_is_followed),
    test!(a_master_that_was_stopped_is_left_before_it_goes_on),
    test!(an_invalidation_that_a_failover_has_lost_is_made_again),
    #[cfg(feature = "outbox")]
    test!(a_relay_delivers_again_what_a_failover_has_lost),
    test!(what_is_wrong_with_sentinels_is_said),
];

const K: &str = "k";
const ENTRY: &str = "{leasehold-cache:test:k}";

fn three() -> RedisSentinels {
    RedisSentinels::start(RedisSettings::new(), RedisSettings::new()).unwrap()
}

fn open(all: &RedisSentinels) -> Cache<str, u64> {
    quiet().redis_limit(ms(500)).open(&all.url()).unwrap()
}

/// Waits until what is loaded lies on this server.
async fn is_used(
    all: &RedisSentinels,
    server: usize,
    database: &Database,
    cache: &Cache<str, u64>,
) {
    until("the cache is on the new master", async || {
        let key = format!("at{}", database.reads());
        database.commit(&key, 7);
        assert_eq!(database.get(cache, &key).await, Some(7));
        exists(&all.servers[server], &format!("{{leasehold-cache:test:{key}}}"))
    })
    .await
    .unwrap();
}

/// Waits until so many listen at this server.
async fn is_listened_to(all: &RedisSentinels, server: usize, channel: &str, listeners: i64) {
    let count = ["PUBSUB", "NUMSUB", channel];
    until("it is listened to", async || {
        let answer = all.servers[server].admin(&count).unwrap();
        answer.items().get(1) == Some(&Value::Integer(listeners))
    })
    .await
    .unwrap();
}

/// Puts an entry under the key, on the master and on both replicas.
async fn is_everywhere(all: &RedisSentinels, database: &Database, cache: &Cache<str, u64>) {
    until("the value is stored", async || {
        database.get(cache, K).await;
        exists(&all.servers[0], ENTRY)
    })
    .await
    .unwrap();
    wait("replicas have it", || all.servers[1..].iter().all(|server| exists(server, ENTRY)))
        .unwrap();
}

/// Writes to the master what no replica receives, and kills the master; another server takes over.
async fn lose(all: &mut RedisSentinels, write: impl AsyncFnOnce()) {
    let kill_replicas = ["CLIENT", "KILL", "TYPE", "REPLICA"];
    all.servers[1..].iter().for_each(|replica| replica.stop().unwrap());
    all.servers[0].admin(&kill_replicas).unwrap();
    assert_eq!(all.servers[0].info("connected_slaves").unwrap(), "0");
    write().await;
    all.servers[0].kill();
    all.servers[1..].iter().for_each(|replica| replica.resume().unwrap());
    all.master_after(0).unwrap();
}

/// Waits until Redis has the second value, long before the ttl, which is ten minutes. What is loaded past
/// Redis while there is no master says nothing.
async fn is_seen(database: &Database, reader: &Cache<str, u64>) {
    until("Redis has the new value", async || {
        let hits = reader.stats().remote_hits;
        let value = database.get(reader, K).await;
        reader.stats().remote_hits > hits && value == Some(2)
    })
    .await
    .unwrap();
}

async fn a_killed_master_is_followed() {
    let (mut all, database) = (three(), Database::default());
    let (writer, reader) =
        (open(&all), quiet().redis_limit(ms(500)).local_size(100).open(&all.url()).unwrap());
    database.commit(K, 1);
    is_everywhere(&all, &database, &reader).await;
    all.servers[0].kill();
    let new = all.master_after(0).unwrap();
    is_used(&all, new, &database, &writer).await;
    is_listened_to(&all, new, "leasehold-cache:test:changes", 2).await;
    until("the value is kept in the process", async || {
        assert_eq!(database.get(&reader, K).await, Some(1));
        reader.stats().local_hits > 0
    })
    .await
    .unwrap();
    let write = writer.begin_write(&[K]).await.unwrap();
    database.commit(K, 2);
    write.committed().await.unwrap();
    until("the process detects it", async || database.get(&reader, K).await == Some(2))
        .await
        .unwrap();
}

/// No connection is closed: a sentinel's word alone.
async fn a_master_that_was_stopped_is_left_before_it_goes_on() {
    let (all, database) = (three(), Database::default());
    let cache = open(&all);
    database.commit(K, 1);
    is_everywhere(&all, &database, &cache).await;
    all.servers[0].stop().unwrap();
    let new = all.master_after(0).unwrap();
    is_used(&all, new, &database, &cache).await;
    // For some seconds it takes itself for the master.
    all.servers[0].resume().unwrap();
    assert_eq!(all.servers[0].info("role").unwrap(), "master");
    assert!(exists(&all.servers[new], ENTRY));
    database.commit(K, 2);
    cache.invalidate(&[K]).await.unwrap();
    assert!(!exists(&all.servers[new], ENTRY), "the old master was told");
    assert_eq!(database.get(&cache, K).await, Some(2));
}

async fn an_invalidation_that_a_failover_has_lost_is_made_again() {
    let (mut all, database) = (three(), Database::default());
    let (writer, reader) = (open(&all), open(&all));
    database.commit(K, 1);
    is_everywhere(&all, &database, &reader).await;
    is_listened_to(&all, 0, "leasehold-cache:test:changes", 2).await;
    lose(&mut all, async || {
        database.commit(K, 2);
        writer.invalidate(&[K]).await.unwrap();
    })
    .await;
    is_seen(&database, &reader).await;
}

#[cfg(feature = "outbox")]
async fn a_relay_delivers_again_what_a_failover_has_lost() {
    use leasehold_cache::outbox::{Change, RedisTransport, Transport};
    let (mut all, database) = (three(), Database::default());
    let (reader, relay) = (open(&all), RedisTransport::open(&all.url()).unwrap());
    database.commit(K, 1);
    is_everywhere(&all, &database, &reader).await;
    is_listened_to(&all, 0, "leasehold-cache.relay:changes", 1).await;
    let change = Change::new("leasehold-cache:test", K, secs(0));
    lose(&mut all, async || {
        database.commit(K, 2);
        assert!(relay.deliver(&[change]).await.unwrap().is_empty());
    })
    .await;
    is_seen(&database, &reader).await;
}

async fn what_is_wrong_with_sentinels_is_said() {
    for (url, part) in [
        ("redis+sentinel://127.0.0.1:1", "master name is missing"),
        ("redis+sentinel://:s3cret@127.0.0.1:1/main?prefix=a", "prefix"),
        ("redis+sentinel://:s3cret@127.0.0.1:1/main?replicas=1", "replicas"),
        ("redis+cluster://:s3cret@127.0.0.1:1,127.0.0.1:2", "Redis Cluster is not supported here"),
    ] {
        let error = quiet().open(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
        assert!(error.to_string().contains(part), "{url}: {error}");
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    }
    // No server is there.
    let cache = quiet().redis_limit(ms(500)).open("redis+sentinel://127.0.0.1:1/main").unwrap();
    let database = Database::default();
    database.commit(K, 1);
    assert_eq!(database.get(&cache, K).await, Some(1));
    until("it is said why", async || {
        let error = cache.invalidate(&[K]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        error.to_string().contains("no sentinel names the master")
    })
    .await
    .unwrap();
}
