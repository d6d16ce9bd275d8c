//! Tests with a real Redis server when messages, processes, permissions and memory fail.

// A failed set-up is a failed test.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod abandoned_waiters;
mod also;
mod batches;
mod caching;
mod cluster;
mod connection;
mod crowd;
mod dead_waiters;
mod earlier;
mod few_messages;
mod latches;
mod late_requests;
mod list;
mod messages;
mod newer;
mod node;
mod observers;
mod partial;
mod permits;
mod protocol_regressions;
mod push_support;
mod quorum;
mod readers;
mod refused;
mod repaired_permits;
mod replicas;
mod retention;
mod rueidis;
mod scripts;
mod sentinel;
mod server;
mod side;
mod soak;
mod token_lead;
mod wire;
mod wire_quorum;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::runner::{self, Test};
use leasehold_conformance::{test, until};
use leasehold_core::{Client, Error, StoreUrl};
use leasehold_test_servers::{Needs, RedisServer, RedisSettings};

/// Counts what is in use, for tests that must leave nothing behind.
#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    if let Some(role) = soak::Role::told() {
        return role.play();
    }
    if let Some(role) = also::Role::told() {
        return role.play();
    }
    if let Some(store) = abandoned_waiters::told() {
        return abandoned_waiters::play(&store);
    }
    let groups = [
        ("messages", messages::TESTS),
        ("batches", batches::TESTS),
        ("caching", caching::TESTS),
        ("protocol_regressions", protocol_regressions::TESTS),
        ("dead_waiters", dead_waiters::TESTS),
        ("latches", latches::TESTS),
        ("late_requests", late_requests::TESTS),
        ("token_lead", token_lead::TESTS),
        ("retention", retention::TESTS),
        ("list", list::TESTS),
        ("readers", readers::TESTS),
        ("partial", partial::TESTS),
        ("permits", permits::TESTS),
        ("repaired_permits", repaired_permits::TESTS),
        ("few_messages", few_messages::TESTS),
        ("refused", refused::TESTS),
        ("scripts", scripts::TESTS),
        ("newer", newer::TESTS),
        ("node", node::TESTS),
        ("observers", observers::TESTS),
        ("quorum", quorum::TESTS),
        ("quorum", quorum::down::TESTS),
        ("quorum", quorum::faults::TESTS),
        ("quorum", quorum::init::TESTS),
        ("quorum", quorum::refused::TESTS),
        ("wire", wire::TESTS),
        ("rueidis", rueidis::TESTS),
        ("wire_quorum", wire_quorum::TESTS),
        ("also", also::TESTS),
        ("server", server::TESTS),
        ("connection", connection::TESTS),
        ("push_support", push_support::TESTS),
        ("sentinel", sentinel::TESTS),
        ("cluster", cluster::TESTS),
        ("replicas", replicas::TESTS),
        ("abandoned_waiters", abandoned_waiters::TESTS),
        ("soak", soak::TESTS),
    ];
    let limit = Duration::from_secs(90) + soak::duration();
    runner::run(Needs::Redis, limit, &groups)
}

async fn try_connect(url: &str) -> Result<Client, Error> {
    let backend = leasehold_redis::connect(StoreUrl::parse(url)?).await?;
    Client::new(Arc::new(backend))
}

async fn connect(url: &str) -> Client {
    try_connect(url).await.unwrap()
}

/// The rights that `docs/redis.md` lists.
const RIGHTS: &str = "on >s3cret ~leasehold:* &leasehold:* -@all +evalsha +script|load +get +set \
    +mget +getrange +setrange +time +publish +pubsub|numsub +subscribe +unsubscribe +exists +pexpire +pttl +zadd \
    +zrem +zrange +zrank +zscore +zremrangebyscore +zcard +unlink +scan +ping +hello +auth +select \
    +client|tracking +client|caching";

