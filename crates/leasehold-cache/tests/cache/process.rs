//! Other processes that use the cache: this program once more, there to be killed.

use std::process::ExitCode;

use leasehold_cache::Cache;
use leasehold_test_servers::{Process, RedisServer};

use super::{ms, quiet, secs};

/// What the process does, and the URL of Redis.
const ASKED: &str = "LEASEHOLD_TEST_CACHE";

/// What a process does before it is killed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// It has begun a write of the key `k`, and does not end it.
    Begin,
    /// It has committed a write of `k`, and waits for replicas that are a minute behind.
    Commit,
    /// It loads `key 0` to `key 7`, of which each second load panics and the others do not end.
    Load,
}

const ALL: [Work; 3] = [Work::Begin, Work::Commit, Work::Load];

/// Starts a process, and returns when it has done its work, or is in the middle of it.
pub(super) async fn start(work: Work, url: String) -> Process {
    let asked = format!("{work:?} {url}");
    tokio::task::spawn_blocking(move || Process::again(ASKED, &asked).unwrap()).await.unwrap()
}

/// Starts a process that uses this server, and kills it (SIGKILL).
pub(super) async fn start_and_kill(work: Work, server: &RedisServer) {
    start(work, server.url()).await.kill();
}

pub(super) fn is_asked_for() -> bool {
    std::env::var_os(ASKED).is_some()
}

pub(super) fn main() -> ExitCode {
    let asked = std::env::var(ASKED).unwrap();
    let (work, url) = asked.split_once(' ').unwrap();
    let work = ALL.into_iter().find(|of| format!("{of:?}") == work).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        match work {
            Work::Begin => {
                let cache = quiet().open(url).unwrap();
                let _write = cache.begin_write(&["k"]).await.unwrap();
                ready::<()>().await;
            }
            Work::Commit => {
                let cache = quiet().replica_lag(secs(60)).open(url).unwrap();
                cache.begin_write(&["k"]).await.unwrap().committed().await.unwrap();
                ready::<()>().await;
            }
            Work::Load => {
                let cache = quiet().lease(ms(500)).open(url).unwrap();
                futures_util::future::join_all((0..8).map(|key| load(&cache, key))).await;
            }
        }
    });
    ExitCode::SUCCESS
}

/// Says so, and does nothing more.
async fn ready<T>() -> T {
    println!("ready");
    std::future::pending().await
}

/// Asks for a key until this process is the process that loads it.
async fn load(cache: &Cache<str, u64>, key: usize) {
    let load = move |_| async move {
        assert!(key.is_multiple_of(2), "this loader panics");
        ready::<Result<_, String>>().await
    };
    loop {
        let _ = cache.get(&format!("key {key}"), load).await;
    }
}
