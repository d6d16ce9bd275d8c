//! Tokens are checked in the transaction that writes.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::memory::MemoryStore;
use leasehold_core::{Announce, Client, ErrorKind, Fenced, Result, Token};
use leasehold_sql::rows::{FenceTable, RowFence, failure};
use sqlx::{Encode, Pool, Type};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::database::{Talk, exec, number, stock};

fn token(value: u64) -> Token {
    Token::new(value).unwrap()
}

fn fence() -> RowFence {
    RowFence::new("stock", "item", "fence").unwrap()
}

/// Checks both kinds of fence for item 1, then writes; commits only if both accept.
async fn write<E: Talk>(pool: &Pool<E>, amount: i64, token: Token) -> Result<Fenced>
where
    i64: for<'q> Encode<'q, E> + Type<E>,
{
    let mut tx = pool.begin().await.map_err(failure)?;
    let row = fence().check(&mut tx, 1_i64, token).await?;
    let table = FenceTable::new("fences")?.check(&mut tx, "stock/1", token).await?;
    let update = format!("UPDATE stock SET amount = {amount} WHERE item = 1");
    E::exec(&mut tx, &update).await?;
    match (&row, &table) {
        (Fenced::Written, Fenced::Written) => tx.commit().await.map_err(failure)?,
        (Fenced::Stale(row), Fenced::Stale(table)) => {
            assert_eq!((row.offered, row.highest), (table.offered, table.highest));
            assert_eq!((row.resource.as_str(), table.resource.as_str()), ("stock 1", "stock/1"));
        }
        both => panic!("they disagree: {both:?}"),
    }
    Ok(row)
}

async fn tables<E: Talk>(pool: &Pool<E>) {
    stock(pool, 10).await;
    FenceTable::new("fences").unwrap().create(pool).await.unwrap();
}

const AMOUNT: &str = "SELECT amount FROM stock WHERE item = 1";

pub(crate) async fn an_older_token_changes_nothing<E: Talk>(pool: Pool<E>)
where
    i64: for<'q> Encode<'q, E> + Type<E>,
{
    tables(&pool).await;
    FenceTable::new("fences").unwrap().create(&pool).await.unwrap();
    for (amount, offered) in [(9, 999), (8, 1000), (7, 1000), (6, Token::MAX.get())] {
        assert_eq!(write(&pool, amount, token(offered)).await.unwrap(), Fenced::Written);
        assert_eq!(number(&pool, AMOUNT).await, amount);
    }
    for offered in [1, 999, 1000, Token::MAX.get() - 1] {
        let Fenced::Stale(stale) = write(&pool, 0, token(offered)).await.unwrap() else {
            panic!("{offered} passed");
        };
        assert_eq!((stale.offered, stale.highest), (token(offered), Token::MAX));
    }
    assert_eq!(number(&pool, AMOUNT).await, 6);
    // Other rows do not change.
    assert_eq!(number(&pool, "SELECT COUNT(*) FROM stock WHERE fence IS NULL").await, 2);
}

pub(crate) async fn of_concurrent_writers_the_last_token_stays<E: Talk>(pool: Pool<E>)
where
    i64: for<'q> Encode<'q, E> + Type<E>,
{
    tables(&pool).await;
    let mut writers = JoinSet::new();
    for offered in 1..=40_u64 {
        let pool = pool.clone();
        writers.spawn(async move {
            loop {
                match write(&pool, offered as i64, token(offered)).await {
                    // Two upserts of one new row may deadlock.
                    Err(error) if error.kind() == ErrorKind::Conflict => {}
                    outcome => return drop(outcome.unwrap()),
                }
            }
        });
    }
    writers.join_all().await;
    for what in [AMOUNT, "SELECT fence FROM stock WHERE item = 1", "SELECT token FROM fences"] {
        assert_eq!(number(&pool, what).await, 40, "{what}");
    }
}

