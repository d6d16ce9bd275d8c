//! The example prints what its page shows, and the code of the page is compiled.

#![allow(clippy::unwrap_used)]
#![allow(dead_code, reason = "the example has a `main` too")]

#[path = "../examples/outbox_postgres.rs"]
mod outbox_postgres;

use leasehold_cache::{BoxError, Cache};
use leasehold_conformance::{examples, pages};
use leasehold_test_servers::{Needs, Postgres, RedisServer, RedisSettings};
use sqlx::PgPool;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outbox_postgres_prints_what_its_page_shows() {
    if Needs::Postgres.is_skipped() || Needs::Redis.is_skipped() {
        return;
    }
    let (database, redis) =
        (Postgres::start(&[]).unwrap(), RedisServer::start(RedisSettings::new()).unwrap());
    let mut printed = Vec::new();
    outbox_postgres::play(&database.url(), &redis.url(), &mut printed).await.unwrap();
    let printed = String::from_utf8(printed).unwrap();
    pages::show("cache-outbox.md", &printed);
    examples::answers("leasehold-outbox", "outbox_postgres", &printed);
}

#[test]
fn the_code_of_the_page_is_compiled() {
    pages::are_compiled("cache-outbox.md", include_str!("examples.rs"));
}

async fn outbox_page(pool: PgPool, users: Cache<i64, String>) -> Result<(), BoxError> {
    use leasehold_outbox::Outbox;

    let outbox = Outbox::new();
    let mut tx = pool.begin().await?;
    sqlx::query("UPDATE users SET name = 'Grace' WHERE id = 1").execute(&mut *tx).await?;
    users.invalidate_in_tx(&outbox, &mut tx, &[&1]).await?;
    tx.commit().await?;
    Ok(())
}
