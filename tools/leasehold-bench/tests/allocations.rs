//! What an acquire and a release without contention allocate, renewals and all background work included.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use allocation_counter::{AllocationInfo, measure};
use leasehold::{Client, Lock};
use leasehold_test_servers::{Needs, RedisServer, RedisSettings};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// How often each task acquires and releases its lock.
const PAIRS: u64 = 500;

/// One thread, so that all allocations are made there.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

async fn pairs(lock: Lock) {
    for _ in 0..PAIRS {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
}

/// Runs so many tasks, each with a lock of its own.
async fn all(client: &Client, tasks: u64) {
    let mut set = JoinSet::new();
    for task in 0..tasks {
        set.spawn(pairs(client.lock(format!("orders/{task:08}"))));
    }
    while let Some(done) = set.join_next().await {
        done.unwrap();
    }
}

/// What a pair allocates, once all records and buffers are there.
fn of_a_pair(url: &str, tasks: u64) -> (f64, f64) {
    let runtime = runtime();
    let client = runtime.block_on(leasehold::connect(url)).unwrap();
    runtime.block_on(all(&client, tasks));
    let AllocationInfo { count_total, bytes_total, .. } =
        measure(|| runtime.block_on(all(&client, tasks)));
    runtime.block_on(client.close());
    let pairs = (tasks * PAIRS) as f64;
    (count_total as f64 / pairs, bytes_total as f64 / pairs)
}

/// On Redis, requests of several tasks share what they allocate, as far as they are sent together. So
/// the bound is that of a request that is sent alone.
#[test]
fn a_pair_allocates_no_more_than_this() {
    let mut stores = vec![("memory", "memory:allocations".to_owned(), 7.5, 2_000.0)];
    let server =
        (!Needs::Redis.is_skipped()).then(|| RedisServer::start(RedisSettings::new()).unwrap());
    stores.extend(server.iter().map(|server| ("redis", server.url(), 24.0, 12_000.0)));
    for (store, url, most, bytes) in stores {
        for tasks in [1, 64] {
            let (allocations, allocated) = of_a_pair(&url, tasks);
            println!(
                "{store}, {tasks} tasks: {allocations:.2} allocations, {allocated:.0} bytes a pair"
            );
            assert!(allocations <= most, "{store}, {tasks} tasks: {allocations} allocations");
            assert!(allocated <= bytes, "{store}, {tasks} tasks: {allocated} bytes");
        }
    }
}
