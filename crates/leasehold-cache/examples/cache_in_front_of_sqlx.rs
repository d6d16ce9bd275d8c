//! A cache in front of a table of SQLite: which reads reach the database, and what a write does.
//!
//! `cargo run -p leasehold-cache --features sqlite --example cache_in_front_of_sqlx`. It starts a Redis server of its
//! own, unless an argument names one (`-- redis://host:6379`). `docs/cache.md` shows what it prints.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold_cache::{BoxError, Cache};
use leasehold_test_servers::{RedisServer, RedisSettings};
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{SqlitePool, SqliteTransaction};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut own = None;
    let redis = match std::env::args().nth(1) {
        Some(url) => url,
        None => own.insert(RedisServer::start(RedisSettings::new())?).url(),
    };
    play(&redis, &mut std::io::stdout()).await
}

/// Queries that have reached the table since the last line.
static QUERIES: AtomicUsize = AtomicUsize::new(0);

async fn read_name(pool: SqlitePool, id: i64) -> Result<Option<String>, sqlx::Error> {
    QUERIES.fetch_add(1, Ordering::Relaxed);
    sqlx::query_scalar("SELECT name FROM users WHERE id = $1").bind(id).fetch_optional(&pool).await
}

pub(crate) async fn play(redis: &str, out: &mut impl Write) -> Result<(), BoxError> {
    // One connection, which is the database too: it is in memory.
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    sqlx::raw_sql("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
        .execute(&pool)
        .await?;
    sqlx::raw_sql("INSERT INTO users VALUES (1, 'Ada'), (2, 'Edsger')").execute(&pool).await?;
    let users: Cache<i64, String> = Cache::builder("users").open(redis)?;

    let mut show = async |what: &str, id: i64, tasks: usize| {
        let read = |_| {
            let (users, pool) = (users.clone(), pool.clone());
            async move { users.get(&id, move |_| read_name(pool, id)).await }
        };
        let reads: JoinSet<_> = (0..tasks).map(read).collect();
        let name = format!("{:?}", reads.join_all().await.swap_remove(0)?);
        let queries = QUERIES.swap(0, Ordering::Relaxed);
        let noun = if queries == 1 { "query" } else { "queries" };
        writeln!(out, "{what:<24} {name:<16} {queries} {noun}")?;
        Ok::<_, BoxError>(())
    };
    let write = async |id: i64, statement: &'static str| {
        let work = async |tx: &mut SqliteTransaction<'_>| {
            sqlx::query(statement).execute(&mut **tx).await?;
            Ok::<_, BoxError>(())
        };
        users.write_in_tx(&pool, &[&id], work).await // commits, then invalidates the key
    };

    show("get 1", 1, 1).await?;
    show("get 1 again", 1, 1).await?;
    show("get 2 by 100 tasks", 2, 100).await?;
    show("get 3", 3, 1).await?;
    show("get 3 again", 3, 1).await?;
    write(1, "UPDATE users SET name = 'Grace' WHERE id = 1").await?;
    show("UPDATE 1, get 1", 1, 1).await?;
    write(3, "INSERT INTO users VALUES (3, 'Linus')").await?;
    show("INSERT 3, get 3", 3, 1).await?;
    let refused = write(1, "UPDATE users SET name = NULL WHERE id = 1").await;
    assert!(refused.is_err(), "the column is NOT NULL");
    show("UPDATE fails, get 1", 1, 1).await
}
