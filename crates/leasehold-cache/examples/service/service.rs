//! The service: reads through a cache, and writes that no reader misses.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_cache::outbox::{Outbox, Relay};
use leasehold_cache::{BoxError, Cache, Filter};

use super::plain::Plain;
use super::report::Counts;
use super::settings::{Defence, Settings};
use super::shop::{Product, Shop};

/// More loads than the program ever begins at once.
const UNBOUNDED: usize = 1_000_000;
/// The shortest that there is.
const HARDLY: Duration = Duration::from_millis(10);
/// Reads at once, and the pause before a second look, at rest.
const PAGE: usize = 64;
const LATER: Duration = Duration::from_secs(1);

pub(crate) struct Service {
    pub(crate) shop: Arc<Shop>,
    processes: Vec<Way>,
    hold: bool,
    outbox: Option<(Outbox, Relay)>,
    /// What the load has seen.
    pub(crate) reads: AtomicU64,
    pub(crate) stale: AtomicU64,
    pub(crate) errors: AtomicU64,
}

/// How one process keeps values.
enum Way {
    Cache(Cache<str, Product>),
    Plain(Plain),
}

impl Service {
    pub(crate) async fn open(
        settings: &Settings,
        file: &Path,
        redis: &str,
    ) -> Result<Self, BoxError> {
        let query = Duration::from_millis(settings.query);
        let shop = Arc::new(Shop::open(file, settings.products, query).await?);
        let open = |_| way(settings, &shop, redis);
        let processes = (0..settings.processes.max(1)).map(open).collect::<Result<_, _>>()?;
        let outbox = match settings.has(Defence::Outbox) {
            true => {
                let outbox = Outbox::new();
                outbox.create(&shop.pool).await?;
                let relay = Relay::builder(&outbox, &shop.pool).open(redis)?;
                Some((outbox, relay))
            }
            false => None,
        };
        let (hold, [reads, stale, errors]) = (settings.has(Defence::Hold), Default::default());
        Ok(Self { shop, processes, hold, outbox, reads, stale, errors })
    }

    /// How many processes there are.
    pub(crate) fn processes(&self) -> usize {
        self.processes.len()
    }

    /// A product as one of the processes has it.
    pub(crate) async fn read(&self, at: usize, key: &str) -> Result<Option<Product>, BoxError> {
        let shop = Arc::clone(&self.shop);
        match &self.processes[at] {
            Way::Plain(plain) => plain.get(key, &shop).await,
            Way::Cache(cache) => {
                let id = key.parse();
                let load = |_| async move {
                    match id {
                        Ok(id) => shop.product(id).await,
                        Err(_) => Ok(None),
                    }
                };
                Ok(cache.get(key, load).await?)
            }
        }
    }

    /// Changes a price, or adds a product; its version after that.
    pub(crate) async fn write(&self, at: usize, id: u64, price: i64) -> Result<i64, BoxError> {
        let key = id.to_string();
        let cache = match &self.processes[at] {
            Way::Cache(cache) => cache,
            Way::Plain(plain) => {
                let mut tx = self.shop.pool.begin().await?;
                let version = Shop::write(&mut tx, id, price).await?;
                tx.commit().await?;
                plain.delete(&key).await;
                return Ok(version);
            }
        };
        let keys = [key.as_str()];
        let hold = match self.hold {
            true => cache.begin_write(&keys).await.ok(),
            false => None,
        };
        let mut tx = self.shop.pool.begin().await?;
        let version = Shop::write(&mut tx, id, price).await?;
        if let (None, Some((outbox, _))) = (&hold, &self.outbox) {
            // Redis did not take the hold: what is committed with the row is not forgotten.
            cache.invalidate_in_tx(outbox, &mut tx, &keys).await?;
        }
        tx.commit().await?;
        // One that fails is tried again in the background.
        match hold {
            Some(hold) => drop(hold.committed().await),
            None => drop(cache.invalidate(&keys).await),
        }
        Ok(version)
    }

