//! The lock is in Redis, the row in SQLite: a holder that pauses past its lease writes late, and the row refuses.
//!
//! `cargo run -p leasehold --features redis,sqlite --example fenced_row`. The table is in memory. The example starts a
//! Redis server of its own, unless an argument names one (`-- redis://host:6379`). `docs/fencing.md` shows what it
//! prints.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use leasehold::Token;
use leasehold::fence::sql::RowFence;
use leasehold_test_servers::{RedisServer, RedisSettings};
use sqlx::SqlitePool;
use sqlx::sqlite::SqlitePoolOptions;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut own = None;
    let redis = match std::env::args().nth(1) {
        Some(url) => url,
        None => own.insert(RedisServer::start(RedisSettings::new())?).url(),
    };
    play(&redis, &mut std::io::stdout()).await
}

pub(crate) async fn play(redis: &str, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    // One connection, which is the database too: it is in memory.
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    let table = "CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL, \
                 fence BIGINT NOT NULL DEFAULT 0)";
    sqlx::query(table).execute(&pool).await?;
    sqlx::query("INSERT INTO orders (id, state) VALUES (555, 'new')").execute(&pool).await?;

    // Two processes in a real system. The first lease is short and is not renewed, as in a pause.
    let (first, second) = (leasehold::connect(redis).await?, leasehold::connect(redis).await?);
    let paused = first.lock("orders/555").lease(Duration::from_millis(500)).acquire().await?;
    writeln!(out, "client 1  acquires the lock, and is paused")?;

    let guard = second.lock("orders/555").acquire().await?;
    save(&pool, "paid", guard.token()).await?;
    let larger = guard.token() > paused.token();
    writeln!(out, "client 2  acquires the lock when the lease has ended; larger token: {larger}")?;
    guard.release().await?;

    writeln!(out, "client 1  continues; valid: {}", paused.is_valid())?;
    match save(&pool, "cancelled", paused.token()).await {
        Ok(()) => writeln!(out, "client 1  has overwritten the order")?,
        Err(_) => writeln!(out, "client 1  writes: refused by the row")?,
    }
    let state = sqlx::query_scalar::<_, String>("SELECT state FROM orders WHERE id = 555");
    writeln!(out, "order 555 is {}", state.fetch_one(&pool).await?)?;
    first.close().await;
    second.close().await;
    Ok(())
}

/// Writes the state, unless a later holder has written.
async fn save(pool: &SqlitePool, state: &str, token: Token) -> Result<(), Box<dyn Error>> {
    let fence = RowFence::new("orders", "id", "fence")?;
    let mut tx = pool.begin().await?;
    fence.check(&mut tx, 555, token).await?.into_result()?;
    let update = sqlx::query("UPDATE orders SET state = $1 WHERE id = 555").bind(state);
    update.execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(())
}
