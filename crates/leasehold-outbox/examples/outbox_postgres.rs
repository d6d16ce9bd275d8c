//! An invalidation that is committed with the change: readers see the change although its process ended at the commit.
//!
//! `cargo run -p leasehold-outbox --features postgres --example outbox_postgres`. It starts a PostgreSQL and a Redis
//! server of its own, unless arguments name them (`-- postgres://user:password@host/database redis://host:6379`); it
//! creates and drops the table `leasehold_example_users`. `docs/cache-outbox.md` shows what it prints.

use std::io::Write;
use std::time::Duration;

use leasehold_cache::{BoxError, Cache};
use leasehold_outbox::{Outbox, Relay};
use leasehold_test_servers::{Postgres, RedisServer, RedisSettings};
use sqlx::PgPool;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut arguments = std::env::args().skip(1);
    if let (Some(database), Some(redis)) = (arguments.next(), arguments.next()) {
        return play(&database, &redis, &mut std::io::stdout()).await;
    }
    let (database, redis) = (Postgres::start(&[])?, RedisServer::start(RedisSettings::new())?);
    play(&database.url(), &redis.url(), &mut std::io::stdout()).await
}

pub(crate) async fn play(
    database: &str,
    redis: &str,
    out: &mut impl Write,
) -> Result<(), BoxError> {
    let pool = PgPool::connect(database).await?;
    let outbox = Outbox::named("leasehold_example_outbox")?;
    outbox.create(&pool).await?;
    for statement in [
        "DROP TABLE IF EXISTS leasehold_example_users",
        "CREATE TABLE leasehold_example_users (id BIGINT PRIMARY KEY, name TEXT NOT NULL)",
        "INSERT INTO leasehold_example_users VALUES (1, 'Ada')",
    ] {
        sqlx::query(statement).execute(&pool).await?;
    }
    // No entries in the process: each read asks Redis.
    let cache: Cache<i64, String> = Cache::builder("example-users").local_size(0).open(redis)?;
    let users = Users { pool, cache, outbox };
    writeln!(out, "step               database   cache   outbox rows")?;
    users.show(out, "get 1").await?;

    let mut tx = users.pool.begin().await?;
    rename(&mut tx, "Edsger").await?;
    users.cache.invalidate_in_tx(&users.outbox, &mut tx, &[&1]).await?;
    tx.rollback().await?;
    users.show(out, "UPDATE, ROLLBACK").await?;

    let mut tx = users.pool.begin().await?;
    rename(&mut tx, "Grace").await?;
    users.cache.invalidate_in_tx(&users.outbox, &mut tx, &[&1]).await?;
    tx.commit().await?;
    // The process may crash here: the row is committed.
    users.show(out, "UPDATE, COMMIT").await?;

    let relay = Relay::builder(&users.outbox, &users.pool).open(redis)?;
    let delivered = async {
        while relay.stats().delivered == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    relay.run(delivered).await;
    users.show(out, "relay").await?;

    let drop = "DROP TABLE leasehold_example_users, leasehold_example_outbox";
    sqlx::query(drop).execute(&users.pool).await?;
    Ok(())
}

async fn rename(tx: &mut sqlx::PgTransaction<'_>, name: &str) -> Result<(), BoxError> {
    let update =
        sqlx::query("UPDATE leasehold_example_users SET name = $1 WHERE id = 1").bind(name);
    update.execute(&mut **tx).await?;
    Ok(())
}

struct Users {
    pool: PgPool,
    cache: Cache<i64, String>,
    outbox: Outbox,
}

impl Users {
    async fn show(&self, out: &mut impl Write, step: &str) -> Result<(), BoxError> {
        let name = read(self.pool.clone()).await?.unwrap_or_default();
        let pool = self.pool.clone();
        let cached = self.cache.get(&1, move |_| read(pool)).await?.unwrap_or_default();
        let rows = "SELECT COUNT(*) FROM leasehold_example_outbox";
        let rows: i64 = sqlx::query_scalar(rows).fetch_one(&self.pool).await?;
        Ok(writeln!(out, "{step:<18} {name:<10} {cached:<7} {rows:>11}")?)
    }
}

async fn read(pool: PgPool) -> sqlx::Result<Option<String>> {
    let select = sqlx::query_scalar("SELECT name FROM leasehold_example_users WHERE id = 1");
    select.fetch_optional(&pool).await
}