    /// Works the outbox off; for ever, as there may be none.
    pub(crate) async fn relay(&self) {
        match &self.outbox {
            Some((_, relay)) => relay.run(std::future::pending()).await,
            None => std::future::pending().await,
        }
    }

    /// Values that are older than the database's, in any of the processes, after the last write. Each is
    /// looked at twice, since a push may still be on its way.
    pub(crate) async fn stale_at_rest(&self) -> Result<usize, BoxError> {
        if let Some((_, relay)) = &self.outbox {
            relay.once().await?;
        }
        let versions = self.shop.versions().await?;
        let all = (0..self.processes()).flat_map(|at| versions.iter().map(move |row| (at, *row)));
        let mut stale: Vec<(usize, (i64, i64))> = all.collect();
        for look in 0..2 {
            if look > 0 && !stale.is_empty() {
                tokio::time::sleep(LATER).await;
            }
            let mut still = Vec::new();
            for page in stale.chunks(PAGE) {
                let read = page.iter().map(|&(at, (id, version))| async move {
                    let product = self.read(at, &id.to_string()).await?;
                    Ok(product.is_none_or(|product| product.version < version))
                });
                let read: Result<Vec<bool>, BoxError> = join_all(read).await.into_iter().collect();
                still.extend(page.iter().zip(read?).filter(|(_, old)| *old).map(|(row, _)| *row));
            }
            stale = still;
        }
        Ok(stale.len())
    }

    /// All that was counted so far.
    pub(crate) fn counts(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut counts = Counts {
            reads: of(&self.reads),
            loads: self.shop.queries(),
            stale: of(&self.stale),
            errors: of(&self.errors),
            ..Counts::default()
        };
        for process in &self.processes {
            match process {
                Way::Plain(plain) => {
                    counts.redis += of(&plain.hits);
                    counts.redis_errors += of(&plain.errors);
                }
                Way::Cache(cache) => {
                    let stats = cache.stats();
                    counts.local += stats.local_hits;
                    counts.redis += stats.remote_hits;
                    counts.turned_away += stats.malformed + stats.filtered;
                    counts.refused_fills += stats.refused_fills;
                    counts.stood_in += stats.stale;
                    counts.bypasses += stats.bypasses;
                    counts.redis_errors += stats.remote_errors;
                }
            }
        }
        counts
    }
}

fn way(settings: &Settings, shop: &Arc<Shop>, redis: &str) -> Result<Way, BoxError> {
    let ttl = Duration::from_secs_f64(settings.ttl.clamp(0.01, 86_400.0));
    if settings.plain {
        return Ok(Way::Plain(Plain::open(redis, ttl)?));
    }
    let without = |defence| !settings.has(defence);
    let mut builder = Cache::builder("products").ttl(ttl).null_ttl(ttl);
    if without(Defence::Local) {
        builder = builder.local_size(0);
    }
    if without(Defence::Jitter) {
        builder = builder.jitter(0.0);
    }
    if without(Defence::Early) {
        builder = builder.early(0.0);
    }
    if without(Defence::Stale) {
        builder = builder.stale_for(Duration::ZERO);
    }
    if without(Defence::Null) {
        builder = builder.null_ttl(HARDLY);
    }
    if without(Defence::Bulkhead) {
        builder = builder.max_loads(UNBOUNDED);
    }
    if settings.has(Defence::Form) {
        builder = builder.only_keys(|key| key.parse::<u32>().is_ok());
    }
    if settings.has(Defence::Filter) {
        let (shop, items) = (Arc::clone(shop), 2 * settings.products.max(1_000));
        builder = builder.filter(Filter::per_process(items, 0.001, move |filter| {
            let shop = Arc::clone(&shop);
            async move {
                for (id, _) in shop.versions().await? {
                    filter.add(id.to_string());
                }
                Ok::<_, BoxError>(())
            }
        })?);
    }
    Ok(Way::Cache(builder.open(redis)?))
}
