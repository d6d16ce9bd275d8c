//! The cache on a real Redis server: races, crowds, failures, bad input.

// A set-up that fails is a failed test.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod consumers;
mod crowd;
mod down;
mod filter;
mod filter_restarts;
mod health;
mod input;
mod logs;
mod losses;
mod many;
mod per_process;
mod process;
mod races;
mod recipes;
mod recorded;
mod restarts;
mod sentinel;
mod stress;
mod trouble;
mod writes;

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_cache::{Builder, Cache};
use leasehold_conformance::runner::{self, Test};
use leasehold_conformance::{self as conformance, test};
use leasehold_test_servers::{Needs, RedisServer, RedisSettings, Value};
use tokio::sync::oneshot;

const LIMIT: Duration = Duration::from_secs(90);

fn main() -> ExitCode {
    if process::is_asked_for() {
        return process::main();
    }
    let groups = [
        ("consumers", consumers::TESTS),
        ("crowd", crowd::TESTS),
        ("down", down::TESTS),
        ("filter", filter::TESTS),
        ("filter_restarts", filter_restarts::TESTS),
        ("health", health::TESTS),
        ("input", input::TESTS),
        ("losses", losses::TESTS),
        ("many", many::TESTS),
        ("per_process", per_process::TESTS),
        ("races", races::TESTS),
        ("recipes", recipes::TESTS),
        ("restarts", restarts::TESTS),
        ("sentinel", sentinel::TESTS),
        ("stress", stress::TESTS),
        ("writes", writes::TESTS),
    ];
    runner::run(Needs::Redis, LIMIT, &groups)
}

fn server() -> RedisServer {
    RedisServer::start(RedisSettings::new()).unwrap()
}

/// Settings under which nothing happens by time or chance alone, and every process asks Redis.
fn quiet() -> Builder<str, u64> {
    let builder = Cache::builder("test").jitter(0.0).early(0.0).local_size(0);
    builder.ttl(Duration::from_secs(600)).redis_limit(Duration::from_secs(10)).hard_limit(secs(30))
}

/// One process's cache.
fn open(server: &RedisServer) -> Cache<str, u64> {
    quiet().open(&server.url()).unwrap()
}

fn exists(server: &RedisServer, key: &str) -> bool {
    server.admin(&["EXISTS", key]).unwrap() != Value::Integer(0)
}

/// Waits until `condition` holds.
async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    leasehold_conformance::until(what, || std::future::ready(condition())).await.unwrap();
}

/// Rows with their values, as a database has them; reads are counted.
#[derive(Clone, Debug, Default)]
struct Database(Arc<Rows>);

#[derive(Debug, Default)]
struct Rows {
    values: Mutex<HashMap<String, u64>>,
    reads: AtomicU64,
}

impl Database {
    fn commit(&self, key: &str, value: u64) {
        self.0.values.lock().unwrap().insert(key.into(), value);
    }

    fn read(&self, key: &str) -> Option<u64> {
        self.0.reads.fetch_add(1, Ordering::SeqCst);
        self.0.values.lock().unwrap().get(key).copied()
    }

    fn reads(&self) -> u64 {
        self.0.reads.load(Ordering::SeqCst)
    }

    /// The value as `cache` says.
    async fn get(&self, cache: &Cache<str, u64>, key: &str) -> Option<u64> {
        let (database, row) = (self.clone(), key.to_owned());
        cache.get(key, move |_| async move { Ok::<_, String>(database.read(&row)) }).await.unwrap()
    }

    /// Gets a key until the process keeps its value.
    async fn kept(&self, cache: &Cache<str, u64>, key: &str) {
        conformance::until("kept in the process", async || {
            self.get(cache, key).await;
            cache.stats().local_hits > 0
        })
        .await
        .unwrap();
    }

    /// Begins a load that has read, and returns when told to: (has read, go on, what it got).
    async fn slow(
        &self,
        cache: &Cache<str, u64>,
        key: &'static str,
    ) -> (oneshot::Sender<()>, tokio::task::JoinHandle<Option<u64>>) {
        let (has_read, read) = oneshot::channel();
        let (go, going) = oneshot::channel();
        let (database, cache) = (self.clone(), cache.clone());
        let task = tokio::spawn(async move {
            let load = move |_| async move {
                let value = database.read(key);
                has_read.send(()).unwrap();
                let _ = going.await;
                Ok::<_, String>(value)
            };
            cache.get(key, load).await.unwrap()
        });
        read.await.unwrap();
        (go, task)
    }
}

/// What a reader sees while the database is down.
async fn fails(cache: &Cache<str, u64>, key: &str) -> leasehold_cache::Result<Option<u64>> {
    cache.get(key, |_| async { Err("the database is down") }).await
}

/// Waits until the ttl of a value is over: a load is tried, which fails.
async fn until_it_ends(cache: &Cache<str, u64>, key: &str) {
    let before = cache.stats().failed_loads;
    conformance::until("the value is no longer fresh", async || {
        let _ = fails(cache, key).await;
        cache.stats().failed_loads > before
    })
    .await
    .unwrap();
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
