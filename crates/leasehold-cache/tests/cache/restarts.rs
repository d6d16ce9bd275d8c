//! Redis comes back with older data: from a snapshot, from a file that lost its end, or demoted behind
//! the name that clients know. What was invalidated is not served again.

use leasehold_cache::{Cache, Mode};
use leasehold_conformance as conformance;
use leasehold_test_servers::{Proxy, RedisServer, RedisSettings, Value, wait};

use super::{Database, Test, exists, logs, ms, open, quiet, secs, server, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_restart_from_a_snapshot_serves_no_overwritten_value),
    test!(a_restart_from_a_shortened_file_serves_no_overwritten_value),
    test!(a_lease_from_a_snapshot_lets_no_old_value_in),
    test!(a_writers_lease_from_a_snapshot_lets_no_old_value_in),
    test!(a_demoted_server_with_a_living_connection_serves_old_values_for_seconds_at_most),
    test!(acknowledged_invalidations_are_made_again_behind_one_name),
    test!(a_write_goes_to_the_new_server_behind_one_name),
    test!(a_server_that_does_not_say_its_run_is_used_all_the_same),
];

const K: &str = "k";
const ENTRY: &str = "{leasehold-cache:test:k}";

/// Waits until the cache is connected again.
async fn is_back(cache: &Cache<str, u64>) {
    let back = conformance::until("Redis is reached", async || {
        cache.invalidate(&["another"]).await.is_ok()
    });
    back.await.unwrap();
}

/// A server's state of a while ago is what it comes back with.
#[derive(Clone, Copy)]
pub(super) enum Back {
    Snapshot,
    ShortenedFile,
}

/// Takes a snapshot, or notes how long the file is, lets the writes be made, and kills the server and
/// starts it with what it had before them.
pub(super) async fn go_back(server: &mut RedisServer, back: Back, writes: impl AsyncFnOnce()) {
    let before = match back {
        Back::Snapshot => {
            server.admin(&["SAVE"]).unwrap();
            0
        }
        Back::ShortenedFile => server.aof_bytes().unwrap(),
    };
    writes().await;
    match back {
        Back::Snapshot => server.kill(),
        Back::ShortenedFile => {
            let after = server.aof_bytes().unwrap();
            server.kill();
            server.truncate_aof(after - before).unwrap();
        }
    }
    server.start_again().unwrap();
}

async fn a_restart_from_a_snapshot_serves_no_overwritten_value() {
    overwritten(server(), Back::Snapshot).await;
}

async fn a_restart_from_a_shortened_file_serves_no_overwritten_value() {
    let server = RedisServer::start(RedisSettings::new().append_only()).unwrap();
    overwritten(server, Back::ShortenedFile).await;
}

async fn overwritten(mut server: RedisServer, back: Back) {
    let database = Database::default();
    let modes = [Mode::Eventual, Mode::Strong];
    let strong = |mode| quiet().mode(mode).open(&server.url()).unwrap();
    let old: Vec<Cache<str, u64>> = modes.map(strong).into();
    database.commit(K, 1);
    for cache in &old {
        assert_eq!(database.get(cache, K).await, Some(1));
    }
    go_back(&mut server, back, async || {
        let write = old[0].begin_write(&[K]).await.unwrap();
        database.commit(K, 2);
        write.committed().await.unwrap();
        assert_eq!(database.get(&old[0], K).await, Some(2));
    })
    .await;
    assert!(exists(&server, ENTRY), "the server has the old entry again");
    // One that knew the server before, and one that did not.
    let new: Vec<Cache<str, u64>> =
        modes.map(|mode| quiet().mode(mode).open(&server.url()).unwrap()).into();
    for cache in new.iter().chain(&old) {
        assert_eq!(database.get(cache, K).await, Some(2));
    }
    // What is filled from now on is shared as ever, once the writer has made its invalidation again.
    let is_shared = async || {
        let reads = database.reads();
        for cache in &new {
            assert_eq!(database.get(cache, K).await, Some(2));
        }
        database.reads() == reads
    };
    conformance::until("what is filled is shared", is_shared).await.unwrap();
}

async fn a_lease_from_a_snapshot_lets_no_old_value_in() {
    let (mut server, database) = (server(), Database::default());
    // The lease must last until the server is back, also on a slow machine.
    let (slow, writer) = (quiet().lease(secs(20)).open(&server.url()).unwrap(), open(&server));
    database.commit(K, 1);
    let (go, task) = database.slow(&slow, K).await;
    go_back(&mut server, Back::Snapshot, async || {
        let write = writer.begin_write(&[K]).await.unwrap();
        database.commit(K, 2);
        write.committed().await.unwrap();
    })
    .await;
    assert!(exists(&server, &format!("{ENTRY}:l")), "the lease is there again");
    is_back(&slow).await;
    go.send(()).unwrap();
    assert_eq!(task.await.unwrap(), Some(1), "its caller asked before the write");
    for cache in [open(&server), slow, writer] {
        assert_eq!(database.get(&cache, K).await, Some(2));
    }
}

async fn a_writers_lease_from_a_snapshot_lets_no_old_value_in() {
    let (mut server, database) = (server(), Database::default());
    let (one, other) = (open(&server), open(&server));
    let first = one.begin_write(&[K]).await.unwrap();
    go_back(&mut server, Back::Snapshot, async || {
        let second = other.begin_write(&[K]).await.unwrap();
        database.commit(K, 2);
        database.commit(K, 3);
        second.committed().await.unwrap();
    })
    .await;
    // It committed its 2 before the other its 3, and is late to say so.
    is_back(&one).await;
    first.committed_with(&[Some(2)]).await.unwrap();
    for cache in [open(&server), one, other] {
        assert_eq!(database.get(&cache, K).await, Some(3));
    }
}

