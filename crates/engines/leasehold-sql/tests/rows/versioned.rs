//! A write whose version is not current is refused, and repeated.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold_core::{ErrorKind, Fenced, Retry, Token};
use leasehold_sql::rows::{
    Change, Engine, FenceTable, RowFence, Tries, Updated, Versioned, failure,
};
use sqlx::{ColumnIndex, Decode, Encode, Pool, Row, Type};
use tokio::task::JoinSet;

use crate::database::{Talk, exec, number, stock};

fn versioned() -> Versioned {
    Versioned::new("stock", "item", "version").unwrap()
}

fn amount<E: Engine>(row: &E::Row) -> leasehold_core::Result<i64>
where
    i64: for<'r> Decode<'r, E> + Type<E>,
    for<'i> &'i str: ColumnIndex<E::Row>,
{
    row.try_get("amount").map_err(failure)
}

pub(crate) async fn no_update_is_lost<E: Talk>(pool: Pool<E>)
where
    i64: for<'q> Encode<'q, E> + for<'r> Decode<'r, E> + Type<E>,
    for<'i> &'i str: ColumnIndex<E::Row>,
{
    stock(&pool, 0).await;
    let tries = Tries::most(10_000).backoff(Duration::from_millis(1), Duration::from_millis(20));
    let mut adders = JoinSet::new();
    for _ in 0..40 {
        let (pool, stock) = (pool.clone(), versioned().tries(tries));
        adders.spawn(async move {
            let add = |row: &E::Row| Ok(Some(Change::new().set("amount", amount::<E>(row)? + 1)));
            assert_eq!(stock.update(&pool, 1_i64, add).await.unwrap(), Updated::Written);
        });
    }
    adders.join_all().await;
    assert_eq!(number(&pool, "SELECT amount FROM stock WHERE item = 1").await, 40);
    assert_eq!(number(&pool, "SELECT version FROM stock WHERE item = 1").await, 40);
    assert_eq!(number(&pool, "SELECT COUNT(*) FROM stock WHERE version = 0").await, 2);
    let none = |_: &E::Row| Ok(None);
    assert_eq!(versioned().update(&pool, 1_i64, none).await.unwrap(), Updated::Unchanged);
    assert_eq!(versioned().update(&pool, 9_i64, none).await.unwrap(), Updated::NoRow);
    assert_eq!(number(&pool, "SELECT version FROM stock WHERE item = 1").await, 40);
}

pub(crate) async fn a_row_that_has_changed_is_a_conflict<E: Talk>(pool: Pool<E>)
where
    i64: for<'q> Encode<'q, E> + for<'r> Decode<'r, E> + Type<E>,
    for<'i> &'i str: ColumnIndex<E::Row>,
{
    stock(&pool, 5).await;
    let stock = versioned();
    let read = async || {
        let mut connection = pool.acquire().await.unwrap();
        stock.read::<E, _>(&mut connection, 1_i64).await.unwrap().unwrap()
    };
    let seen = read().await;
    assert_eq!((amount::<E>(&seen.row).unwrap(), seen.version), (5, 0));
    exec(&pool, "UPDATE stock SET amount = 3, version = version + 1 WHERE item = 1").await;
    let mut tx = pool.begin().await.unwrap();
    let change = || Change::new().set("amount", 4_i64);
    let error = stock.write(&mut tx, 1_i64, seen.version, change()).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Conflict, Retry::Useful));
    tx.rollback().await.unwrap();
    assert_eq!(number(&pool, "SELECT amount FROM stock WHERE item = 1").await, 3);
    let seen = read().await;
    let mut tx = pool.begin().await.unwrap();
    stock.write(&mut tx, 1_i64, seen.version, change()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(number(&pool, "SELECT amount FROM stock WHERE item = 1").await, 4);
}

pub(crate) async fn a_table_may_have_its_schema_before_it<E: Talk>(pool: Pool<E>)
where
    i64: for<'q> Encode<'q, E> + for<'r> Decode<'r, E> + Type<E>,
    for<'i> &'i str: ColumnIndex<E::Row>,
{
    stock(&pool, 5).await;
    let schema = match E::NAME {
        "PostgreSQL" => "public".to_owned(),
        "SQLite" => "main".to_owned(),
        // The databases of the tests are named `test` with a number.
        _ => format!(
            "test{}",
            number(&pool, "SELECT CAST(SUBSTRING(DATABASE(), 5) AS SIGNED)").await
        ),
    };
    let stock = Versioned::new(&format!("{schema}.stock"), "item", "version").unwrap();
    let add = |row: &E::Row| Ok(Some(Change::new().set("amount", amount::<E>(row)? + 1)));
    assert_eq!(stock.update(&pool, 1_i64, add).await.unwrap(), Updated::Written);
    assert_eq!(number(&pool, "SELECT amount FROM stock WHERE item = 1").await, 6);
    let fence = RowFence::new(&format!("{schema}.stock"), "item", "fence").unwrap();
    let table = FenceTable::new(&format!("{schema}.fences")).unwrap();
    table.create(&pool).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let token = Token::new(7).unwrap();
    assert_eq!(fence.check(&mut tx, 1_i64, token).await.unwrap(), Fenced::Written);
    assert_eq!(table.check(&mut tx, "a", token).await.unwrap(), Fenced::Written);
}

pub(crate) async fn tries_are_bounded<E: Talk>(pool: Pool<E>)
where
    i64: for<'q> Encode<'q, E> + for<'r> Decode<'r, E> + Type<E>,
{
    stock(&pool, 5).await;
    // Another client is always faster: another write comes between each read and its write. SQLite
    // and the other engines admit it, since no client holds a lock during the computation.
    let stock = versioned().tries(Tries::most(4).backoff(Duration::ZERO, Duration::ZERO));
    let tried = AtomicU32::new(0);
    let handle = tokio::runtime::Handle::current();
    let error = stock
        .update(&pool, 1_i64, |_| {
            tried.fetch_add(1, Ordering::Relaxed);
            let faster = exec(&pool, "UPDATE stock SET version = version + 1 WHERE item = 1");
            tokio::task::block_in_place(|| handle.block_on(faster));
            Ok(Some(Change::new().set("amount", 0_i64)))
        })
        .await
        .unwrap_err();
    assert_eq!((error.kind(), tried.into_inner()), (ErrorKind::Conflict, 4));
    assert!(error.to_string().starts_with("write: stock: version 3 is not"), "{error}");
    assert_eq!(number(&pool, "SELECT amount FROM stock WHERE item = 1").await, 5);
}

/// At an isolation level with snapshots, the database itself detects it.
pub(crate) async fn a_snapshot_that_others_were_faster_than_is_a_conflict<E: Talk>(pool: Pool<E>)
where
    i64: for<'q> Encode<'q, E> + for<'r> Decode<'r, E> + Type<E>,
{
    stock(&pool, 5).await;
    let stock = versioned();
    let mut connection = pool.acquire().await.unwrap();
    if E::NAME == "PostgreSQL" {
        let level = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE";
        E::exec(&mut connection, level).await.unwrap();
    }
    let mut tx = sqlx::Connection::begin(&mut *connection).await.unwrap();
    let seen = stock.read::<E, _>(&mut tx, 1_i64).await.unwrap().unwrap();
    exec(&pool, "UPDATE stock SET version = version + 1 WHERE item = 1").await;
    let change = Change::new().set("amount", 4_i64);
    let error = stock.write(&mut tx, 1_i64, seen.version, change).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
}
