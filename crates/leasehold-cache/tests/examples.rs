//! The examples run, and print what their pages show.

#![allow(clippy::unwrap_used)]
#![allow(dead_code, reason = "the examples have a `main` too")]

#[cfg(feature = "filters")]
#[path = "../examples/cache_articles.rs"]
mod cache_articles;
#[path = "../examples/cache_in_front_of_sqlx.rs"]
mod cache_in_front_of_sqlx;

use leasehold_conformance::pages;
use leasehold_test_servers::{Needs, RedisServer, RedisSettings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_in_front_of_sqlx_prints_what_its_page_shows() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let mut printed = Vec::new();
    cache_in_front_of_sqlx::play(&server.url(), &mut printed).await.unwrap();
    pages::show("cache.md", &String::from_utf8(printed).unwrap());
}

#[cfg(feature = "filters")]
#[tokio::test]
async fn the_blocks_of_the_articles_run() {
    cache_articles::bitmap().unwrap();
    cache_articles::bloom().unwrap();
    if Needs::Redis.is_skipped() {
        return;
    }
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    cache_articles::balances(&server.url()).await.unwrap();
}
