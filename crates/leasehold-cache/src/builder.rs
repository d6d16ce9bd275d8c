//! Configures and opens a cache.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use leasehold_cache_redis::Server;
use leasehold_core::clock::Clock;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cache::Cache;
#[cfg(feature = "filters")]
use crate::filter::Filter;
use crate::listener;
use crate::settings::{Mode, Settings};
use crate::{Codec, Result};

/// Configures a [`Cache`].
///
/// The defaults suit a service with some hundred processes and loads that take milliseconds.
#[derive(Clone, Debug)]
pub struct Builder<K: ?Sized, V> {
    pub(crate) settings: Settings,
    clock: Clock,
    types: PhantomData<fn(&K) -> V>,
}

macro_rules! knobs {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        $($(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $type) -> Self {
            self.settings.$name = $name;
            self
        })*
    };
}

impl<K: ?Sized, V> Cache<K, V> {
    /// Returns the settings for a cache of this name: 1 to 64 letters, digits, `_`, `.`, `-`.
    ///
    /// Caches with the same name and prefix share their values. Raise [`Builder::schema`] when the
    /// type of the values changes.
    pub fn builder(name: &str) -> Builder<K, V> {
        Builder::new(name)
    }
}

impl<K: ?Sized, V> Builder<K, V> {
    pub(crate) fn new(name: &str) -> Self {
        let settings = Settings::new(name);
        Self { settings, clock: Clock::system(), types: PhantomData }
    }

    knobs! {
        /// Sets how long an entry is fresh; 10 ms to 30 days. Default 5 minutes.
        ttl: Duration,
        /// Sets the share by which each ttl is shortened at random, so that entries that were
        /// filled together do not expire together; 0 to 0.9. Default 0.1.
        jitter: f64,
        /// Sets how long the cache remembers that a value does not exist; 10 ms to 30 days. Default
        /// 30 seconds.
        null_ttl: Duration,
        /// Sets how long after its ttl an entry may be served while it is reloaded, or if that
        /// fails. Also, after an outage of Redis begins, for how long a value in the memory of this
        /// process replaces a failed load. Up to 30 days, zero for never. Default one minute.
        stale_for: Duration,
        /// Sets how long a reader waits for a fresh value if it has a stale value. Default 100 ms.
        soft_limit: Duration,
        /// Sets the longest time that a reader waits. It must be longer than `lease`: if a process
        /// dies while it loads, its readers wait for the next load. Default 5 seconds.
        hard_limit: Duration,
        /// Sets how long one load may prevent other loads of its key; a longer load does not fill.
        /// If the loading process dies, the other processes wait for this time. 10 ms to a day, and
        /// below `hard_limit`. Default 3 seconds.
        lease: Duration,
        /// Sets what a reader may see during a write. Default [`Mode::Eventual`].
        mode: Mode,
        /// Sets the longest lag of the replicas that loaders read. For this time after a write, no
        /// value is filled. Up to a day. Default zero (loaders read the primary).
        replica_lag: Duration,
        /// Sets how long a write may take from `begin_write` to the commit. If the writer dies, no
        /// value is filled until this time has passed. 10 ms to a day. Default 30 seconds.
        write_hold: Duration,
        /// Sets how many entries the process keeps; zero for none. Default 10,000.
        local_size: usize,
        /// Sets how long the process keeps an entry at most. Default one minute.
        local_ttl: Duration,
        /// Sets two times for an outage of Redis: how long a value that this process has loaded is
        /// fresh, and how long a value from before the outage replaces a load that is slower than
        /// `soft_limit`. Up to a day. Default one second.
        down_ttl: Duration,
        /// Sets how many loads may run in this process at the same time; at least 1. Default 64.
        max_loads: usize,
        /// Sets how eagerly entries are reloaded before they expire: the beta of XFetch, 0 (never)
        /// to 100. Default 1.
        early: f64,
        /// Sets how long Redis may take to answer. Default 500 ms.
        redis_limit: Duration,
        /// Sets the longest encoded value in bytes; longer values are not cached. Default 8 MiB.
        max_value: usize,
        /// Sets how values are encoded. Default [`Codec::Postcard`].
        codec: Codec,
        /// Sets the number of the value type; raise it when the type changes. An entry with another
        /// number is never decoded: it is reloaded and overwritten. All numbers share holds and
        /// invalidations, so old and new programs may run side by side. Default 0.
        schema: u32,
    }

    /// Restricts the form of keys: a `get` of a key for which `form` returns false returns `None`
    /// at once. Default: every form is allowed.
    #[must_use]
    pub fn only_keys(mut self, form: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.settings.gate.form = Some(Arc::new(form));
        self
    }

    /// Sets a filter that knows which keys have no value. For such a key, `get` returns `None`, and
    /// neither reads Redis nor calls the loader. Use a [`bloom::Redis`](crate::bloom::Redis), to
    /// which a key must be added before its row is committed, or [`Filter::per_process`]. Default:
    /// none.
    ///
    /// Needs the feature `filters`.
    #[cfg(feature = "filters")]
    #[must_use]
    pub fn filter(mut self, filter: impl Into<Filter>) -> Self {
        self.settings.gate.filter = Some(filter.into());
        self
    }

    /// Sets the prefix of the keys in Redis; letters, digits, `_`, `.`, `-`. Default
    /// `leasehold-cache`.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.settings.prefix = prefix.to_owned();
        self
    }

    /// Compresses encoded values of this many bytes or more. Default: never. Needs the feature
    /// `compression`.
    #[cfg(feature = "compression")]
    #[must_use]
    pub fn compress_from(mut self, bytes: usize) -> Self {
        self.settings.compress_from = Some(bytes);
        self
    }

    /// Opens the cache on a Redis server, without connecting to it.
    ///
    /// `url` names the server (`redis://[user[:password]@]host[:port][/db]`, `rediss://…`,
    /// `redis+unix:/path`), or the sentinels of its master
    /// (`redis+sentinel://[user[:password]@]host[:port],…/NAME`, `rediss+sentinel://…`), with the
    /// options of the lock store: `?password-file=/run/secrets/redis` keeps the password out of the
    /// URL. Redis may be down: until it is up, values are loaded.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a setting or URL that is not allowed,
    /// or outside a tokio runtime.
    pub fn open(self, url: &str) -> Result<Cache<K, V>>
    where
        V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
    {
        self.settings.check()?;
        let server = Server::open(url, self.clock.clone())?;
        Ok(Cache::new(listener::start(self.settings, server, self.clock)))
    }
}
