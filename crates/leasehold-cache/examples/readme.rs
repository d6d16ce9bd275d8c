//! A cache in front of a table, as the README shows it.
//!
//! `cargo run -p leasehold-cache --features sqlite --example readme`, beside a Redis server on its usual port.

use std::io::Write;

use leasehold_cache::{BoxError, Cache};
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{SqlitePool, SqliteTransaction};

async fn read_name(pool: SqlitePool, id: i64) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar("SELECT name FROM users WHERE id = $1").bind(id).fetch_optional(&pool).await
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let users: Cache<i64, String> = Cache::builder("users").open("redis://127.0.0.1:6379")?;
    play(users, &mut std::io::stdout()).await
}

pub(crate) async fn play(users: Cache<i64, String>, out: &mut impl Write) -> Result<(), BoxError> {
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    sqlx::query("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)").execute(&pool).await?;
    sqlx::query("INSERT INTO users VALUES (42, 'Edsger')").execute(&pool).await?;

    let loader = pool.clone();
    let name = users.get(&42, move |_| read_name(loader, 42)).await?;
    writeln!(out, "before: {name:?}")?;

    let rename = async |tx: &mut SqliteTransaction<'_>| {
        sqlx::query("UPDATE users SET name = 'Ada' WHERE id = 42").execute(&mut **tx).await?;
        Ok::<_, BoxError>(())
    };
    users.write_in_tx(&pool, &[&42], rename).await?;
    writeln!(out, "after: {:?}", users.get(&42, move |_| read_name(pool, 42)).await?)?;
    Ok(())
}
