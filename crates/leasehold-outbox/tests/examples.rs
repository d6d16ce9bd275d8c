//! The example prints what its page shows.

#![allow(clippy::unwrap_used)]
#![allow(dead_code, reason = "the example has a `main` too")]

#[path = "../examples/outbox_postgres.rs"]
mod outbox_postgres;

use leasehold_conformance::pages;
use leasehold_test_servers::{Needs, Postgres, RedisServer, RedisSettings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outbox_postgres_prints_what_its_page_shows() {
    if Needs::Postgres.is_skipped() || Needs::Redis.is_skipped() {
        return;
    }
    let (database, redis) =
        (Postgres::start(&[]).unwrap(), RedisServer::start(RedisSettings::new()).unwrap());
    let mut printed = Vec::new();
    outbox_postgres::play(&database.url(), &redis.url(), &mut printed).await.unwrap();
    pages::show("cache-outbox.md", &String::from_utf8(printed).unwrap());
}
