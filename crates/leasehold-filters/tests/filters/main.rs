//! Filters and bitmaps, in this process and on a real Redis server.

// A set-up that fails is a failed test.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod bitmap;
mod bloom;

use std::process::ExitCode;
use std::time::Duration;

use leasehold_conformance::runner::{self, Test};
use leasehold_conformance::test;
use leasehold_test_servers::{Needs, RedisServer, RedisSettings};

const LIMIT: Duration = Duration::from_secs(90);

fn main() -> ExitCode {
    let groups = [("bitmap", bitmap::TESTS), ("bloom", bloom::TESTS)];
    runner::run(Needs::Redis, LIMIT, &groups)
}

fn server() -> RedisServer {
    RedisServer::start(RedisSettings::new()).unwrap()
}

/// Waits until `condition` holds.
async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    leasehold_conformance::until(what, || std::future::ready(condition())).await.unwrap();
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
