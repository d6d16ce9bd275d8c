//! Redis loses single keys, by eviction or by hand: holds, leases, or everything while it runs.

use std::time::Duration;

use leasehold_cache::{Builder, Cache};
use leasehold_conformance as conformance;
use leasehold_test_servers::{RedisServer, Value};
use tokio::time::Instant;

use super::logs;
use super::process::{Work, start_and_kill};
use super::{Database, Test, exists, ms, open, quiet, secs, server, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_hold_that_is_lost_alone_keeps_no_reader_waiting),
    test!(holds_that_are_lost_before_the_commit_let_no_old_value_stay),
    test!(a_lost_hold_and_a_dead_writer_leave_the_old_value_until_it_ends),
    test!(a_hold_that_is_lost_while_replicas_are_behind_lets_an_old_value_in_for_that_long),
    test!(a_lost_hold_and_a_dead_writer_behind_replicas_leave_the_old_value_until_it_ends),
    test!(a_flush_while_replicas_are_behind_lets_an_old_value_in_for_that_long),
    test!(a_hold_that_is_not_lost_is_ended_when_replicas_have_caught_up),
    test!(a_hold_that_a_dead_writer_left_ends_soon_after_the_replicas_lag),
    test!(a_lease_that_is_lost_costs_a_load),
    #[cfg(feature = "outbox")]
    test!(a_relay_removes_what_was_filled_after_redis_had_lost_its_hold),
];

const K: &str = "k";
const ENTRY: &str = "{leasehold-cache:test:k}";
const HOLDS: &str = "{leasehold-cache:test:k}:h";
const LEASE: &str = "{leasehold-cache:test:k}:l";

/// As if the server had evicted these.
fn evict(server: &RedisServer, keys: &[&str]) {
    keys.iter().for_each(|key| assert!(exists(server, key), "{key} is there"));
    server.admin(&[&["DEL"], keys].concat()).unwrap();
}

async fn a_hold_that_is_lost_alone_keeps_no_reader_waiting() {
    let (server, database) = (server(), Database::default());
    let cache = quiet().lease(secs(2)).hard_limit(secs(4)).open(&server.url()).unwrap();
    database.commit(K, 1);
    let write = cache.begin_write(&[K]).await.unwrap();
    evict(&server, &[HOLDS]);
    // The hold would have lasted for half a minute. Reads go past the cache, as if it were there.
    assert_eq!(database.get(&cache, K).await, Some(1));
    assert!(!exists(&server, ENTRY), "nothing is filled while the write goes on");
    database.commit(K, 2);
    assert_eq!(write.committed_with(&[Some(2)]).await.unwrap().filled, 1);
    assert_eq!(database.get(&cache, K).await, Some(2));
}

async fn holds_that_are_lost_before_the_commit_let_no_old_value_stay() {
    let (server, database) = (server(), Database::default());
    let (writer, reader) = (open(&server), open(&server));
    database.commit(K, 1);
    let write = writer.begin_write(&[K]).await.unwrap();
    evict(&server, &[HOLDS, LEASE]);
    let (go, slow) = {
        assert_eq!(database.get(&reader, K).await, Some(1), "filled before the commit");
        server.admin(&["DEL", ENTRY]).unwrap();
        database.slow(&reader, K).await
    };
    database.commit(K, 2);
    write.committed().await.unwrap();
    go.send(()).unwrap();
    assert_eq!(slow.await.unwrap(), Some(1), "it asked before the commit");
    assert_eq!(database.get(&open(&server), K).await, Some(2));
}

