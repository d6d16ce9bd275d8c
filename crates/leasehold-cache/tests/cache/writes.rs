//! Writes that are dropped, cancelled, or run by a closure.

use leasehold_cache::{Cache, Error, ErrorKind, Write};
use leasehold_conformance as conformance;
use leasehold_test_servers::RedisServer;

use super::{Database, Test, exists, ms, open, quiet, secs, server, test, until};

pub(crate) const TESTS: &[Test] = &[
    test!(a_dropped_write_is_released),
    test!(a_commit_under_way_when_its_write_is_dropped_is_seen),
    test!(a_write_that_is_forgotten_holds_for_write_hold),
    test!(a_beginning_that_is_dropped_holds_nothing),
    test!(an_end_that_is_dropped_is_carried_out),
    test!(a_closure_that_succeeds_is_seen_by_readers_at_once),
    test!(a_closure_that_fails_or_panics_or_is_cancelled_releases_its_keys),
    test!(a_closure_does_not_run_when_redis_refuses_the_hold),
];

const K: &str = "k";
const HOLD: &str = "{leasehold-cache:test:k}:h";

/// A cache whose holds last longer than a test.
fn patient(server: &RedisServer) -> Cache<str, u64> {
    quiet().write_hold(secs(3600)).open(&server.url()).unwrap()
}

/// Loads of a hundred reads one after the other.
async fn loads(cache: &Cache<str, u64>, database: &Database) -> u64 {
    let before = database.reads();
    for _ in 0..100 {
        database.get(cache, K).await;
    }
    database.reads() - before
}

async fn is_released(server: &RedisServer) {
    until("the hold ends", || !exists(server, HOLD)).await;
}

async fn a_dropped_write_is_released() {
    let (server, database) = (server(), Database::default());
    let (writer, reader) = (patient(&server), open(&server));
    database.commit(K, 1);
    let write = writer.begin_write(&[K]).await.unwrap();
    assert_eq!(loads(&reader, &database).await, 100, "held: nothing is filled");
    drop(write);
    is_released(&server).await;
    assert_eq!(loads(&reader, &database).await, 1);
}

/// A program drops the write while its commit is on the way: the database carries that out.
async fn a_commit_under_way_when_its_write_is_dropped_is_seen() {
    let (server, database) = (server(), Database::default());
    let (writer, reader) = (patient(&server), open(&server));
    database.commit(K, 1);
    let write = writer.begin_write(&[K]).await.unwrap();
    drop(write);
    let began = tokio::time::Instant::now();
    while began.elapsed() < ms(300) {
        assert_eq!(database.get(&reader, K).await, Some(1));
        tokio::time::sleep(ms(5)).await;
    }
    database.commit(K, 2);
    conformance::until("the write is seen", async || database.get(&reader, K).await == Some(2))
        .await
        .unwrap();
    is_released(&server).await;
    assert_eq!(database.get(&reader, K).await, Some(2));
    assert_eq!(database.get(&open(&server), K).await, Some(2), "and nothing else was filled");
}

/// As a process that is killed.
async fn a_write_that_is_forgotten_holds_for_write_hold() {
    let (server, database) = (server(), Database::default());
    let hold = secs(3);
    let (writer, reader) = (quiet().write_hold(hold).open(&server.url()).unwrap(), open(&server));
    database.commit(K, 1);
    let began = std::time::Instant::now();
    std::mem::forget(writer.begin_write(&[K]).await.unwrap());
    is_released(&server).await;
    assert!(began.elapsed() >= hold, "{:?}", began.elapsed());
    assert_eq!(loads(&reader, &database).await, 1);
}

/// Drops `future` when the server has been given what it asks for and has not answered yet.
async fn drop_unanswered(server: &RedisServer, future: impl Future) {
    server.stop().unwrap();
    let dropped = tokio::time::timeout(ms(300), future).await;
    assert!(dropped.is_err(), "a server that is stopped has answered");
    server.resume().unwrap();
}

