//! A Bloom filter in Redis that all processes share.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use leasehold_cache_redis::{ServerRun, check_name};
use leasehold_core::clock::Clock;

use super::generation::{Header, SHARD_BITS};
use super::shape::{Hashed, Shape};
use super::store::Store;
use super::{Answer, Stats};
use crate::{Error, ErrorKind, Result};

/// A Bloom filter in Redis that all processes share.
///
/// A check is one `BITFIELD_RO`, and an addition one `BITFIELD`, also for many items of one shard.
/// No script runs on the server.
///
/// | key | what it holds |
/// |---|---|
/// | `{prefix:name}` | a hash: `v` (1), `current`, and `run`, the server run for which it is valid; during a rebuild also `next` and `next_run`. A generation is `epoch bits shards hashes` |
/// | `{prefix:name}:EPOCH:SHARD` | a stamp of 8 bytes, then the bits |
///
/// Each command also reads the stamp. So a filter that was evicted, flushed, lost in a failover or
/// replaced is never read as an empty filter: the answer is [`Answer::Unavailable`] until a new
/// filter exists ([`rebuild`](Self::rebuild)).
///
/// After a restart of Redis, or after another server has replaced it, the latest additions may be
/// lost. The filter then answers [`Answer::Unavailable`] in every process, with one warning, until
/// it is rebuilt.
///
/// Clones share all state.
#[derive(Clone, Debug)]
pub struct Redis {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) store: Store,
    /// The header as this process last read it; the stamps show when it is out of date.
    header: RwLock<Option<Header>>,
    /// The server run for which the warning about lost additions was logged.
    doubted: Mutex<Option<ServerRun>>,
}

/// Settings of a [`Redis`] filter.
#[derive(Clone, Debug)]
pub struct Builder {
    name: String,
    prefix: String,
    items: u64,
    error_rate: f64,
    create: bool,
    redis_limit: Duration,
}

impl Redis {
    /// Returns the settings of a filter. `name` has the form of a cache name; the filter is made
    /// for `items` items, and `error_rate` is more than 0 and less than 1.
    pub fn builder(name: &str, items: u64, error_rate: f64) -> Builder {
        let (name, prefix) = (name.to_owned(), "leasehold-bloom".to_owned());
        let redis_limit = Duration::from_millis(500);
        Builder { name, prefix, items, error_rate, create: false, redis_limit }
    }

    /// Checks whether an item was added.
    pub async fn check(&self, item: impl AsRef<[u8]>) -> Answer {
        let answers = self.check_many(&[item]).await;
        answers.first().copied().unwrap_or(Answer::Unavailable)
    }

    /// Checks many items, and returns the answers in the same order; the commands share one round
    /// trip.
    pub async fn check_many(&self, items: &[impl AsRef<[u8]>]) -> Vec<Answer> {
        if items.is_empty() {
            return Vec::new();
        }
        let hashed: Vec<Hashed> = items.iter().map(|item| Hashed::of(item.as_ref())).collect();
        let mut answers = vec![Answer::Unavailable; items.len()];
        // Another may have taken its place since we looked.
        for _ in 0..2 {
            let Ok(header) = self.header().await else { break };
            let Some(current) = &header.current else {
                self.forget(&header);
                continue;
            };
            match self.inner.is_sure(&header).await {
                Ok(true) => {}
                Ok(false) => {
                    self.forget(&header);
                    continue;
                }
                Err(_) => break,
            }
            match self.inner.store.check(current, &header.run, &hashed).await {
                Ok(Some(there)) => {
                    let answer = |there| if there { Answer::Maybe } else { Answer::Absent };
                    answers = there.into_iter().map(answer).collect();
                    break;
                }
                Ok(None) => self.forget(&header),
                Err(_) => break,
            }
        }
        answers
    }

    /// Adds an item. For a filter in front of a database, add the item before the commit.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if Redis cannot be reached or keys of the filter are missing; the
    /// item may have been added.
    pub async fn add(&self, item: impl AsRef<[u8]>) -> Result<()> {
        self.add_many(&[item]).await
    }

