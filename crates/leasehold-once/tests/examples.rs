//! The examples print what their page shows, and the code of the page is compiled.

#![allow(clippy::unwrap_used)]
#![allow(dead_code, reason = "the examples have a `main` too")]

#[path = "../examples/run_once.rs"]
mod run_once;
#[path = "../examples/save_once.rs"]
mod save_once;

use leasehold_conformance::{examples, pages};
use leasehold_once::BoxError;
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
    let printed = String::from_utf8(printed).unwrap();
    pages::show("once.md", &printed);
    examples::answers("leasehold-once", "save_once", &printed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_once_prints_what_its_page_shows() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let mut printed = Vec::new();
    run_once::play(&server.url(), &mut printed).await.unwrap();
    let printed = String::from_utf8(printed).unwrap();
    pages::show("once.md", &printed);
    examples::answers("leasehold-once", "run_once", &printed);
}

#[test]
fn the_code_of_the_page_is_compiled() {
    pages::are_compiled("once.md", include_str!("examples.rs"));
}

async fn once_page(pool: SqlitePool, messages: Vec<(String, Vec<u8>)>) -> Result<(), BoxError> {
    use leasehold_once::{SaveOnceBuilder, Table};

    let table = Table::new("events", pool)?;
    table.create().await?;
    let events = SaveOnceBuilder::new("events").open("redis://127.0.0.1:6379", table)?;

    let rows: Vec<(String, Vec<u8>)> = messages;
    events.save_many(rows).await?;
    events.save("request 7".into(), b"...".to_vec()).await?;
    Ok(())
}

async fn work_of_the_page() -> Result<(), BoxError> {
    use leasehold_once::{Begun, RunOnce};

    let payments = RunOnce::builder("payments").open("redis://127.0.0.1:6379")?;
    match payments.begin::<String>("order 555", b"12.50 EUR").await? {
        Begun::Won(mut run) => run.complete("receipt 1").await?, // pay before this line
        Begun::Completed(receipt) => println!("paid before: {receipt}"),
        Begun::Busy(left) => println!("in progress for up to {left:?}"),
        Begun::Failed(reason) => println!("failed: {reason}"),
        other => println!("unknown result: {other:?}"),
    }
    Ok(())
}