/// A master and its replica, and a name that leads to the master.
pub(super) struct Pair {
    pub(super) old: RedisServer,
    pub(super) new: RedisServer,
    pub(super) name: Proxy,
}

impl Pair {
    pub(super) fn start() -> Self {
        let old = server();
        let new = RedisServer::start(RedisSettings::new().replica_of(&old)).unwrap();
        wait("the replica follows", || old.info("connected_slaves").is_ok_and(|n| n == "1"))
            .unwrap();
        let name = Proxy::start(old.address()).unwrap();
        Self { old, new, name }
    }

    fn open(&self, mode: Mode) -> Cache<str, u64> {
        quiet().mode(mode).redis_limit(secs(2)).open(&self.name.url()).unwrap()
    }

    /// Promotes the replica, lets the old master take what the new one never receives, and makes it
    /// the new one's replica. New connections go to the new one; living ones stay where they are.
    pub(super) async fn fail_over(&self, lost: impl AsyncFnOnce()) {
        self.new.admin(&["REPLICAOF", "NO", "ONE"]).unwrap();
        lost().await;
        let port = self.new.port().to_string();
        self.old.admin(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
        self.name.point_to(self.new.address());
        wait("the old one follows", || {
            self.old.info("master_link_status").is_ok_and(|link| link == "up")
        })
        .unwrap();
    }
}

async fn a_demoted_server_with_a_living_connection_serves_old_values_for_seconds_at_most() {
    for mode in [Mode::Eventual, Mode::Strong] {
        let (pair, database) = (Pair::start(), Database::default());
        let (reader, writer) = (pair.open(mode), open(&pair.old));
        database.commit(K, 1);
        assert_eq!(database.get(&reader, K).await, Some(1));
        wait("the replica has it", || exists(&pair.new, ENTRY)).unwrap();
        pair.fail_over(async || {
            database.commit(K, 2);
            writer.invalidate(&[K]).await.unwrap();
            // Its process dies.
            drop(writer);
        })
        .await;
        assert!(exists(&pair.old, ENTRY), "it came back with the new master's data");
        // Nothing was closed: only a look at the server tells, one a second. The value's ttl is ten minutes.
        let seen = async || database.get(&reader, K).await == Some(2);
        conformance::until("the new value is seen", seen).await.unwrap();
    }
}

async fn acknowledged_invalidations_are_made_again_behind_one_name() {
    let (pair, database) = (Pair::start(), Database::default());
    let cache = pair.open(Mode::Eventual);
    database.commit(K, 1);
    assert_eq!(database.get(&cache, K).await, Some(1));
    wait("the replica has it", || exists(&pair.new, ENTRY)).unwrap();
    conformance::until("it listens", async || {
        let count = ["PUBSUB", "NUMSUB", "leasehold-cache:test:changes"];
        pair.old.admin(&count).unwrap().items().get(1) == Some(&Value::Integer(1))
    })
    .await
    .unwrap();
    pair.fail_over(async || {
        database.commit(K, 2);
        cache.invalidate(&[K]).await.unwrap();
        assert!(exists(&pair.new, ENTRY), "the new master never receives it");
    })
    .await;
    // No client calls: neither a read nor a write notifies the process.
    conformance::until("it is made again", async || !exists(&pair.new, ENTRY)).await.unwrap();
}

async fn a_write_goes_to_the_new_server_behind_one_name() {
    let (pair, database) = (Pair::start(), Database::default());
    let cache = pair.open(Mode::Strong);
    database.commit(K, 1);
    assert_eq!(database.get(&cache, K).await, Some(1));
    pair.fail_over(async || {}).await;
    // Its connection leads to a replica, which refuses; the call looks again by itself.
    let write = cache.begin_write(&[K]).await.unwrap();
    assert!(exists(&pair.new, &format!("{ENTRY}:h")));
    database.commit(K, 2);
    write.committed().await.unwrap();
    assert_eq!(database.get(&cache, K).await, Some(2));
}

async fn a_server_that_does_not_say_its_run_is_used_all_the_same() {
    let settings = RedisSettings::new().user("mute", "on >word ~* &* +@all -info");
    logs::listen();
    let (server, database) = (RedisServer::start(settings).unwrap(), Database::default());
    let open = || -> Cache<str, u64> { quiet().open(&server.url_as("mute", "word")).unwrap() };
    let (one, other) = (open(), open());
    database.commit(K, 1);
    assert_eq!(database.get(&one, K).await, Some(1));
    assert_eq!(database.get(&other, K).await, Some(1));
    assert_eq!((database.reads(), other.stats().remote_hits), (1, 1));
    // Nothing happens when the client asks for the run again, once a second.
    tokio::time::sleep(ms(2_500)).await;
    database.commit(K, 2);
    one.invalidate(&[K]).await.unwrap();
    assert_eq!(database.get(&other, K).await, Some(2));
    let mut seen = logs::warnings(&format!("@127.0.0.1:{}", server.port()));
    seen.retain(|text| text.contains("allow INFO"));
    assert_eq!(seen.len(), 2, "one for each process: {seen:?}");
}
