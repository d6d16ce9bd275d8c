//! What is promised of rows that are saved once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::rows::Engine;
use leasehold_conformance::until;
use leasehold_once::ErrorKind;
use leasehold_once::{SaveOnceBuilder, Store, StoreError, Table};
use leasehold_test_servers::{RedisServer, RedisSettings, Value};
use sqlx::Pool;

type Rows = Vec<(String, Vec<u8>)>;

fn server() -> RedisServer {
    RedisServer::start(RedisSettings::new()).unwrap()
}

fn builder() -> SaveOnceBuilder {
    SaveOnceBuilder::new("test").redis_limit(Duration::from_secs(10))
}

async fn table<E: Engine>(pool: &Pool<E>) -> Table<E> {
    let table = Table::new("saved", pool.clone()).unwrap();
    table.create().await.unwrap();
    table.create().await.unwrap();
    table
}

fn rows(range: std::ops::Range<u32>, payload: &str) -> Rows {
    range.map(|row| (format!("row {row}"), payload.as_bytes().to_vec())).collect()
}

/// All rows of a table; `sqlx` has no bound that says it for every database.
pub(crate) trait Read: Engine {
    fn read(pool: &Pool<Self>) -> impl Future<Output = BTreeMap<String, Vec<u8>>>;

    /// Makes it with payloads of less than 100 bytes.
    fn create_checked(pool: &Pool<Self>) -> impl Future<Output = ()>;
}

macro_rules! read {
    ($($engine:ty, $id:ty, $columns:literal;)*) => {
        $(impl Read for $engine {
            async fn read(pool: &Pool<Self>) -> BTreeMap<String, Vec<u8>> {
                let rows: Vec<($id, Vec<u8>)> =
                    sqlx::query_as("SELECT id, payload FROM saved").fetch_all(pool).await.unwrap();
                let count = rows.len();
                let text = |id: $id| String::from_utf8(Vec::from(id)).unwrap();
                let rows: BTreeMap<_, _> = rows.into_iter().map(|(id, row)| (text(id), row)).collect();
                assert_eq!(rows.len(), count, "a row is there twice");
                rows
            }

            async fn create_checked(pool: &Pool<Self>) {
                let create =
                    concat!("CREATE TABLE saved (", $columns, " CHECK (length(payload) < 100))");
                sqlx::query(create).execute(pool).await.unwrap();
            }
        })*
    };
}
read! {
    sqlx::Postgres, String, "id TEXT PRIMARY KEY, payload BYTEA";
    sqlx::MySql, Vec<u8>, "id VARBINARY(512) PRIMARY KEY, payload LONGBLOB";
    sqlx::Sqlite, String, "id TEXT PRIMARY KEY, payload BLOB";
}

pub(crate) async fn what_comes_again_is_saved_once<E: Read>(pool: Pool<E>) {
    let (server, table) = (server(), table(&pool).await);
    let open = || builder().batch(100).open(&server.url(), table.clone()).unwrap();
    let (one, other) = (open(), open());
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8 {
        let once = if task % 2 == 0 { one.clone() } else { other.clone() };
        tasks.spawn(async move { once.save_many(rows(0..500, "first")).await.unwrap() });
    }
    tasks.join_all().await;
    for once in [&one, &other, &open()] {
        once.save_many(rows(250..750, "second")).await.unwrap();
    }
    one.save("row 0".into(), b"third".to_vec()).await.unwrap();
    let saved = E::read(&pool).await;
    assert_eq!(saved.len(), 750);
    for row in 0..750 {
        let payload: &[u8] = if row < 500 { b"first" } else { b"second" };
        assert_eq!(saved[&format!("row {row}")], payload);
    }
    let stats = one.stats();
    // Each key once at most from one process, though four tasks had it at once.
    assert!(stats.attempts <= 750, "{stats:?}");
    assert_eq!((stats.asked, stats.failed), (2_501, 0), "{stats:?}");
    assert_eq!(stats.attempts + stats.local + stats.marked, stats.asked, "{stats:?}");
}

