//! Who answers: our cache, a plain `GET`, and caches that are in the process alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_cache::Cache;
use leasehold_test_servers::RedisServer;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;

use super::Level;
use crate::Result;
use crate::pairs::load::Worker;

/// All of them are there before anything is measured.
pub(super) const KEYS: usize = 10_000;
/// Room for twice as many, so that none is evicted.
const ROOM: usize = 2 * KEYS;
/// How long a value takes to be loaded.
const LOAD: Duration = Duration::from_millis(1);

/// What is kept for each key.
fn value() -> String {
    "v".repeat(100)
}

fn key(number: usize) -> String {
    format!("user/{number:08}")
}

/// Something that answers reads and takes writes. Clones share everything.
pub(super) trait Kind: Clone + Send + Sync + 'static {
    fn read(&self, key: &str) -> impl Future<Output = Result<()>> + Send;

    fn write(&self, key: &str) -> impl Future<Output = Result<()>> + Send;

    /// Reads so far that were no hits.
    fn misses(&self) -> u64 {
        0
    }
}

/// Reads and misses since the beginning.
#[derive(Debug)]
pub(super) struct Tally {
    reads: AtomicU64,
    keys: Vec<String>,
}

impl Default for Tally {
    fn default() -> Self {
        Self { reads: AtomicU64::new(0), keys: (0..KEYS).map(key).collect() }
    }
}

impl Tally {
    /// Hits and reads.
    pub(super) fn hits<K: Kind>(&self, kind: &K) -> (u64, u64) {
        let reads = self.reads.load(Ordering::Relaxed);
        (reads.saturating_sub(kind.misses()), reads)
    }
}

/// A hundred requests for keys at random, of which so many read.
pub(super) struct Hundred<K> {
    kind: K,
    reads: u32,
    tally: Arc<Tally>,
}

impl<K: Kind> Hundred<K> {
    pub(super) fn new(kind: K, reads: u32, tally: Arc<Tally>) -> Self {
        Self { kind, reads, tally }
    }
}

impl<K: Kind> Worker for Hundred<K> {
    async fn pair(&mut self) -> Result<()> {
        let some = || &self.tally.keys[fastrand::usize(..KEYS)];
        for _ in 0..self.reads {
            self.kind.read(some()).await?;
        }
        for _ in self.reads..100 {
            self.kind.write(some()).await?;
        }
        self.tally.reads.fetch_add(u64::from(self.reads), Ordering::Relaxed);
        Ok(())
    }
}

/// [`Cache`], with or without its level in the process. A written value is available without a load.
#[derive(Clone)]
pub(super) struct Ours {
    cache: Cache<str, String>,
    /// Misses while it was filled.
    before: u64,
}

impl Ours {
    /// With all keys in Redis, and in the process.
    pub(super) async fn open(url: &str, level: Level) -> Result<Self> {
        let room = if level == Level::Process { ROOM } else { 0 };
        let builder = Cache::builder("bench").ttl(Duration::from_secs(3_600)).local_size(room);
        let cache = builder.redis_limit(Duration::from_secs(10)).open(url)?;
        let mut ours = Self { cache, before: 0 };
        for _ in 0..1_000 {
            let before = ours.cache.stats();
            ours.read_all().await?;
            let now = ours.cache.stats();
            let (here, there) =
                (now.local_hits - before.local_hits, now.remote_hits - before.remote_hits);
            // The process keeps nothing before it receives the notifications of writes.
            if if level == Level::Process { here } else { there } == KEYS as u64 {
                ours.before = now.misses;
                return Ok(ours);
            }
        }
        Err("the cache does not keep all keys".into())
    }

