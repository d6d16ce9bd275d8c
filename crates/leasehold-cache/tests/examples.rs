//! The example prints what its page shows.

#![allow(clippy::unwrap_used)]
#![allow(dead_code, reason = "the example has a `main` too")]

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