/// A transaction that has read before has a snapshot; the fence must not answer from it.
pub(crate) async fn a_snapshot_from_before_hides_no_token<E: Talk>(pool: Pool<E>)
where
    i64: for<'q> Encode<'q, E> + Type<E>,
{
    tables(&pool).await;
    assert_eq!(write(&pool, 9, token(33)).await.unwrap(), Fenced::Written);
    let mut connection = pool.acquire().await.unwrap();
    if E::NAME == "PostgreSQL" {
        let level = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ";
        E::exec(&mut connection, level).await.unwrap();
    }
    let mut tx = sqlx::Connection::begin(&mut *connection).await.unwrap();
    assert_eq!(E::number(&mut tx, AMOUNT).await.unwrap(), 9);
    assert_eq!(write(&pool, 8, token(34)).await.unwrap(), Fenced::Written);
    match fence().check(&mut tx, 1_i64, token(33)).await {
        Ok(Fenced::Stale(stale)) => {
            assert_eq!(stale.highest, token(34));
            let table = FenceTable::new("fences").unwrap();
            let Fenced::Stale(stale) = table.check(&mut tx, "stock/1", token(33)).await.unwrap()
            else {
                panic!("the table let it pass");
            };
            assert_eq!(stale.highest, token(34));
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
        Ok(other) => panic!("let pass by an old snapshot: {other:?}"),
    }
}

pub(crate) async fn a_row_without_a_token_takes_the_first<E: Talk>(pool: Pool<E>)
where
    i64: for<'q> Encode<'q, E> + Type<E>,
{
    stock(&pool, 10).await;
    exec(&pool, "UPDATE stock SET fence = 0 WHERE item = 2").await;
    let mut tx = pool.begin().await.unwrap();
    for item in [1_i64, 2] {
        assert_eq!(fence().check(&mut tx, item, token(1)).await.unwrap(), Fenced::Written);
    }
    let error = fence().check(&mut tx, 99_i64, token(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign);
    assert_eq!(error.to_string(), "fence: no row with key stock 99; insert it before the check");
}

/// A holder with a runtime of its own, which is paused longer than its lease, with its renewal.
struct Paused {
    token: Token,
    resume: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Paused {
    async fn start(store: &MemoryStore) -> Self {
        let (holds, held) = oneshot::channel();
        let (resume, resumed) = oneshot::channel();
        let backend = Arc::new(store.connect());
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let guard = runtime.block_on(async {
                let client = Client::new(backend).unwrap();
                client.lock("stock/1").ttl(Duration::from_millis(200)).acquire().await.unwrap()
            });
            // The pause: no task of this runtime runs.
            holds.send(guard.token()).unwrap();
            resumed.blocking_recv().unwrap();
            assert!(!guard.is_valid());
            drop((guard, runtime));
        });
        Self { token: held.await.unwrap(), resume, thread }
    }

    /// Ends the pause; returns the token, for the late write.
    async fn resume(self) -> Token {
        self.resume.send(()).unwrap();
        tokio::task::spawn_blocking(|| self.thread.join()).await.unwrap().unwrap();
        self.token
    }
}

/// The story: a holder is paused longer than its lease, and writes late.
pub(crate) async fn a_paused_holders_late_write_is_refused<E: Talk>(pool: Pool<E>)
where
    i64: for<'q> Encode<'q, E> + Type<E>,
{
    tables(&pool).await;
    let store = MemoryStore::new();
    let paused = Paused::start(&store).await;
    let client = Client::new(Arc::new(store.connect())).unwrap();
    let guard = client.lock("stock/1").acquire().await.unwrap();
    assert!(guard.token() > paused.token);
    assert_eq!(write(&pool, 5, guard.token()).await.unwrap(), Fenced::Written);
    let late = paused.resume().await;
    let stale = write(&pool, 0, late).await.unwrap().into_result().unwrap_err();
    assert_eq!((stale.offered, stale.highest), (late, guard.token()));
    assert_eq!(number(&pool, AMOUNT).await, 5);
    assert!(guard.is_valid(), "the later holder is undisturbed");
}

/// The story with readers after the paused writer: without an announcement its late write passes.
pub(crate) async fn a_late_write_is_refused_once_readers_announce<E: Talk>(pool: Pool<E>)
where
    i64: for<'q> Encode<'q, E> + Type<E>,
{
    tables(&pool).await;
    let table = FenceTable::new("fences").unwrap();
    let store = MemoryStore::new();
    for (announced, amount) in [(false, 0), (true, 10)] {
        exec(&pool, "UPDATE stock SET amount = 10 WHERE item = 1").await;
        let paused = Paused::start(&store).await;
        let mut readers = Vec::new();
        for _ in 0..2 {
            let client = Client::new(Arc::new(store.connect())).unwrap();
            let guard = client.rw_lock("stock/1").read().await.unwrap();
            assert!(guard.token() > paused.token);
            if announced {
                guard.announce(&fence(), (&pool, 1_i64)).await.unwrap();
                guard.announce(&table, (&pool, "stock/1")).await.unwrap();
            }
            readers.push(guard);
        }
        let late = paused.resume().await;
        assert_eq!(write(&pool, 0, late).await.unwrap() != Fenced::Written, announced);
        assert_eq!(number(&pool, AMOUNT).await, amount);
        assert!(readers.iter().all(|guard| guard.is_valid()), "the readers are undisturbed");
        if announced {
            // The answer of a stale announcement, which leaves the connection usable.
            let answer = Announce::announce(&fence(), (&pool, 1_i64), late).await.unwrap();
            assert_eq!(answer.into_result().unwrap_err().highest, readers[0].token());
        }
    }
}

pub(crate) async fn resources_differ_in_every_byte<E: Talk>(pool: Pool<E>) {
    tables(&pool).await;
    let fence = FenceTable::new("fences").unwrap();
    let long = "x".repeat(2048);
    let names = ["a", "A", "a ", "ä", "名字", "'; DROP TABLE fences; --", &long];
    let mut tx = pool.begin().await.unwrap();
    for (value, name) in (1..).zip(names) {
        assert_eq!(fence.check(&mut tx, name, token(value)).await.unwrap(), Fenced::Written);
    }
    for (value, name) in (1..).zip(names) {
        assert_eq!(fence.check(&mut tx, name, token(value)).await.unwrap(), Fenced::Written);
    }
    for bad in ["", "a\0", &"x".repeat(2049)] {
        let error = fence.check(&mut tx, bad, token(99)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    tx.commit().await.unwrap();
    assert_eq!(number(&pool, "SELECT COUNT(*) FROM fences").await, 7);
}