/// Acquires a lock, waits for it, hands it off by a push, renews it, reads its status, ends it by
/// force and forgets it.
async fn everything_works(url: &str) {
    let (one, two) = (connect(url).await, connect(url).await);
    let held = one.lock("all/1").ttl(secs(60)).renew_after(ms(200)).acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = two.lock("all/1").ttl(secs(60));
        async move { lock.acquire_within(secs(30)).await }
    });
    until("it stands in line", || async {
        one.lock("all/1").status().await.unwrap().waiters.unwrap().len() == 1
    })
    .await
    .unwrap();
    let before = held.deadline();
    until("it is renewed", || async { held.deadline() != before }).await.unwrap();
    let token = held.token();
    held.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert!(next.token() > token);
    let names: Vec<String> = (2..40).map(|number| format!("all/{number:02}")).collect();
    for name in &names {
        two.lock(name).acquire().await.unwrap().release().await.unwrap();
    }
    let listed = one.list("all/", 1000).await.unwrap();
    let listed: Vec<&str> = listed.iter().map(|status| status.name.as_str()).collect();
    assert_eq!(listed[0], "all/02");
    assert_eq!(listed.len(), 1 + names.len());
    let forced = one.lock("all/1").force_release(next.token()).await.unwrap();
    assert_eq!(forced, leasehold_core::Forced::Ended);
    next.release().await.unwrap_err();
    permits_work(&one, &two).await;
    latches_work(&one, &two).await;
}

/// Counts a latch down, waits for it, and begins its next generation.
async fn latches_work(one: &Client, two: &Client) {
    let (latch, other) = (one.latch("latches/a", 2), two.latch("latches/a", 2));
    let generation = latch.state().await.unwrap().generation;
    let waiting = tokio::spawn(async move { other.wait_within(secs(60)).await });
    assert_eq!(latch.count_down("one").await.unwrap(), 1);
    assert_eq!(two.latch("latches/a", 2).count_down("two").await.unwrap(), 0);
    assert_eq!(waiting.await.unwrap().unwrap(), generation);
    assert_eq!(latch.reset().await.unwrap(), generation + 1);
}

/// Acquires permits, waits for one, passes it on by a push, renews it, reads the status, changes the limit and
/// ends a permit by force.
async fn permits_work(one: &Client, two: &Client) {
    let (first, second) = (one.semaphore("permits/a", 2), two.semaphore("permits/a", 2));
    let held = first.clone().renew_after(ms(200)).acquire_many(2).await.unwrap();
    let waiting = tokio::spawn(async move { (second.acquire_within(secs(30)).await, second) });
    let status = async || first.status().await.unwrap();
    until("it waits", || async { status().await.waiters.unwrap().len() == 1 }).await.unwrap();
    let before = held.deadline();
    until("it is renewed", || async { held.deadline() != before }).await.unwrap();
    held.release().await.unwrap();
    let (next, second) = waiting.await.unwrap();
    let next = next.unwrap();
    assert_eq!((next.slot(), status().await.permits.unwrap().held), (0, 1));
    first.set_limit(3).await.unwrap();
    assert_eq!(second.limit().await.unwrap(), Some(3));
    let forced = first.force_release(next.token()).await.unwrap();
    assert_eq!(forced, leasehold_core::Forced::Ended);
    next.release().await.unwrap_err();
    // For the next call of this function.
    first.set_limit(2).await.unwrap();
}

/// Returns how many scripts a server was asked to run: each request of a client is one.
fn calls(server: &RedisServer) -> u64 {
    calls_of(server, "evalsha")
}

/// Returns how often clients and scripts called a command, in lower case.
fn calls_of(server: &RedisServer, command: &str) -> u64 {
    let info = server.admin(&["INFO", "commandstats"]).unwrap().text();
    let prefix = format!("cmdstat_{command}:calls=");
    let calls = info.lines().find_map(|line| line.strip_prefix(&prefix));
    calls.and_then(|calls| calls.split(',').next()?.parse().ok()).unwrap_or(0)
}

fn plain() -> RedisServer {
    RedisServer::start(RedisSettings::new()).unwrap()
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
