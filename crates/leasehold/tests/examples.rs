//! The examples that need no server run to their end.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "the example has a `main` too")]

#[path = "../examples/articles.rs"]
mod articles;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_listings_of_the_articles_run() {
    articles::play().await.unwrap();
}