    async fn read_all(&self) -> Result<()> {
        let mut tasks = JoinSet::new();
        for part in 0..64 {
            let ours = self.clone();
            tasks.spawn(async move {
                for number in (part..KEYS).step_by(64) {
                    ours.read(&key(number)).await?;
                }
                Result::Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(())
    }
}

impl Kind for Ours {
    async fn read(&self, key: &str) -> Result<()> {
        let load = |_| async {
            tokio::time::sleep(LOAD).await;
            Ok::<_, String>(Some(value()))
        };
        match self.cache.get(key, load).await? {
            Some(_) => Ok(()),
            None => Err(format!("{key} has no value").into()),
        }
    }

    async fn write(&self, key: &str) -> Result<()> {
        let write = self.cache.begin_write(&[key]).await?;
        write.committed_with(&[Some(value())]).await?;
        Ok(())
    }

    fn misses(&self) -> u64 {
        self.cache.stats().misses - self.before
    }
}

/// Plain `GET` and `SET` over the `redis` crate's multiplexed connection.
#[derive(Clone)]
pub(super) struct Raw(MultiplexedConnection);

impl Raw {
    pub(super) async fn open(url: &str) -> Result<Self> {
        let client = redis::Client::open(url)?;
        let raw = Self(client.get_multiplexed_async_connection().await?);
        for number in 0..KEYS {
            raw.write(&key(number)).await?;
        }
        Ok(raw)
    }
}

impl Kind for Raw {
    async fn read(&self, key: &str) -> Result<()> {
        match self.0.clone().get::<_, Option<String>>(key).await? {
            Some(_) => Ok(()),
            None => Err(format!("{key} has no value").into()),
        }
    }

    async fn write(&self, key: &str) -> Result<()> {
        Ok(self.0.clone().set::<_, _, ()>(key, value()).await?)
    }
}

/// A cache of another library, in the process alone: other processes are not notified of its writes.
pub(super) trait Plain: Send + Sync + 'static {
    fn get(&self, key: &str) -> Option<String>;

    fn put(&self, key: String, value: String);
}

impl Plain for quick_cache::sync::Cache<String, String> {
    fn get(&self, key: &str) -> Option<String> {
        Self::get(self, key)
    }

    fn put(&self, key: String, value: String) {
        self.insert(key, value);
    }
}

impl Plain for moka::sync::Cache<String, String> {
    fn get(&self, key: &str) -> Option<String> {
        Self::get(self, key)
    }

    fn put(&self, key: String, value: String) {
        self.insert(key, value);
    }
}

pub(super) fn quick() -> impl Plain {
    filled(quick_cache::sync::Cache::new(ROOM))
}

/// With a time to live, as ours has one.
pub(super) fn moka() -> impl Plain {
    let builder = moka::sync::Cache::builder().max_capacity(ROOM as u64);
    filled(builder.time_to_live(Duration::from_secs(3_600)).build())
}

fn filled<P: Plain>(cache: P) -> P {
    (0..KEYS).for_each(|number| cache.put(key(number), value()));
    cache
}

#[derive(Debug)]
pub(super) struct InProcess<P>(pub(super) Arc<P>);

impl<P> Clone for InProcess<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: Plain> Kind for InProcess<P> {
    async fn read(&self, key: &str) -> Result<()> {
        // Ours lets others run as often.
        tokio::task::consume_budget().await;
        match self.0.get(key) {
            Some(_) => Ok(()),
            None => Err(format!("{key} is not kept").into()),
        }
    }

    async fn write(&self, key: &str) -> Result<()> {
        self.0.put(key.to_owned(), value());
        Ok(())
    }
}

/// All commands that the server has counted since it was told to begin anew, but for those by which it
/// is asked and by which a connection is kept.
pub(super) fn commands(server: &RedisServer) -> Result<u64> {
    let stats = server.admin(&["INFO", "commandstats"])?.text();
    let kept = ["ping", "info", "auth", "config|resetstat", "hello", "client|setinfo", "subscribe"];
    let mut sum = 0;
    for line in stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")) {
        let (command, figures) = line.split_once(':').ok_or("a line without a colon")?;
        if kept.contains(&command) {
            continue;
        }
        let calls = figures.split(',').find_map(|field| field.strip_prefix("calls="));
        sum += calls.ok_or("a command without calls")?.parse::<u64>()?;
    }
    Ok(sum)
}
