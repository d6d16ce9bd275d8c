//! What was seen in a window of time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_core::clock::Clock;

use super::Answer;
use super::generation::{BUILDING, Generation, READY, SHARD_BITS, Stamps};
use super::shape::{Hashed, Shape};
use super::store::Store;
use crate::builder::word;
use crate::{Error, ErrorKind, Result};

/// A filter in Redis that forgets: two generations, each of one window. What was added is found for
/// one window at least and for two at most.
///
/// Windows begin at multiples of their length in Unix time, by each process's clock: clocks must differ
/// by less than a window, and what is added by one that is behind is found for so much less. A
/// generation is made in the window before its own, by whoever is first to use the filter then, and
/// passes away by itself. Where one was made too late (the first, or after Redis has lost its data, or when nobody
/// used the filter for a whole window), it cannot know what was added before: the answer is
/// [`Answer::Unavailable`] in place of [`Answer::Absent`] until it has watched for a whole window.
///
/// A question is one `BITFIELD_RO` on each generation and on the next, which somebody may be adding to
/// whose clock is ahead; in one flight. Clones share everything.
#[derive(Clone, Debug)]
pub struct Rotating {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    shape: Shape,
    window_ms: u64,
    clock: Clock,
    /// The last window whose successor was made by this process.
    prepared: AtomicU64,
}

/// Settings of a [`Rotating`] filter.
#[derive(Clone, Debug)]
pub struct RotatingBuilder {
    name: String,
    prefix: String,
    items: u64,
    error_rate: f64,
    window: Duration,
    redis_limit: Duration,
}

impl Rotating {
    /// A filter of this name (as a cache's) for so many items in a window, and this error rate of each
    /// generation (more than 0, less than 1).
    pub fn builder(name: &str, items: u64, error_rate: f64, window: Duration) -> RotatingBuilder {
        RotatingBuilder {
            name: name.to_owned(),
            prefix: "leasehold-bloom".to_owned(),
            items,
            error_rate,
            window,
            redis_limit: Duration::from_millis(500),
        }
    }

    /// Whether the item was added in the last window.
    pub async fn check(&self, item: impl AsRef<[u8]>) -> Answer {
        self.ask(Hashed::of(item.as_ref())).await.unwrap_or(Answer::Unavailable)
    }

    /// Adds an item: it is found for one to two windows from now.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`]; the item may have been added. [`ErrorKind::Foreign`] when under the
    /// key lies what is no generation of this filter.
    pub async fn add(&self, item: impl AsRef<[u8]>) -> Result<()> {
        let inner = &self.inner;
        for _ in 0..3 {
            let now = inner.prepare().await?;
            let stamps = inner.store.add(&now, &[Hashed::of(item.as_ref())]).await?;
            if stamps.all(&now).is_none() {
                inner.store.discard(&now).await?;
                inner.lost(&now, &stamps).await?;
            } else if inner.window() == now.epoch() {
                return Ok(());
            }
            // It may have arrived when its window was long over.
        }
        let what = "Redis loses what was added a moment ago, or takes longer than a window";
        Err(Error::new(ErrorKind::Unavailable, what))
    }

    async fn ask(&self, item: Hashed) -> Result<Answer> {
        let inner = &self.inner;
        let now = inner.prepare().await?;
        let before = inner.generation(now.epoch().saturating_sub(1));
        let next = inner.generation(now.epoch() + 1);
        let item = [item];
        let looks = futures_util::future::try_join3(
            inner.store.look(&now, &item),
            inner.store.look(&before, &item),
            inner.store.look(&next, &item),
        );
        let (of_now, of_before, of_next) = looks.await?;
        let known = (of_now.0.used(&now), of_before.0.used(&before));
        if of_now.0.all(&now).is_none() {
            inner.lost(&now, &of_now.0).await?;
        }
        // What is set in a generation of ours was added, whenever it was made.
        let maybe = [(&of_now, &now), (&of_before, &before), (&of_next, &next)]
            .into_iter()
            .any(|((stamps, there), of)| *there == [true] && stamps.all(of).is_some());
        Ok(match (maybe, known) {
            (true, _) => Answer::Maybe,
            (false, (true, true)) => Answer::Absent,
            _ => Answer::Unavailable,
        })
    }
}

impl Inner {
    fn generation(&self, window: u64) -> Generation {
        Generation::of_epoch(window, self.shape)
    }

    /// That of now.
    fn window(&self) -> u64 {
        self.clock.now().unix_ms() / self.window_ms
    }

    /// The generation of now; that of the next window is made.
    async fn prepare(&self) -> Result<Generation> {
        let window = self.window();
        let prepared = self.prepared.load(Ordering::Acquire);
        if prepared < window {
            if prepared + 1 < window || prepared == 0 {
                self.make(window, BUILDING).await?;
            }
            self.make(window + 1, READY).await?;
            self.prepared.fetch_max(window, Ordering::AcqRel);
        }
        Ok(self.generation(window))
    }

    /// Not all of it is there: it is made now, and does not know what was before. What is not ours
    /// is an error.
    async fn lost(&self, generation: &Generation, stamps: &Stamps) -> Result<()> {
        if stamps.foreign(generation) {
            let what =
                format!("{}: under a key of the filter lies something else", self.store.stem());
            return Err(Error::new(ErrorKind::Foreign, what));
        }
        self.make(generation.epoch(), BUILDING).await
    }

    async fn make(&self, window: u64, state: i64) -> Result<()> {
        let generation = self.generation(window);
        for shard in 0..self.shape.shards {
            let ttl = Duration::from_millis(self.window_ms.saturating_mul(4));
            self.store.make_shard(&generation, shard, state, ttl).await?;
        }
        Ok(())
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("stem", &self.store.stem()).finish_non_exhaustive()
    }
}

impl RotatingBuilder {
    /// What keys begin with; letters, digits, `_`, `.`, `-`. Default `leasehold-bloom`.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.to_owned();
        self
    }

    /// How long Redis may take to answer. Default 500 ms.
    pub fn redis_limit(mut self, redis_limit: Duration) -> Self {
        self.redis_limit = redis_limit;
        self
    }

    /// Opens the filter on the Redis server of `url`, and makes its generations if need be.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for settings that are not allowed (a window is 100 ms to 30 days; sizes
    /// as [`Builder::open`](super::Builder::open)); [`ErrorKind::Foreign`]; [`ErrorKind::Unavailable`].
    pub async fn open(self, url: &str) -> Result<Rotating> {
        word("name", &self.name)?;
        word("prefix", &self.prefix)?;
        let (least, most) = (Duration::from_millis(100), Duration::from_secs(30 * 86_400));
        let Self { items, error_rate, window, .. } = self;
        if window < least || window > most {
            return Err(Error::invalid(format!(
                "window is {window:?}; allowed is {least:?} to {most:?}"
            )));
        }
        let shape = Shape::split(items, error_rate, SHARD_BITS)?;
        let clock = Clock::system();
        let stem = format!("{{{}:{}}}:window", self.prefix, self.name);
        let store = Store::new(url, stem, self.redis_limit, clock.clone())?;
        store.fits(shape, items, error_rate).await?;
        let window_ms = window.as_millis() as u64;
        let inner = Inner { store, shape, window_ms, clock, prepared: AtomicU64::new(0) };
        let now = inner.prepare().await?;
        let stamps = inner.store.stamps(&now).await?;
        if stamps.all(&now).is_none() {
            inner.lost(&now, &stamps).await?;
        }
        Ok(Rotating { inner: Arc::new(inner) })
    }
}
