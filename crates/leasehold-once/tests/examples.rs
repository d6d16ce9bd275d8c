//! The examples print what their page shows, and the code of the page is compiled.

#![allow(clippy::unwrap_used)]
#![allow(dead_code, reason = "the examples have a `main` too")]

#[path = "../examples/run_once.rs"]
mod run_once;
#[path = "../examples/save_once.rs"]
mod save_once;

use leasehold_conformance::pages;
use leasehold_once::{BoxError, SaveOnceBuilder, Table};
use leasehold_test_servers::{Needs, RedisServer, RedisSettings};
use sqlx::SqlitePool;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn save_once_prints_what_its_page_shows() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let mut printed = Vec::new();
    save_once::play(&server.url(), &mut printed).await.unwrap();
    pages::show("once.md", &String::from_utf8(printed).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_once_prints_what_its_page_shows() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let mut printed = Vec::new();
    run_once::play(&server.url(), &mut printed).await.unwrap();
    pages::show("once.md", &String::from_utf8(printed).unwrap());
}

#[test]
fn the_code_of_the_page_is_compiled() {
    pages::are_compiled("once.md", include_str!("examples.rs"));
}

async fn once_page(pool: SqlitePool, rows: Vec<(String, Vec<u8>)>) -> Result<(), BoxError> {
    let table = Table::new("events", pool)?;
    table.create().await?;
    let events = SaveOnceBuilder::new("events").open("redis://127.0.0.1:6379", table)?;

    events.save_many(rows).await?;
    Ok(())
}
