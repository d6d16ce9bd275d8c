//! A lock on a Redis server, and a row that refuses the write of a holder that has lost the lock. The README shows it.
//!
//! `cargo run -p leasehold --features redis,sqlite --example pay_order`, beside a Redis server on its usual port.

use std::error::Error;
use std::time::Duration;

use leasehold::fence::sql::RowFence;
use leasehold::{ErrorKind, Guard};
use sqlx::SqlitePool;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    pay("redis://127.0.0.1:6379", "sqlite:orders.db?mode=rwc").await
}

pub(crate) async fn pay(store: &str, database: &str) -> Result<(), Box<dyn Error>> {
    let pool = SqlitePool::connect(database).await?;
    let table = "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, state TEXT, fence BIGINT DEFAULT 0)";
    sqlx::query(table).execute(&pool).await?;
    sqlx::query("INSERT OR IGNORE INTO orders VALUES (555, 'new', 0)").execute(&pool).await?;

    let client = leasehold::connect(store).await?;
    let lock = client.lock("orders/555").ttl(Duration::from_secs(30));

    match lock.acquire_within(Duration::from_secs(5)).await {
        Ok(guard) => {
            save(&pool, &guard).await?;
            println!("paid, token {}", guard.token());
            guard.release().await?;
        }
        Err(error) if error.kind() == ErrorKind::Timeout => println!("skipped: {error}"),
        Err(error) => return Err(error.into()),
    }
    client.close().await;
    Ok(())
}

async fn save(pool: &SqlitePool, guard: &Guard) -> Result<(), Box<dyn Error>> {
    let fence = RowFence::new("orders", "id", "fence")?;
    let mut tx = pool.begin().await?;
    fence.check(&mut tx, 555, guard.token()).await?.into_result()?;
    sqlx::query("UPDATE orders SET state = 'paid' WHERE id = 555").execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(())
}