async fn a_beginning_that_is_dropped_holds_nothing() {
    let (server, database) = (server(), Database::default());
    let (writer, reader) = (patient(&server), open(&server));
    database.commit(K, 1);
    // The server knows the script.
    writer.begin_write(&["other"]).await.unwrap().rolled_back().await.unwrap();
    drop_unanswered(&server, writer.begin_write(&[K])).await;
    let over = conformance::until("it was begun, and released", async || {
        // On a busy machine the release may be sent again.
        let calls = |command| {
            let counted = server.info(command).unwrap_or_default();
            let calls = counted.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
            calls.and_then(|calls| calls.parse::<u64>().ok()).unwrap_or_default()
        };
        calls("cmdstat_zadd") >= 2 && calls("cmdstat_zrem") >= 2 && !exists(&server, HOLD)
    });
    over.await.unwrap();
    assert_eq!(loads(&reader, &database).await, 1);
}

async fn an_end_that_is_dropped_is_carried_out() {
    let (server, database) = (server(), Database::default());
    let (writer, reader) = (patient(&server), open(&server));
    database.commit(K, 1);
    let write = writer.begin_write(&[K]).await.unwrap();
    database.commit(K, 2);
    drop_unanswered(&server, write.committed()).await;
    is_released(&server).await;
    assert_eq!(database.get(&reader, K).await, Some(2));
    assert_eq!(loads(&reader, &database).await, 0);
    // And one that was never polled.
    drop(writer.begin_write(&[K]).await.unwrap().committed());
    is_released(&server).await;
}

async fn a_closure_that_succeeds_is_seen_by_readers_at_once() {
    let (server, database) = (server(), Database::default());
    let (writer, reader) = (patient(&server), open(&server));
    database.commit(K, 1);
    assert_eq!(database.get(&reader, K).await, Some(1));
    let commits = database.clone();
    let written = writer.write(&[K], async |write: &Write<u64>| {
        assert!(write.remaining() > secs(3000));
        assert_eq!(commits.get(&reader, K).await, Some(1));
        commits.commit(K, 2);
        Ok::<_, Error>("done")
    });
    assert_eq!(written.await.unwrap(), "done");
    assert!(!exists(&server, HOLD));
    assert_eq!(database.get(&reader, K).await, Some(2));
    assert_eq!(loads(&reader, &database).await, 0);
}

async fn a_closure_that_fails_or_panics_or_is_cancelled_releases_its_keys() {
    let (server, database) = (server(), Database::default());
    let (writer, reader) = (patient(&server), open(&server));
    database.commit(K, 1);
    let failed = writer.write(&[K], async |_: &Write<u64>| Err::<(), BoxError>("no".into()));
    assert_eq!(failed.await.unwrap_err().to_string(), "no");
    is_released(&server).await;

    let panics = writer.clone();
    let panicked = tokio::spawn(async move {
        panics.write(&[K], async |_: &Write<u64>| -> Result<(), BoxError> { panic!("bug") }).await
    });
    assert!(panicked.await.unwrap_err().is_panic());
    is_released(&server).await;

    let waits = writer.clone();
    let waiting = tokio::spawn(async move {
        waits
            .write(&[K], async |_: &Write<u64>| {
                std::future::pending::<Result<(), BoxError>>().await
            })
            .await
    });
    until("it has begun", || exists(&server, HOLD)).await;
    waiting.abort();
    is_released(&server).await;
    assert_eq!(loads(&reader, &database).await, 1);
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

async fn a_closure_does_not_run_when_redis_refuses_the_hold() {
    let mut server = server();
    let writer = quiet().redis_limit(ms(300)).open(&server.url()).unwrap();
    server.kill();
    let refused = writer.write(&[K], async |_: &Write<u64>| -> Result<(), Error> {
        panic!("a write without its hold")
    });
    assert_eq!(refused.await.unwrap_err().kind(), ErrorKind::Unavailable);
}
