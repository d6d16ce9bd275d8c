//! Sixty-four buyers and forty pieces: never oversold, in three ways; and what to do when it was.
//!
//! `cargo run -p leasehold --features mysql,postgres,sqlite --example stock [DATABASE [STORE]]`:
//! on a SQLite file that goes at the end, or in a database such as
//! `postgres://user:password@127.0.0.1/test` or `mysql://...`, where it makes and drops the tables
//! `leasehold_stock` and `leasehold_sales`. The lock is in the memory of this process, or in STORE,
//! any URL that `leasehold::connect` takes.

mod shop;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use leasehold::Lock;
use leasehold::clock::Clock;
use shop::{Shop, Talk, Way};
use sqlx::pool::PoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{Database, Encode, Pool, Type};
use tokio::task::JoinSet;

const BUYERS: u64 = 64;
const PIECES: i64 = 40;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let database = arguments.next();
    let store = arguments.next().unwrap_or_else(|| "memory:".to_owned());
    let client = leasehold::connect(&store).await?;
    let lock = client.lock("example/stock");
    let sold = match database.as_deref() {
        None => {
            let directory = tempfile::tempdir()?;
            sell(sqlite(&directory.path().join("shop.db")).await?, lock).await
        }
        Some(url) if url.starts_with("sqlite:") => {
            let file = url.trim_start_matches("sqlite:").trim_start_matches("//");
            sell(sqlite(file.as_ref()).await?, lock).await
        }
        Some(url) if url.starts_with("postgres") => {
            sell(options::<sqlx::Postgres>().connect(url).await?, lock).await
        }
        Some(url) if url.starts_with("mysql:") => {
            sell(options::<sqlx::MySql>().connect(url).await?, lock).await
        }
        Some(_) => Err("the first argument is no URL of PostgreSQL, MySQL or SQLite".into()),
    };
    client.close().await;
    sold
}

/// Fewer connections than buyers, as it is in life.
fn options<E: Database>() -> PoolOptions<E> {
    PoolOptions::new().max_connections(16).acquire_timeout(Duration::from_secs(60))
}

async fn sqlite(file: &std::path::Path) -> sqlx::Result<Pool<sqlx::Sqlite>> {
    let connect = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(60));
    options::<sqlx::Sqlite>().connect_with(connect).await
}

async fn sell<E: Talk>(pool: Pool<E>, lock: Lock) -> Result<(), Box<dyn Error>>
where
    i64: for<'q> Encode<'q, E> + Type<E>,
{
    let shop = Arc::new(Shop::new(pool, lock)?);
    println!("{BUYERS} buyers, {PIECES} pieces, on {}\n", E::NAME);
    println!("{:<12} {:>5} {:>5} {:>9} {:>7}", "way", "sold", "left", "oversold", "time");
    for way in Way::SAFE.into_iter().chain([Way::FailedLock]) {
        shop.stock(PIECES).await?;
        let clock = Clock::system();
        let start = clock.now().steady_ns;
        let mut buyers = JoinSet::new();
        for buyer in 1..=BUYERS {
            let shop = Arc::clone(&shop);
            buyers.spawn(async move { shop.buy(way, buyer).await });
        }
        for bought in buyers.join_all().await {
            bought?;
        }
        let ms = (clock.now().steady_ns - start) / 1_000_000;
        let books = shop.books().await?;
        let (name, oversold) = (way.name(), books.oversold());
        println!("{name:<12} {:>5} {:>5} {oversold:>9} {ms:>4} ms", books.sold, books.left);
    }

    let found = shop.books().await?;
    println!(
        "\nThe lock that failed let many see the same amount. The row says {} left, and nothing is\n\
         wrong with that; the books say {} sold of {}.",
        found.left, found.sold, found.stocked
    );
    let cancelled = shop.repair().await?;
    let after = shop.books().await?;
    println!(
        "Repaired: {cancelled} sales cancelled, {} stand, {} left; row and books agree: {}.",
        after.sold,
        after.left,
        after.balance()
    );
    shop.close().await?;
    Ok(())
}
