//! The program of the README does what the README says.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "the example has a `main` too")]

#[path = "../examples/pay_order.rs"]
mod pay_order;

use leasehold_test_servers::{Needs, RedisServer, RedisSettings};
use sqlx::SqlitePool;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_is_paid_and_keeps_the_token() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}?mode=rwc", folder.path().join("orders.db").display());
    let mut fences = Vec::new();
    for _ in 0..2 {
        pay_order::pay(&server.url(), &database).await.unwrap();
        let pool = SqlitePool::connect(&database).await.unwrap();
        let row = sqlx::query_as("SELECT state, fence FROM orders WHERE id = 555");
        let (state, fence): (String, i64) = row.fetch_one(&pool).await.unwrap();
        assert_eq!(state, "paid");
        fences.push(fence);
    }
    assert!(0 < fences[0] && fences[0] < fences[1], "{fences:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_with_a_larger_token_refuses_the_write() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}?mode=rwc", folder.path().join("orders.db").display());
    pay_order::pay(&server.url(), &database).await.unwrap();
    let pool = SqlitePool::connect(&database).await.unwrap();
    let later = "UPDATE orders SET state = 'sent', fence = 9007199254740990 WHERE id = 555";
    sqlx::query(later).execute(&pool).await.unwrap();
    let error = pay_order::pay(&server.url(), &database).await.unwrap_err();
    assert!(error.to_string().contains("token"), "{error}");
    let state = sqlx::query_scalar("SELECT state FROM orders WHERE id = 555");
    let state: String = state.fetch_one(&pool).await.unwrap();
    assert_eq!(state, "sent");
}
