//! The database: products with a price, and a version that each write raises.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Result, Sqlite, SqlitePool, Transaction};

/// Connections: a database does so much at a time.
const CONNECTIONS: u32 = 32;
const PATIENCE: Duration = Duration::from_secs(60);

/// A row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Product {
    pub(crate) id: u64,
    pub(crate) price: i64,
    pub(crate) version: i64,
}

#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) pool: SqlitePool,
    /// How long a query takes beside what SQLite needs.
    query: Duration,
    queries: AtomicU64,
}

const UPSERT: &str = "INSERT INTO products (id, price, version) VALUES (?, ?, 1) \
                      ON CONFLICT (id) DO UPDATE SET price = excluded.price, version = version + 1 \
                      RETURNING version";

impl Shop {
    /// Opens a file, and puts products into it, from 1 on, that are not there yet.
    pub(crate) async fn open(file: &Path, products: u64, query: Duration) -> Result<Self> {
        let connect = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(PATIENCE);
        let options = SqlitePoolOptions::new().max_connections(CONNECTIONS);
        let pool = options.acquire_timeout(PATIENCE).connect_with(connect).await?;
        let create = "CREATE TABLE IF NOT EXISTS products \
                      (id INTEGER PRIMARY KEY, price INTEGER NOT NULL, version INTEGER NOT NULL)";
        sqlx::query(create).execute(&pool).await?;
        let fill = "WITH RECURSIVE ids (id) AS \
                    (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < ?) \
                    INSERT OR IGNORE INTO products SELECT id, 100, 1 FROM ids";
        sqlx::query(fill).bind(products as i64).execute(&pool).await?;
        Ok(Self { pool, query, queries: AtomicU64::new(0) })
    }

    /// One product; what a load does.
    pub(crate) async fn product(&self, id: u64) -> Result<Option<Product>> {
        self.queries.fetch_add(1, Ordering::Relaxed);
        let mut connection = self.pool.acquire().await?;
        tokio::time::sleep(self.query).await;
        let row = sqlx::query_as("SELECT price, version FROM products WHERE id = ?")
            .bind(id as i64)
            .fetch_optional(&mut *connection)
            .await?;
        Ok(row.map(|(price, version)| Product { id, price, version }))
    }

    /// Changes a price, or adds a product; its version after that.
    pub(crate) async fn write(
        transaction: &mut Transaction<'_, Sqlite>,
        id: u64,
        price: i64,
    ) -> Result<i64> {
        let upsert = sqlx::query_scalar(UPSERT).bind(id as i64).bind(price);
        upsert.fetch_one(&mut **transaction).await
    }

    /// All ids with their versions, in order.
    pub(crate) async fn versions(&self) -> Result<Vec<(i64, i64)>> {
        sqlx::query_as("SELECT id, version FROM products ORDER BY id").fetch_all(&self.pool).await
    }

    /// Queries for a product so far.
    pub(crate) fn queries(&self) -> u64 {
        self.queries.load(Ordering::Relaxed)
    }
}