/// A writer's process was killed, and Redis has lost its hold: what was filled then is seen until its time
/// to live is over, and no longer.
async fn stays_until_it_ends(
    old: impl AsyncFn(Builder<str, u64>) -> (RedisServer, Cache<str, u64>),
) {
    let database = Database::default();
    database.commit(K, 2);
    let (ttl, stale_for) = (secs(600), secs(60));
    let (server, reader) = old(quiet().ttl(ttl).stale_for(stale_for)).await;
    assert_eq!(database.get(&reader, K).await, Some(1));
    assert_eq!(database.get(&open(&server), K).await, Some(1), "in other processes too");
    let Value::Integer(left) = server.admin(&["PTTL", ENTRY]).unwrap() else { panic!() };
    let most = (ttl + stale_for).as_millis() as i64;
    assert!((1..=most).contains(&left), "{left} ms of {most}");

    let (_server, reader) = old(quiet().ttl(ms(500)).stale_for(ms(500))).await;
    conformance::until("it has ended", async || database.get(&reader, K).await == Some(2))
        .await
        .unwrap();
}

async fn a_lost_hold_and_a_dead_writer_leave_the_old_value_until_it_ends() {
    stays_until_it_ends(async |settings| {
        let (server, database) = (server(), Database::default());
        let reader = settings.open(&server.url()).unwrap();
        database.commit(K, 1);
        // It commits 2, and dies before it says so.
        start_and_kill(Work::Begin, &server).await;
        evict(&server, &[HOLDS, LEASE]);
        assert_eq!(database.get(&reader, K).await, Some(1), "read before the commit");
        assert!(exists(&server, ENTRY), "it was filled");
        (server, reader)
    })
    .await;
}

async fn a_lost_hold_and_a_dead_writer_behind_replicas_leave_the_old_value_until_it_ends() {
    stays_until_it_ends(async |settings| {
        let (server, replica) = (server(), Database::default());
        let reader = settings.replica_lag(secs(60)).open(&server.url()).unwrap();
        replica.commit(K, 1);
        start_and_kill(Work::Commit, &server).await;
        evict(&server, &[HOLDS]);
        assert_eq!(replica.get(&reader, K).await, Some(1), "from a replica");
        assert!(exists(&server, ENTRY), "it was filled");
        (server, reader)
    })
    .await;
}

fn behind(lag: Duration) -> Builder<str, u64> {
    quiet().replica_lag(lag).lease(secs(2))
}

async fn a_hold_that_is_lost_while_replicas_are_behind_lets_an_old_value_in_for_that_long() {
    lost_behind(lose_hold).await;
}

async fn a_flush_while_replicas_are_behind_lets_an_old_value_in_for_that_long() {
    lost_behind(|server, _| {
        server.admin(&["FLUSHALL"]).unwrap();
    })
    .await;
}

async fn lost_behind(lose: impl Fn(&RedisServer, &str)) {
    let (server, database) = (server(), Database::default());
    let write = async |key: &str, lag| {
        let writer = behind(lag).local_size(100).open(&server.url()).unwrap();
        // What was written before a process listens is invalidated once more when it does.
        database.kept(&writer, "another").await;
        writer.begin_write(&[key]).await.unwrap().committed().await.unwrap();
        writer
    };
    logs::listen();
    let writer = filled_from_a_replica(&server, lose, write).await;
    assert_eq!(writer.stats().lost_holds, 1);
    warned_of_a_lost_hold(&server, "cache=\"test\"");
}

/// One warning says so, and who has noticed it.
fn warned_of_a_lost_hold(server: &RedisServer, by: &str) {
    let mut seen = logs::warnings(&format!("url=\"{}", server.url()));
    seen.retain(|text| text.contains(by) && text.contains("replicas caught up"));
    assert_eq!(seen.len(), 1, "{seen:?}");
    for part in [
        "Redis lost the hold of a write before the replicas caught up",
        "readers may have seen the old value until now",
    ] {
        assert!(seen[0].contains(part), "{part}: {seen:?}");
    }
}

async fn a_hold_that_is_not_lost_is_ended_when_replicas_have_caught_up() {
    let server = server();
    let mut lag = LAG;
    loop {
        let (begun, writer) = (Instant::now(), behind(lag).open(&server.url()).unwrap());
        writer.begin_write(&[K]).await.unwrap().committed().await.unwrap();
        assert!(exists(&server, HOLDS));
        conformance::until("the hold is over", async || !exists(&server, HOLDS)).await.unwrap();
        // Later than that the server has ended it, and the writer cannot tell this from a loss.
        if begun.elapsed() < lag + secs(1) {
            assert_eq!(writer.stats().lost_holds, 0);
            return;
        }
        lag *= 2;
    }
}

