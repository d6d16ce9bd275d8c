//! Twenty requests bring the same order at once: a check before the insert saves it twenty times, `SaveOnce` once.
//!
//! `cargo run -p leasehold-once --features sqlite --example save_once`. The table is in memory (SQLite). The example starts
//! a Redis server of its own, unless an argument names one (`-- redis://host:6379`). `docs/once.md` shows what it
//! prints.

use std::io::Write;
use std::sync::Arc;

use leasehold_once::{BoxError, SaveOnce, SaveOnceBuilder, Table};
use leasehold_test_servers::{RedisServer, RedisSettings};
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{Sqlite, SqlitePool};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const ORDER: &str = "order 555";

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut own = None;
    let redis = match std::env::args().nth(1) {
        Some(url) => url,
        None => own.insert(RedisServer::start(RedisSettings::new())?).url(),
    };
    play(&redis, &mut std::io::stdout()).await
}

pub(crate) async fn play(redis: &str, out: &mut impl Write) -> Result<(), BoxError> {
    // One connection, which is the database too: it is in memory.
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    writeln!(out, "way                   requests   process   Redis   database   rows")?;

    let found_no_row = check_then_insert(&pool, 20).await?;
    let rows = count(&pool, "unchecked").await?;
    writeln!(out, "check, then INSERT          20         0       0 {found_no_row:>10} {rows:>6}")?;

    Table::new("events", pool.clone())?.create().await?;
    for process in ["A", "B"] {
        // Each process has a memory of its own; table and marks in Redis are shared.
        let table = Table::new("events", pool.clone())?;
        let events = SaveOnceBuilder::new("events").open(redis, table)?;
        save(&events, 10).await?;
        let stats = events.stats();
        let (asked, local, marked) = (stats.asked, stats.local, stats.marked);
        let (attempts, rows) = (stats.attempts, count(&pool, "events").await?);
        let line = format!("{asked:>8} {local:>9} {marked:>7} {attempts:>10} {rows:>6}");
        writeln!(out, "SaveOnce, process {process}   {line}")?;
        mark(redis).await?;
    }
    Ok(())
}

/// So many requests at once. Each inserts if it finds no row; returns how many found none.
async fn check_then_insert(pool: &SqlitePool, requests: usize) -> Result<usize, BoxError> {
    sqlx::query("CREATE TABLE unchecked (id TEXT)").execute(pool).await?;
    let all_have_checked = Arc::new(Barrier::new(requests));
    let mut all = JoinSet::new();
    for _ in 0..requests {
        let (pool, all_have_checked) = (pool.clone(), Arc::clone(&all_have_checked));
        all.spawn(async move {
            let none = count(&pool, "unchecked").await? == 0;
            all_have_checked.wait().await;
            if none {
                sqlx::query("INSERT INTO unchecked VALUES ($1)").bind(ORDER).execute(&pool).await?;
            }
            Ok::<_, BoxError>(none)
        });
    }
    let mut found_no_row = 0;
    for none in all.join_all().await {
        found_no_row += usize::from(none?);
    }
    Ok(found_no_row)
}

/// So many requests at once. Each returns when the row is saved, by this request or by another.
async fn save(events: &SaveOnce<Table<Sqlite>>, requests: usize) -> Result<(), BoxError> {
    let mut all = JoinSet::new();
    for _ in 0..requests {
        let events = events.clone();
        all.spawn(async move { events.save(ORDER.to_owned(), b"12.50 EUR".to_vec()).await });
    }
    for saved in all.join_all().await {
        saved?;
    }
    Ok(())
}

async fn count(pool: &SqlitePool, table: &str) -> Result<i64, BoxError> {
    let select = format!("SELECT COUNT(*) FROM {table}");
    Ok(sqlx::query_scalar(&select).fetch_one(pool).await?)
}

/// Waits for the mark in Redis, which is set after the commit and after the answer.
async fn mark(redis: &str) -> Result<(), BoxError> {
    let mut connection = redis::Client::open(redis)?.get_multiplexed_async_connection().await?;
    let key = format!("leasehold-saved:events:{ORDER}");
    for _ in 0..500 {
        if redis::cmd("EXISTS").arg(&key).query_async(&mut connection).await? {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    Err("no mark in Redis for 10 s".into())
}
