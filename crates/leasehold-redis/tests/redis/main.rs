//! What happens on a real Redis server when messages, processes, permissions and memory fail.

// A set-up that fails is a failed test.
#![allow(clippy::unwrap_used)]

mod batches;
mod connection;
mod holes;
mod late;
mod leaving;
mod list;
mod messages;
mod node;
mod quorum;
mod refused;
mod scripts;
mod server;
mod side;
mod soak;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::kit::{RedisServer, Settings, required};
use leasehold_core::{Client, Error, StoreUrl};
use libtest_mimic::{Arguments, Trial};

/// Counts what is in use, for those who must leave nothing behind.
#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

/// A test in a runtime of its own.
type Test = (&'static str, fn() -> std::pin::Pin<Box<dyn Future<Output = ()>>>);

/// A row of a table of tests.
macro_rules! test {
    ($name:ident) => {
        (stringify!($name), || Box::pin($name()))
    };
}
use test;

fn main() -> ExitCode {
    if let Some(role) = soak::Role::told() {
        return role.play();
    }
    if let Some(store) = leaving::told() {
        return leaving::play(&store);
    }
    let arguments = Arguments::from_args();
    let missing = !RedisServer::is_present() && !required("redis");
    let groups = [
        ("messages", messages::TESTS),
        ("batches", batches::TESTS),
        ("holes", holes::TESTS),
        ("late", late::TESTS),
        ("list", list::TESTS),
        ("refused", refused::TESTS),
        ("scripts", scripts::TESTS),
        ("node", node::TESTS),
        ("quorum", quorum::TESTS),
        ("server", server::TESTS),
        ("connection", connection::TESTS),
        ("leaving", leaving::TESTS),
        ("soak", soak::TESTS),
    ];
    let limit = Duration::from_secs(90) + soak::duration();
    let mut trials = Vec::new();
    for (group, tests) in groups {
        for &(name, test) in tests {
            let run = move || {
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(2)
                    .enable_all()
                    .build()?;
                let limited = async { tokio::time::timeout(limit, test()).await };
                let done = runtime.block_on(limited);
                runtime.shutdown_timeout(Duration::from_secs(5));
                done.map_err(|_| format!("not done within {limit:?}"))?;
                Ok(())
            };
            trials.push(Trial::test(format!("{group}::{name}"), run).with_ignored_flag(missing));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

async fn try_connect(url: &str) -> Result<Client, Error> {
    let backend = leasehold_redis::connect(StoreUrl::parse(url)?).await?;
    Client::new(Arc::new(backend))
}

async fn connect(url: &str) -> Client {
    try_connect(url).await.unwrap()
}

fn plain() -> RedisServer {
    RedisServer::start(Settings::new()).unwrap()
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