const LAG: Duration = Duration::from_millis(1_500);

fn lose_hold(server: &RedisServer, entry: &str) {
    server.admin(&["DEL", &format!("{entry}:h")]).unwrap();
}

/// After `write`, whose hold is for replicas that are behind, Redis loses what `lose` says, and a reader
/// fills what a replica says: 1. The database says 2. What has written removes the 1 when the lag is over.
async fn filled_from_a_replica<W>(
    server: &RedisServer,
    lose: impl Fn(&RedisServer, &str),
    write: impl AsyncFn(&str, Duration) -> W,
) -> W {
    let (replica, primary) = (Database::default(), Database::default());
    let reader: Cache<str, u64> = quiet().lease(secs(2)).open(&server.url()).unwrap();
    for times in 1..=5 {
        let (key, lag) = (format!("key {times}"), LAG * times);
        let entry = format!("{{leasehold-cache:test:{key}}}");
        replica.commit(&key, 1);
        primary.commit(&key, 2);
        let begun = Instant::now();
        let written = write(&key, lag).await;
        lose(server, &entry);
        assert_eq!(replica.get(&reader, &key).await, Some(1));
        // On a machine that is slower than the lag, the hold ends before it is lost. A relay that has only
        // begun to listen delivers once more, and the key is held again. Then it is tried another time.
        if exists(server, &entry) && begun.elapsed() < lag {
            // Its ttl is ten minutes.
            let gone = async || primary.get(&reader, &key).await == Some(2);
            conformance::until("the old value goes", gone).await.unwrap();
            return written;
        }
    }
    panic!("nothing was filled after the hold was lost");
}

async fn a_hold_that_a_dead_writer_left_ends_soon_after_the_replicas_lag() {
    let (server, database) = (server(), Database::default());
    let (begun, writer) = (Instant::now(), behind(LAG).open(&server.url()).unwrap());
    writer.invalidate(&[K]).await.unwrap();
    drop(writer);
    database.commit(K, 1);
    assert_eq!(database.get(&open(&server), K).await, Some(1));
    assert!(!exists(&server, ENTRY) || begun.elapsed() > LAG, "it is held");
    conformance::until("the hold is over", async || {
        assert_eq!(database.get(&open(&server), K).await, Some(1));
        exists(&server, ENTRY)
    })
    .await
    .unwrap();
}

async fn a_lease_that_is_lost_costs_a_load() {
    let (server, database) = (server(), Database::default());
    let (one, other) = (open(&server), open(&server));
    database.commit(K, 1);
    let (go, slow) = database.slow(&one, K).await;
    evict(&server, &[LEASE]);
    database.commit(K, 2);
    assert_eq!(database.get(&other, K).await, Some(2));
    assert_eq!(database.reads(), 2);
    go.send(()).unwrap();
    assert_eq!(slow.await.unwrap(), Some(1));
    assert_eq!(one.stats().refused_fills, 1);
    assert_eq!(database.get(&one, K).await, Some(2));
}

#[cfg(feature = "outbox")]
async fn a_relay_removes_what_was_filled_after_redis_had_lost_its_hold() {
    use leasehold_cache::outbox::{Change, RedisTransport, Transport};
    let server = server();
    let relay = RedisTransport::open(&server.url()).unwrap();
    let write = async |key: &str, hold| {
        let (cache, key) = ("leasehold-cache:test".to_owned(), key.to_owned());
        let change = Change::new(cache, key, hold);
        assert!(relay.deliver(&[change]).await.unwrap().is_empty());
    };
    logs::listen();
    filled_from_a_replica(&server, lose_hold, write).await;
    warned_of_a_lost_hold(&server, "relay=\"leasehold-cache.relay\"");
}
