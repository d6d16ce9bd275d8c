//! Three ways to save a row once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_once::{SaveOnce, SaveOnceBuilder, Store, Table};
use redis::aio::MultiplexedConnection;
use sqlx::{PgPool, Postgres};

use super::Keys;
use crate::Result;
use crate::pairs::load::Worker;

/// The subjects.
pub(super) const WAYS: [&str; 3] = ["leasehold", "unique-key", "lock-and-check"];

const PAYLOAD: [u8; 100] = [7; 100];

pub(super) async fn pool(url: &str) -> Result<PgPool> {
    let options = sqlx::postgres::PgPoolOptions::new().max_connections(16);
    Ok(options.acquire_timeout(Duration::from_secs(60)).connect(url).await?)
}

pub(super) async fn table(pool: &PgPool) -> Result<Table<Postgres>> {
    let table = Table::new("events", pool.clone())?;
    table.create().await?;
    Ok(table)
}

pub(super) fn open(redis: &str, table: Table<Postgres>) -> Result<SaveOnce<Table<Postgres>>> {
    let builder = SaveOnceBuilder::new("bench");
    Ok(builder.redis_limit(Duration::from_secs(10)).open(redis, table)?)
}

/// `SaveOnce`.
pub(super) struct Ours {
    pub(super) once: SaveOnce<Table<Postgres>>,
    pub(super) keys: Arc<Keys>,
    pub(super) rows: usize,
}

impl Worker for Ours {
    async fn pair(&mut self) -> Result<()> {
        let keys = self.keys.some(self.rows);
        let rows = keys.into_iter().map(|key| (key, PAYLOAD.to_vec())).collect();
        Ok(self.once.save_many(rows).await?)
    }
}

/// `INSERT ... ON CONFLICT DO NOTHING` for all rows that a task has, by the table that `SaveOnce`
/// uses.
pub(super) struct Unique {
    pub(super) table: Table<Postgres>,
    pub(super) keys: Arc<Keys>,
    pub(super) rows: usize,
    pub(super) attempts: Arc<AtomicU64>,
}

impl Worker for Unique {
    async fn pair(&mut self) -> Result<()> {
        let mut keys = self.keys.some(self.rows);
        keys.sort();
        let payload = PAYLOAD.to_vec();
        let rows: Vec<(&str, &Vec<u8>)> = keys.iter().map(|key| (key.as_str(), &payload)).collect();
        self.attempts.fetch_add(rows.len() as u64, Ordering::Relaxed);
        self.table.insert(&rows).await.map_err(|error| format!("{error:?}").into())
    }
}

/// For each row: a lock in Redis by `SET NX PX`, a look whether the row is there, the insert, and the
/// script that ends the lock. Who does not get the lock tries again after a millisecond.
pub(super) struct LockAndCheck {
    pub(super) connection: MultiplexedConnection,
    pub(super) pool: PgPool,
    pub(super) keys: Arc<Keys>,
    pub(super) rows: usize,
    pub(super) attempts: Arc<AtomicU64>,
}

impl Worker for LockAndCheck {
    async fn pair(&mut self) -> Result<()> {
        for key in self.keys.some(self.rows) {
            let lock = format!("lock:{key}");
            let token = fastrand::u64(..);
            let mut take = redis::cmd("SET");
            take.arg(&lock).arg(token).arg("NX").arg("PX").arg(10_000);
            while !take.query_async::<bool>(&mut self.connection).await? {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let there: bool =
                sqlx::query_scalar("SELECT EXISTS(SELECT 1 FROM events WHERE id = $1)")
                    .bind(&key)
                    .fetch_one(&self.pool)
                    .await?;
            if !there {
                self.attempts.fetch_add(1, Ordering::Relaxed);
                let insert = sqlx::query("INSERT INTO events (id, payload) VALUES ($1, $2)");
                insert.bind(&key).bind(&PAYLOAD[..]).execute(&self.pool).await?;
            }
            let give_back = redis::Script::new(
                "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end \
                 return 0",
            );
            let mut call = give_back.key(&lock);
            call.arg(token).invoke_async::<u8>(&mut self.connection).await?;
        }
        Ok(())
    }
}
