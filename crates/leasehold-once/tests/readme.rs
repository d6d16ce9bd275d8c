//! The program of the README saves its row once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "the example has a `main` too")]

#[path = "../examples/save_messages.rs"]
mod save_messages;

use leasehold_test_servers::{Needs, RedisServer, RedisSettings};
use sqlx::SqlitePool;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_arrives_again_and_again_is_one_row() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}?mode=rwc", folder.path().join("events.db").display());
    for _ in 0..2 {
        save_messages::save(&server.url(), &database).await.unwrap();
        let pool = SqlitePool::connect(&database).await.unwrap();
        let count = sqlx::query_scalar("SELECT COUNT(*) FROM events");
        let rows: i64 = count.fetch_one(&pool).await.unwrap();
        assert_eq!(rows, 1);
    }
}
