//! Sixty-four buyers never buy more than there is, on every engine, in every way; and overselling
//! by a lock that failed is found and repaired.

#![allow(clippy::unwrap_used)]

#[path = "../examples/stock/shop.rs"]
mod shop;

use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::pages;
use leasehold_test_servers::{MariaDb, Needs, Postgres};
use shop::{Books, Shop, Talk, Way};
use sqlx::pool::PoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{Database, Encode, PgPool, Pool, Row, Type};
use tokio::task::JoinSet;

fn options<E: Database>() -> PoolOptions<E> {
    PoolOptions::new().max_connections(16).acquire_timeout(Duration::from_secs(60))
}

/// All buyers at once; how many of them got a piece.
async fn sell<E: Talk>(shop: &Arc<Shop<E>>, way: Way, pieces: i64, buyers: u64) -> usize
where
    i64: for<'q> Encode<'q, E> + Type<E>,
{
    shop.stock(pieces).await.unwrap();
    let mut all = JoinSet::new();
    for buyer in 1..=buyers {
        let shop = Arc::clone(shop);
        all.spawn(async move { shop.buy(way, buyer).await.unwrap() });
    }
    all.join_all().await.into_iter().filter(|bought| *bought).count()
}

async fn never_oversold<E: Talk>(pool: Pool<E>)
where
    i64: for<'q> Encode<'q, E> + Type<E>,
{
    let client = leasehold::connect("memory:").await.unwrap();
    let shop = Arc::new(Shop::new(pool, client.lock("stock")).unwrap());
    for way in Way::SAFE {
        for (pieces, sold) in [(40, 40), (100, 64), (0, 0)] {
            assert_eq!(sell(&shop, way, pieces, 64).await, sold as usize, "{}", way.name());
            let books = shop.books().await.unwrap();
            let expected = Books { stocked: pieces, left: pieces - sold, sold };
            assert_eq!(books, expected, "{}", way.name());
            assert!(books.balance() && books.oversold() == 0);
        }
    }

    // All of them see the same amount: the row looks well, the books do not.
    let bought = sell(&shop, Way::FailedLock, 1, 8).await;
    let books = shop.books().await.unwrap();
    assert_eq!((books.sold, books.left), (bought as i64, 0));
    assert!(books.oversold() > 0 && !books.balance(), "{books:?}");
    assert_eq!(shop.repair().await.unwrap(), books.oversold());
    let books = shop.books().await.unwrap();
    assert_eq!(books, Books { stocked: 1, left: 0, sold: 1 });
    assert_eq!(shop.repair().await.unwrap(), 0, "what is right stays");
    shop.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_is_never_oversold() {
    let directory = tempfile::tempdir().unwrap();
    let connect = SqliteConnectOptions::new()
        .filename(directory.path().join("shop.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(60));
    never_oversold(options::<sqlx::Sqlite>().connect_with(connect).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_is_never_oversold() {
    if Needs::Postgres.is_skipped() {
        return;
    }
    let server = Postgres::start(&[]).unwrap();
    let pool = options::<sqlx::Postgres>().connect(&server.url()).await.unwrap();
    never_oversold(pool).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_is_never_oversold() {
    if Needs::MySql.is_skipped() {
        return;
    }
    let server = MariaDb::start(&[]).unwrap();
    let pool = options::<sqlx::MySql>().connect(&server.url()).await.unwrap();
    never_oversold(pool).await;
}

#[test]
fn the_code_of_the_page_on_rows_is_compiled() {
    pages::are_compiled("sql-rows.md", include_str!("stock.rs"));
}

#[expect(dead_code, unused_imports, reason = "the page on rows shows it")]
async fn rows_page(pool: PgPool) -> Result<(), Box<dyn std::error::Error>> {
    use leasehold::rows::{Change, Tries, Versioned, Wait, failure, for_update, retry};

    let mut tx = pool.begin().await?;
    let stock = sqlx::query("SELECT amount FROM stock WHERE item = $1").bind(7);
    let rows = for_update(&mut tx, stock, Wait::Within(Duration::from_secs(1))).await?;

    let stock = Versioned::new("stock", "item", "version")?;
    let outcome = stock
        .update(&pool, 7, |row| {
            let amount: i64 = row.try_get("amount").map_err(failure)?;
            Ok((amount > 0).then(|| Change::new().set("amount", amount - 1)))
        })
        .await?;
    drop((rows, outcome));
    Ok(())
}
