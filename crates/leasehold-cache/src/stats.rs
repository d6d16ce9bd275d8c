//! Counts the events of a cache, also in the crate `metrics`.

use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_cache_redis::BREAKER_OPEN;

/// The gauge that is 1 while this process receives invalidations, else 0.
pub(crate) const HEARING: &str = "leasehold_cache_hearing";

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counts of a cache since it was opened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats { $($(#[$doc])* pub $name: u64,)* }

        impl Stats {
            /// The metrics of a cache, each with its kind. The crate `metrics` records them, with
            /// the label `cache`; install a recorder before you open the cache.
            pub const METRICS: &'static [(&'static str, &'static str)] = &[
                $((concat!("leasehold_cache_", stringify!($name), "_total"), "counter"),)*
                (BREAKER_OPEN, "gauge"),
                (HEARING, "gauge"),
            ];
        }

        pub(crate) struct Counters { $(pub(crate) $name: Counter,)* }

        impl Counters {
            pub(crate) fn stats(&self) -> Stats {
                Stats { $($name: self.$name.count.load(Ordering::Relaxed),)* }
            }

            /// Creates the counters of the cache of this name.
            pub(crate) fn new(cache: &str) -> Self {
                Self { $($name: Counter::new(
                    concat!("leasehold_cache_", stringify!($name), "_total"),
                    cache,
                ),)* }
            }
        }
    };
}

stats! {
    /// Values returned from this process.
    local_hits,
    /// Values returned from Redis.
    remote_hits,
    /// Reads for which neither this process nor Redis had a value.
    misses,
    /// Calls of a loader.
    loads,
    /// Failed loads.
    failed_loads,
    /// Loaded values that Redis refused, because another write or load came in between.
    refused_fills,
    /// Loads without the cache: a write was in progress, the entry did not belong to this cache, or
    /// Redis was down.
    bypasses,
    /// Entries of another schema, or that do not decode as values of this cache. Each was reloaded
    /// and overwritten.
    undecodable,
    /// Returned values that were no longer fresh.
    stale,
    /// Entries that were not used, because they date from before a restart or failover of Redis.
    doubtful,
    /// Holds of writes that Redis lost before the replicas caught up (`replica_lag`). Each value
    /// was invalidated again.
    lost_holds,
    /// Commands to Redis that failed.
    remote_errors,
    /// Invalidations received from other processes.
    invalidations,
    /// Keys that can have no value by their form; neither Redis nor the loader was asked.
    malformed,
    /// Keys that the filter excluded; neither Redis nor a loader was asked.
    filtered,
    /// Reads while the filter was not available; the cache was read.
    filter_unavailable,
}

/// A counter of this type and of the crate `metrics`.
pub(crate) struct Counter {
    count: AtomicU64,
    metric: metrics::Counter,
}

impl Counter {
    fn new(name: &'static str, cache: &str) -> Self {
        let metric = metrics::counter!(name, "cache" => cache.to_owned());
        // So that a reader of metrics sees it before the first event.
        metric.increment(0);
        Self { count: AtomicU64::new(0), metric }
    }

    pub(crate) fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.metric.increment(1);
    }
}
