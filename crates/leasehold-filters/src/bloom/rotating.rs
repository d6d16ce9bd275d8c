//! A filter for the items of a window of time.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_cache_redis::{ServerRun, check_name};
use leasehold_core::clock::Clock;

use super::Answer;
use super::generation::{BUILDING, Generation, READY, SHARD_BITS, Stamps};
use super::shape::{Hashed, Shape};
use super::store::Store;
use crate::{Error, ErrorKind, Result};

/// A filter in Redis that forgets old items: a check finds an item for at least one window and at
/// most two windows after its addition.
///
/// It has two generations of one window each. Windows begin at multiples of their length in Unix
/// time, by the clock of each process. The clocks must differ by less than a window: if a process
/// has a late clock, its items are found for a time that is shorter by the difference. The first
/// process that uses the filter in a window creates the generation of the next window. Generations
/// expire by themselves.
///
/// A generation may be created too late: at the first start, after Redis restarted or lost its
/// data, or if no process used the filter for a whole window. Then the filter does not know what
/// was added before, and answers [`Answer::Unavailable`] instead of [`Answer::Absent`] until one
/// whole window has passed.
///
/// A check is one `BITFIELD_RO` on each of three generations: the two, and the next one, to which a
/// process with an early clock may add. All share one round trip. Clones share all state.
#[derive(Clone, Debug)]
pub struct Rotating {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    shape: Shape,
    window_ms: u64,
    clock: Clock,
    /// The last window for which this process created the next generation, and the server run.
    prepared: Mutex<Option<(u64, ServerRun)>>,
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
    /// Returns the settings of a filter. `name` has the form of a cache name; `items` is the number
    /// of items in a window, and `error_rate` (more than 0, less than 1) applies to each
    /// generation.
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

    /// Checks whether an item was added in the last window.
    pub async fn check(&self, item: impl AsRef<[u8]>) -> Answer {
        self.ask(Hashed::of(item.as_ref())).await.unwrap_or(Answer::Unavailable)
    }

    /// Adds an item. Checks find it for one to two windows from now.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if Redis cannot be reached; the item may have been added.
    /// [`ErrorKind::Foreign`] if a key holds other data than a generation of this filter.
    pub async fn add(&self, item: impl AsRef<[u8]>) -> Result<()> {
        let inner = &self.inner;
        for _ in 0..3 {
            let (now, run) = inner.prepare().await?;
            let stamps = inner.store.add(&now, &[Hashed::of(item.as_ref())]).await?;
            if stamps.all(&now).is_none() {
                inner.store.discard(&now).await?;
                inner.lost(&now, &stamps).await?;
            } else if stamps.1 == run && inner.window() == now.epoch() {
                return Ok(());
            }
            // It may have arrived when its window was long over.
        }
        let what = "Redis lost an item that was just added, or took longer than one window; check \
                    its health or use a longer window";
        Err(Error::new(ErrorKind::Unavailable, what))
    }

    async fn ask(&self, item: Hashed) -> Result<Answer> {
        let inner = &self.inner;
        let (now, run) = inner.prepare().await?;
        let before = inner.generation(now.epoch().saturating_sub(1), run);
        let next = inner.generation(now.epoch() + 1, run);
        let item = [item];
        let looks = futures_util::future::try_join3(
            inner.store.look(&now, &item),
            inner.store.look(&before, &item),
            inner.store.look(&next, &item),
        );
        let (of_now, of_before, of_next) = looks.await?;
        let in_run = |stamps: &Stamps| stamps.1 == run;
        let known = in_run(&of_now.0)
            && in_run(&of_before.0)
            && of_now.0.used(&now)
            && of_before.0.used(&before);
        if of_now.0.all(&now).is_none() {
            inner.lost(&now, &of_now.0).await?;
        }
        // What is set in a generation of ours was added, whenever it was made.
        let maybe = [(&of_now, &now), (&of_before, &before), (&of_next, &next)]
            .into_iter()
            .any(|((stamps, there), of)| *there == [true] && stamps.all(of).is_some());
        Ok(match (maybe, known) {
            (true, _) => Answer::Maybe,
            (false, true) => Answer::Absent,
            _ => Answer::Unavailable,
        })
    }
}

impl Inner {
    fn generation(&self, window: u64, run: ServerRun) -> Generation {
        Generation::of_window(window, run, self.shape)
    }

    /// Returns the number of the current window.
    fn window(&self) -> u64 {
        self.clock.now().unix_ms() / self.window_ms
    }

    /// Returns the current generation and the server run, and creates the generation of the next
    /// window. Generations of an earlier server run are not used: they may lack the latest
    /// additions.
    async fn prepare(&self) -> Result<(Generation, ServerRun)> {
        let run = self.store.link.server_run().await?;
        let window = self.window();
        let prepared =
            (*self.prepared()).filter(|(_, of)| *of == run).map_or(0, |(window, _)| window);
        if prepared < window {
            if prepared + 1 < window || prepared == 0 {
                self.make(&self.generation(window, run), BUILDING).await?;
            }
            self.make(&self.generation(window + 1, run), READY).await?;
            *self.prepared() = Some((window, run));
        }
        Ok((self.generation(window, run), run))
    }

    fn prepared(&self) -> MutexGuard<'_, Option<(u64, ServerRun)>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the missing shards of a generation, which then does not know earlier additions.
    /// Returns an error if a key holds other data.
    async fn lost(&self, generation: &Generation, stamps: &Stamps) -> Result<()> {
        if stamps.foreign(generation) {
            let what = format!(
                "a key of filter {} holds other data; use another prefix",
                self.store.stem()
            );
            return Err(Error::new(ErrorKind::Foreign, what));
        }
        self.make(generation, BUILDING).await
    }

    async fn make(&self, generation: &Generation, state: i64) -> Result<()> {
        for shard in 0..self.shape.shards {
            let ttl = Duration::from_millis(self.window_ms.saturating_mul(4));
            self.store.make_shard(generation, shard, state, ttl).await?;
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

    /// Opens the filter on the Redis server of `url`, and creates its generations if they are
    /// missing.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for settings that are not allowed (a window is 100 ms to 30 days;
    /// sizes as [`Builder::open`](super::Builder::open)). [`ErrorKind::Foreign`] if a key holds
    /// another value. [`ErrorKind::Unavailable`] if Redis cannot be reached.
    pub async fn open(self, url: &str) -> Result<Rotating> {
        check_name("name", &self.name)?;
        check_name("prefix", &self.prefix)?;
        let (least, most) = (Duration::from_millis(100), Duration::from_secs(30 * 86_400));
        let Self { items, error_rate, window, .. } = self;
        if window < least || window > most {
            return Err(Error::invalid(format!(
                "window is {window:?}; {least:?} to {most:?} is allowed"
            )));
        }
        let shape = Shape::split(items, error_rate, SHARD_BITS)?;
        let clock = Clock::system();
        let stem = format!("{{{}:{}}}:window", self.prefix, self.name);
        let store = Store::new(url, stem, self.redis_limit, clock.clone())?;
        store.fits(shape, items, error_rate).await?;
        let window_ms = window.as_millis() as u64;
        let inner = Inner { store, shape, window_ms, clock, prepared: Mutex::default() };
        let (now, _) = inner.prepare().await?;
        let stamps = inner.store.stamps(&now).await?;
        if stamps.all(&now).is_none() {
            inner.lost(&now, &stamps).await?;
        }
        Ok(Rotating { inner: Arc::new(inner) })
    }
}