pub(crate) async fn a_row_that_is_not_taken_costs_no_other<E: Read>(pool: Pool<E>) {
    let (server, table) = (server(), table(&pool).await);
    let once = builder().open(&server.url(), table).unwrap();
    let mut some = rows(0..300, "x");
    // Longer than the table takes.
    let long = "é".repeat(256);
    some.insert(150, (long.clone() + "é", b"x".to_vec()));
    let error = once.save_many(some.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "nothing is sent of what cannot be: {error}");
    assert!(E::read(&pool).await.is_empty());
    some[150].0 = long;
    once.save_many(some).await.unwrap();
    assert_eq!(E::read(&pool).await.len(), 301);

    // A table that takes none says nothing of the rows, and is asked once by each worker.
    let missing = Table::new("nowhere", pool.clone()).unwrap();
    let once = builder().prefix("other").open(&server.url(), missing).unwrap();
    let error = once.save_many(rows(0..1_000, "x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("nowhere"), "{error}");
    let stats = once.stats();
    assert!(stats.batches <= 2 && stats.failed == 1_000, "{stats:?}");
}

pub(crate) async fn a_row_that_breaks_a_constraint_costs_no_other<E: Read>(pool: Pool<E>) {
    let server = server();
    E::create_checked(&pool).await;
    let once = builder().open(&server.url(), Table::new("saved", pool.clone()).unwrap()).unwrap();
    let mut some = rows(0..300, "x");
    some[7].1 = vec![0; 100];
    let error = once.save_many(some).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("row 7"), "{error}");
    assert_eq!(E::read(&pool).await.len(), 299);
}

pub(crate) async fn large_rows_go_into_more_statements<E: Read>(pool: Pool<E>) {
    let (server, table) = (server(), table(&pool).await);
    let once = builder().workers(1).open(&server.url(), table).unwrap();
    let mut some: Rows = (10..40).map(|row| (format!("row {row}"), vec![row; 100_000])).collect();
    once.save_many(some.clone()).await.unwrap();
    assert_eq!(once.stats().batches, 3, "ten are a megabyte");
    let large = vec![7; 2 << 20];
    some.insert(0, ("row 1".into(), large.clone()));
    some.push(("row 9".into(), large));
    once.save_many(some.clone()).await.unwrap();
    assert_eq!(once.stats().batches, 5, "each by itself");
    assert_eq!(E::read(&pool).await, some.into_iter().collect());
}

pub(crate) async fn a_row_that_is_too_large_costs_no_other(pool: Pool<sqlx::MySql>) {
    let (server, table) = (server(), table(&pool).await);
    let once = builder().workers(1).open(&server.url(), table).unwrap();
    let mut some = rows(0..10, "x");
    some[7].1 = vec![0; 4 << 20];
    let error = once.save_many(some).await.unwrap_err();
    // Of what kind depends on whether the server's answer is read before it closes the connection.
    assert!(error.to_string().contains("row 7"), "{error}");
    assert_eq!(Read::read(&pool).await.len(), 9);
}

pub(crate) async fn all_bytes_of_a_key_count<E: Read>(pool: Pool<E>) {
    let (server, table) = (server(), table(&pool).await);
    let once = builder().open(&server.url(), table).unwrap();
    let keys = ["a", "A", "a ", "a  ", "ä", "á", "'); DROP TABLE rows; --", "$1", "?"];
    let some: Rows = keys.iter().map(|key| ((*key).into(), key.as_bytes().to_vec())).collect();
    once.save_many(some).await.unwrap();
    let saved = E::read(&pool).await;
    assert_eq!(saved.len(), keys.len());
    assert!(keys.iter().all(|key| saved[*key] == key.as_bytes()));
}

/// Redis restarts from a snapshot, again and again, so that marks of saved rows are gone.
pub(crate) async fn restarts_from_snapshots_lose_and_double_no_row<E: Read>(pool: Pool<E>) {
    let (mut server, table) = (server(), table(&pool).await);
    let open = || {
        let builder = SaveOnceBuilder::new("test").redis_limit(Duration::from_millis(500));
        builder.batch(50).local_size(100).open(&server.url(), table.clone()).unwrap()
    };
    let processes = [open(), open()];
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8_u32 {
        let once = processes[task as usize % 2].clone();
        tasks.spawn(async move {
            // Each row comes from every task.
            for page in 0..40 {
                let page = (page + 5 * task) % 40;
                once.save_many(rows(25 * page..25 * page + 25, "first")).await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }
    for _ in 0..3 {
        server.admin(&["SAVE"]).unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        server.restart().unwrap();
    }
    tasks.join_all().await;
    for once in &processes {
        once.save_many(rows(0..1_000, "second")).await.unwrap();
    }
    let saved = E::read(&pool).await;
    assert_eq!(saved.len(), 1_000, "none is lost");
    assert!(saved.values().all(|payload| payload == b"first"), "none is replaced");
}

pub(crate) async fn without_redis_rows_are_saved<E: Read>(pool: Pool<E>) {
    let (mut server, table) = (server(), table(&pool).await);
    let once = builder().batch(100).open(&server.url(), table).unwrap();
    once.save_many(rows(0..100, "x")).await.unwrap();
    server.kill();
    once.save_many(rows(50..400, "x")).await.unwrap();
    assert_eq!(E::read(&pool).await.len(), 400);
    let stats = once.stats();
    assert!(stats.batches <= 2 * 5, "in batches still: {stats:?}");
}

/// A store that does what the test says.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Inner>);

#[derive(Default)]
struct Inner {
    rows: Mutex<BTreeMap<String, u32>>,
    /// Rows of these keys are refused.
    refused: Mutex<Vec<String>>,
    /// The store is away, or only for rows of this key.
    away: AtomicU64,
    away_for: Mutex<Option<String>>,
    under_way: Mutex<Vec<String>>,
}

impl Store for Memory {
    type Row = ();

    async fn insert(&self, rows: &[(&str, &())]) -> Result<(), StoreError> {
        let keys: Vec<String> = rows.iter().map(|(key, _)| (*key).to_owned()).collect();
        assert!(keys.is_sorted() && keys.windows(2).all(|pair| pair[0] != pair[1]));
        {
            let mut under_way = self.0.under_way.lock().unwrap();
            let twice = keys.iter().find(|key| under_way.contains(key));
            assert_eq!(twice, None, "it is under way already");
            under_way.extend(keys.iter().cloned());
        }
        tokio::task::yield_now().await;
        self.0.under_way.lock().unwrap().retain(|key| !keys.contains(key));
        let away_for = self.0.away_for.lock().unwrap().clone();
        let away = away_for.is_some_and(|key| keys.contains(&key));
        if away || self.0.away.load(Ordering::SeqCst) == 1 {
            return Err(StoreError::Unavailable("away".into()));
        }
        let refused = self.0.refused.lock().unwrap().clone();
        if refused.iter().any(|refused| keys.contains(refused)) {
            return Err(StoreError::Row("of no use".into()));
        }
        let mut rows = self.0.rows.lock().unwrap();
        keys.into_iter().for_each(|key| *rows.entry(key).or_default() += 1);
        Ok(())
    }
}

fn plain(range: std::ops::Range<u32>) -> Vec<(String, ())> {
    range.map(|row| (format!("row {row}"), ())).collect()
}

pub(crate) async fn marks_come_after_the_commit() {
    let (server, store) = (server(), Memory::default());
    let once = builder().open(&server.url(), store.clone()).unwrap();
    let marks = || match server.admin(&["DBSIZE"]).unwrap() {
        Value::Integer(marks) => marks,
        other => panic!("{other:?}"),
    };
    store.0.away.store(1, Ordering::SeqCst);
    let error = once.save_many(plain(0..50)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    *store.0.refused.lock().unwrap() = vec!["row 7".into()];
    store.0.away.store(0, Ordering::SeqCst);
    let error = once.save_many(plain(0..50)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error.to_string().contains("row 7") && error.to_string().contains("of no use"),
        "{error}"
    );
    assert_eq!(store.0.rows.lock().unwrap().len(), 49);
    let until_marked = async |count| {
        until("the rows are marked", || std::future::ready(marks() == count)).await.unwrap();
    };
    until_marked(49).await;
    assert_eq!(marks(), 49, "what was refused is not marked");
    store.0.refused.lock().unwrap().clear();
    // Neither here nor in another process is it taken for saved.
    let other = builder().open(&server.url(), store.clone()).unwrap();
    other.save_many(plain(0..50)).await.unwrap();
    assert_eq!(other.stats().marked, 49);
    // A mark comes a moment after the answer; before it, the key costs another attempt.
    until_marked(50).await;
    once.save_many(plain(0..50)).await.unwrap();
    assert!(store.0.rows.lock().unwrap().values().all(|times| *times == 1));
}

/// `Invalid` says that the others are saved.
pub(crate) async fn what_is_not_saved_is_not_told_saved() {
    let server = server();
    for workers in [1, 8] {
        for away in ["row 0", "row 50", "row 99"] {
            let store = Memory::default();
            let builder = builder().mark_ttl(Duration::ZERO).workers(workers).batch(10);
            let once = builder.open(&server.url(), store.clone()).unwrap();
            *store.0.refused.lock().unwrap() = vec!["row 7".into()];
            *store.0.away_for.lock().unwrap() = Some(away.into());
            let error = once.save_many(plain(0..100)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{away} is away: {error}");
            assert!(!store.0.rows.lock().unwrap().contains_key(away));
            *store.0.away_for.lock().unwrap() = None;
            let error = once.save_many(plain(0..100)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert_eq!(store.0.rows.lock().unwrap().len(), 99);
        }
    }

    // More wrong rows in a batch than are looked for.
    let store = Memory::default();
    let once = builder().workers(1).open(&server.url(), store.clone()).unwrap();
    *store.0.refused.lock().unwrap() = plain(0..40).into_iter().map(|(key, ())| key).collect();
    let error = once.save_many(plain(0..100)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("of no use"), "{error}");
    assert!(store.0.rows.lock().unwrap().len() < 60);
}

pub(crate) async fn a_foreign_mark_is_none() {
    let (server, store) = (server(), Memory::default());
    let once = builder().open(&server.url(), store.clone()).unwrap();
    server.admin(&["SET", "leasehold-saved:test:row 0", "foreign"]).unwrap();
    server.admin(&["RPUSH", "leasehold-saved:test:row 1", "1"]).unwrap();
    once.save_many(plain(0..3)).await.unwrap();
    assert_eq!(store.0.rows.lock().unwrap().len(), 3);
}

pub(crate) async fn a_key_is_in_one_batch_at_a_time() {
    let (server, store) = (server(), Memory::default());
    let once = builder().workers(4).batch(10).open(&server.url(), store.clone()).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..64_u32 {
        let once = once.clone();
        tasks.spawn(async move {
            for round in 0..20 {
                let first = (task * 7 + round * 13) % 100;
                once.save_many(plain(first..first + 30)).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    let rows = store.0.rows.lock().unwrap();
    assert_eq!(rows.len(), 129);
    assert!(rows.values().all(|times| *times == 1), "asked for once each, by one process");
    assert_eq!(once.stats().attempts, 129);
}

pub(crate) async fn bad_settings_are_named() {
    type Setting = fn(SaveOnceBuilder) -> SaveOnceBuilder;
    let wrong: [(&str, Setting); 5] = [
        ("workers", |builder| builder.workers(0)),
        ("workers", |builder| builder.workers(65)),
        ("batch", |builder| builder.batch(0)),
        ("mark_ttl", |builder| builder.mark_ttl(Duration::from_secs(86_400 * 31))),
        ("prefix", |builder| builder.prefix("a b")),
    ];
    for (field, wrong) in wrong {
        let error = wrong(builder()).open("redis://127.0.0.1:1", Memory::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().starts_with(field), "{error}");
    }
    let server = server();
    let once = builder().open(&server.url(), Memory::default()).unwrap();
    for key in ["", "a\0b", &"x".repeat(513)] {
        let error = once.save(key.to_owned(), ()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}
