//! A cache in front of a table of SQLite: which reads reach the database, and what a write does.
//!
//! `cargo run -p leasehold-cache --features sqlite --example cache_in_front_of_sqlx`. It starts a Redis server of its
//! own, unless an argument names one (`-- redis://host:6379`). `docs/cache.md` shows what it prints.

use std::io::Write;
use std::sync::Arc;
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

pub(crate) async fn play(redis: &str, out: &mut impl Write) -> Result<(), BoxError> {
    let users = Users::open(redis).await?;
    users.show(out, "get 1", 1).await?;
    users.show(out, "get 1 again", 1).await?;

    let mut readers = JoinSet::new();
    for _ in 0..99 {
        let users = users.clone();
        readers.spawn(async move { users.get(2).await });
    }
    users.show(out, "get 2 by 100 tasks", 2).await?;
    for name in readers.join_all().await {
        assert_eq!(name?.as_deref(), Some("Edsger"));
    }

    users.show(out, "get 3", 3).await?;
    users.show(out, "get 3 again", 3).await?;

    users.write(1, "UPDATE users SET name = 'Grace' WHERE id = 1").await?;
    users.show(out, "UPDATE 1, get 1", 1).await?;
    users.write(3, "INSERT INTO users VALUES (3, 'Linus')").await?;
    users.show(out, "INSERT 3, get 3", 3).await?;
    let refused = users.write(1, "UPDATE users SET name = NULL WHERE id = 1").await;
    assert!(refused.is_err(), "the column is NOT NULL");
    users.show(out, "UPDATE fails, get 1", 1).await
}

/// The table, the cache in front of it, and how many queries have reached the table.
#[derive(Clone)]
struct Users {
    pool: SqlitePool,
    cache: Cache<i64, String>,
    queries: Arc<AtomicUsize>,
}

impl Users {
    async fn open(redis: &str) -> Result<Self, BoxError> {
        // One connection, which is the database too: it is in memory.
        let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
        sqlx::query("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
            .execute(&pool)
            .await?;
        sqlx::query("INSERT INTO users VALUES (1, 'Ada'), (2, 'Edsger')").execute(&pool).await?;
        let cache = Cache::builder("users").open(redis)?;
        cache.check().await?;
        Ok(Self { pool, cache, queries: Arc::default() })
    }

    async fn get(&self, id: i64) -> Result<Option<String>, BoxError> {
        let Self { pool, queries, .. } = self.clone();
        let load = move |_| async move {
            queries.fetch_add(1, Ordering::Relaxed);
            let select = sqlx::query_scalar("SELECT name FROM users WHERE id = $1").bind(id);
            select.fetch_optional(&pool).await
        };
        Ok(self.cache.get(&id, load).await?)
    }

    /// Begins a transaction, executes the statement, commits, and invalidates the key.
    async fn write(&self, id: i64, statement: &'static str) -> Result<(), BoxError> {
        let work = async |tx: &mut SqliteTransaction<'_>| {
            sqlx::query(statement).execute(&mut **tx).await?;
            Ok::<_, BoxError>(())
        };
        self.cache.write_in_tx(&self.pool, &[&id], work).await
    }

    /// Reads a user, and prints the name and how many queries have reached the table since the last line.
    async fn show(&self, out: &mut impl Write, what: &str, id: i64) -> Result<(), BoxError> {
        let name = format!("{:?}", self.get(id).await?);
        let queries = self.queries.swap(0, Ordering::Relaxed);
        let noun = if queries == 1 { "query" } else { "queries" };
        Ok(writeln!(out, "{what:<24} {name:<16} {queries} {noun}")?)
    }
}
