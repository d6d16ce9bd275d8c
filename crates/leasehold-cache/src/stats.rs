//! What a cache has done, counted here and told to `metrics`.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the cache was opened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats { $($(#[$doc])* pub $name: u64,)* }

        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: Counter,)* }

        impl Counters {
            pub(crate) fn stats(&self) -> Stats {
                Stats { $($name: self.$name.0.load(Ordering::Relaxed),)* }
            }

            /// Tells the recorder of the crate `metrics` what was counted so far.
            pub(crate) fn tell(&self, cache: &str) {
                $(metrics::counter!(
                    concat!("leasehold_cache_", stringify!($name), "_total"),
                    "cache" => cache.to_owned()
                ).absolute(self.$name.0.load(Ordering::Relaxed));)*
            }
        }
    };
}

stats! {
    /// Answers from this process.
    local_hits,
    /// Answers from Redis.
    remote_hits,
    /// Neither had it.
    misses,
    /// Calls of a loader.
    loads,
    /// Loads that failed.
    failed_loads,
    /// Loaded values that Redis refused, since a write or another load came in between.
    refused_fills,
    /// Loads past the cache: a write was under way, the entry was not ours, or Redis was down.
    bypasses,
    /// Answers that were no longer fresh.
    stale,
    /// Calls of Redis that failed.
    remote_errors,
    /// Invalidations heard of from others.
    invalidations,
    /// Keys that can have no value by their form; nobody was asked.
    malformed,
    /// Keys that the filter does not know; neither Redis' entries nor a loader were asked.
    filtered,
    /// Keys that the filter could not be asked for; the cache was.
    filter_unavailable,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
