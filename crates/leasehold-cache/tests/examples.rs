//! The examples run, and print what their pages and the answers to the articles promise.

#![allow(clippy::unwrap_used)]
#![allow(dead_code, reason = "the examples have a `main` too")]

#[cfg(feature = "filters")]
#[path = "../examples/cache_articles.rs"]
mod cache_articles;
#[path = "../examples/cache_in_front_of_sqlx.rs"]
mod cache_in_front_of_sqlx;
#[path = "../examples/readme.rs"]
mod readme;

use leasehold_cache::Cache;
use leasehold_conformance::{examples, pages};
use leasehold_test_servers::{Needs, RedisServer, RedisSettings};

const PACKAGE: &str = "leasehold-cache";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_in_front_of_sqlx_prints_what_its_page_shows() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let mut printed = Vec::new();
    cache_in_front_of_sqlx::play(&server.url(), &mut printed).await.unwrap();
    let printed = String::from_utf8(printed).unwrap();
    pages::show("cache.md", &printed);
    examples::answers(PACKAGE, "cache_in_front_of_sqlx", &printed);
}

#[cfg(feature = "filters")]
#[tokio::test]
async fn the_blocks_of_the_articles_print_what_is_in_the_cache() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let mut printed = Vec::new();
    cache_articles::play(&server.url(), &mut printed).await.unwrap();
    let printed = String::from_utf8(printed).unwrap();
    let balances = "updated: the next reader gets 900, queries: 0\n\
                    invalidated: the next reader gets 100, queries: 1\n";
    assert!(printed.ends_with(balances), "{printed}");
    examples::answers(PACKAGE, "cache_articles", &printed);
}

#[tokio::test]
async fn the_cache_of_the_readme_returns_the_new_name_after_the_write() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let users: Cache<i64, String> = Cache::builder("users").open(&server.url()).unwrap();
    let mut printed = Vec::new();
    readme::play(users, &mut printed).await.unwrap();
    let printed = String::from_utf8(printed).unwrap();
    assert_eq!(printed, "before: Some(\"Edsger\")\nafter: Some(\"Ada\")\n");
    examples::answers(PACKAGE, "readme", &printed);
}
