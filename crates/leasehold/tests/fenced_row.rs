//! The example prints what its page shows.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "the example has a `main` too")]

#[path = "../examples/fenced_row.rs"]
mod fenced_row;

use leasehold_conformance::{examples, pages};
use leasehold_test_servers::{Needs, RedisServer, RedisSettings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_row_refuses_the_late_write_as_the_page_shows() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let mut printed = Vec::new();
    fenced_row::play(&server.url(), &mut printed).await.unwrap();
    let printed = String::from_utf8(printed).unwrap();
    pages::show("fencing.md", &printed);
    examples::answers("leasehold", "fenced_row", &printed);
}
