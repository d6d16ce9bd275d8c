//! Rows that are saved once although they arrive twice. The README shows it.
//!
//! `cargo run -p leasehold-once --features sqlite --example save_messages`, beside a Redis server on its usual port.

use leasehold_once::{BoxError, SaveOnceBuilder, Table};
use sqlx::SqlitePool;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    save("redis://127.0.0.1:6379", "sqlite:events.db?mode=rwc").await
}

pub(crate) async fn save(redis: &str, database: &str) -> Result<(), BoxError> {
    let table = Table::new("events", SqlitePool::connect(database).await?)?;
    table.create().await?;
    let events = SaveOnceBuilder::new("events").open(redis, table)?;

    let message = ("request 7".to_owned(), b"12.50 EUR".to_vec());
    events.save_many(vec![message.clone(), message]).await?;
    println!("saved");
    Ok(())
}