    /// Adds many items; the commands share one round trip.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub async fn add_many(&self, items: &[impl AsRef<[u8]>]) -> Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        let hashed: Vec<Hashed> = items.iter().map(|item| Hashed::of(item.as_ref())).collect();
        let store = &self.inner.store;
        for _ in 0..3 {
            let header = self.header().await?;
            let mut current = None;
            if let Some(generation) = &header.current {
                current = store.add(generation, &hashed).await?.all(generation);
                if current.is_none() {
                    store.discard(generation).await?;
                }
            }
            if current == Some(false) {
                return Ok(());
            }
            // It is rebuilt, or lost.
            if let Some(next) = &header.next {
                match store.add(next, &hashed).await?.all(next) {
                    Some(false) => return Ok(()),
                    // It is the current one by now, and rebuilt again.
                    Some(true) => {}
                    None => {
                        store.discard(next).await?;
                        store.forget_next(&header).await?;
                    }
                }
            }
            self.forget(&header);
        }
        Err(gone(store.stem()))
    }

    /// Measures how full the filter is. The server counts all bits, some megabytes per command.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if Redis cannot be reached or keys of the filter are missing.
    pub async fn stats(&self) -> Result<Stats> {
        let header = self.header().await?;
        self.inner
            .store
            .stats(header.current.as_ref().ok_or_else(|| gone(self.inner.store.stem()))?)
            .await
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.inner
    }

    async fn header(&self) -> Result<Header> {
        if let Some(header) = self.inner.known().clone() {
            return Ok(header);
        }
        let header =
            self.inner.store.header().await?.ok_or_else(|| gone(self.inner.store.stem()))?;
        *self.inner.known() = Some(header.clone());
        Ok(header)
    }

    fn forget(&self, header: &Header) {
        let mut known = self.inner.known();
        if known.as_ref() == Some(header) {
            *known = None;
        }
    }
}

impl Inner {
    /// Returns true if the filter has every item that was added: the server is in the run for which
    /// the header is valid.
    async fn is_sure(&self, header: &Header) -> Result<bool> {
        let run = self.store.link.server_run().await?;
        let sure = header.run == run.text();
        let doubted = (!sure).then_some(run);
        let mut said = self.doubted.lock().unwrap_or_else(PoisonError::into_inner);
        if !sure && *said != doubted {
            self.store.link.warn(
                "Redis was restarted or failed over: the filter may lack the latest additions; it \
                 answers Unavailable until it is rebuilt (Redis::rebuild)",
            );
        }
        *said = doubted;
        Ok(sure)
    }

    pub(super) fn known(&self) -> std::sync::RwLockWriteGuard<'_, Option<Header>> {
        self.header.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("stem", &self.store.stem()).finish_non_exhaustive()
    }
}

fn gone(stem: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("keys of filter {stem} are missing; rebuild it"))
}

impl Builder {
    /// Sets the prefix of the keys; letters, digits, `_`, `.`, `-`. Default `leasehold-bloom`.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.to_owned();
        self
    }

    /// Sets how long Redis may take to answer. Default 500 ms.
    #[must_use]
    pub fn redis_limit(mut self, redis_limit: Duration) -> Self {
        self.redis_limit = redis_limit;
        self
    }

    /// Creates an empty filter if there is none. Default false.
    ///
    /// An empty filter states that no item exists. Set this for the first start, or if a wrong
    /// [`Answer::Absent`] does no harm. A program that always sets it replaces a lost filter by an
    /// empty one: after a flush, or a failover to an empty server, the filter answers `Absent` for
    /// every existing item.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens the filter on the Redis server of `url`.
    ///
    /// If there is no filter, it answers [`Answer::Unavailable`] until it is
    /// [rebuilt](Redis::rebuild), unless [`create`](Self::create) is set.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for settings that are not allowed, and for a filter that is too
    /// large: a shard holds 2^32 bits in one string of 512 MB, there are at most 64 shards, and the
    /// server must have room. [`ErrorKind::Foreign`] if the key holds another kind of value, or a
    /// filter of another version or size. [`ErrorKind::Unavailable`] if Redis cannot be reached.
    pub async fn open(self, url: &str) -> Result<Redis> {
        let Self { items, error_rate, create, .. } = self;
        let shape = Shape::split(items, error_rate, SHARD_BITS)?;
        let store = self.store(url)?;
        let found = match store.header().await? {
            None if create => {
                let run = store.link.server_run().await?;
                let made = store.make(shape, items, error_rate).await?;
                Some(store.publish(&made, run).await?)
            }
            None => {
                store.fits(shape, items, error_rate).await?;
                None
            }
            found => found,
        };
        let current = found.as_ref().and_then(|header| header.current.as_ref());
        if let Some(other) = current.filter(|current| current.shape != shape) {
            let told = |Shape { bits, shards, hashes }: Shape| {
                format!("{shards} shards of {bits} bits with {hashes} hashes")
            };
            let (stem, other, asked) = (store.stem(), told(other.shape), told(shape));
            let what = format!(
                "filter {stem} has {other}, but items={items} and error_rate={error_rate} need \
                 {asked}; open it with its own settings, or rebuild it"
            );
            return Err(Error::new(ErrorKind::Foreign, what));
        }
        let header = RwLock::new(found);
        let doubted = Mutex::default();
        Ok(Redis { inner: Arc::new(Inner { store, header, doubted }) })
    }

    fn store(&self, url: &str) -> Result<Store> {
        check_name("name", &self.name)?;
        check_name("prefix", &self.prefix)?;
        let stem = format!("{{{}:{}}}", self.prefix, self.name);
        Store::new(url, stem, self.redis_limit, Clock::system())
    }
}
