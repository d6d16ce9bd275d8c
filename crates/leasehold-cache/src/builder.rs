//! Checks the settings of a cache before the cache opens.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::Clock;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cache::{Cache, Inner};
use crate::filter::{Filter, Gate};
use crate::server::Server;
use crate::{Codec, Error, Result};

/// Selects what a reader may see while a write is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Readers see the value before or after the write, from any replica. Values are also kept in
    /// the process.
    #[default]
    Eventual,
    /// A `get` that begins after `committed` has returned sees the write. While a write is under
    /// way, the loader must read the primary, no value is kept in the process, and a load is not
    /// shared with earlier callers.
    Strong,
}

/// Configures a [`Cache`].
///
/// The defaults suit a service with some hundred processes and loads that take milliseconds.
#[derive(Clone, Debug)]
pub struct Builder<K: ?Sized, V> {
    pub(crate) settings: Settings,
    clock: Clock,
    types: PhantomData<fn(&K) -> V>,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) prefix: String,
    pub(crate) ttl: Duration,
    pub(crate) jitter: f64,
    pub(crate) null_ttl: Duration,
    pub(crate) stale_for: Duration,
    pub(crate) soft_limit: Duration,
    pub(crate) hard_limit: Duration,
    pub(crate) lease: Duration,
    pub(crate) mode: Mode,
    pub(crate) replica_lag: Duration,
    pub(crate) write_hold: Duration,
    pub(crate) local_size: usize,
    pub(crate) local_ttl: Duration,
    pub(crate) down_ttl: Duration,
    pub(crate) max_loads: usize,
    pub(crate) early: f64,
    pub(crate) redis_limit: Duration,
    pub(crate) max_value: usize,
    pub(crate) codec: Codec,
    pub(crate) schema: u32,
    pub(crate) gate: Gate,
    #[cfg(feature = "compression")]
    pub(crate) compress_from: Option<usize>,
}

const MS: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(86_400);

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

impl<K: ?Sized, V> Builder<K, V> {
    pub(crate) fn new(name: &str) -> Self {
        let settings = Settings {
            name: name.to_owned(),
            prefix: "leasehold-cache".to_owned(),
            ttl: Duration::from_secs(300),
            jitter: 0.1,
            null_ttl: Duration::from_secs(30),
            stale_for: Duration::from_secs(60),
            soft_limit: 100 * MS,
            hard_limit: Duration::from_secs(5),
            lease: Duration::from_secs(3),
            mode: Mode::Eventual,
            replica_lag: Duration::ZERO,
            write_hold: Duration::from_secs(30),
            local_size: 10_000,
            local_ttl: Duration::from_secs(60),
            down_ttl: Duration::from_secs(1),
            max_loads: 64,
            early: 1.0,
            redis_limit: 500 * MS,
            max_value: 8 << 20,
            codec: Codec::default(),
            schema: 0,
            gate: Gate::default(),
            #[cfg(feature = "compression")]
            compress_from: None,
        };
        Self { settings, clock: Clock::system(), types: PhantomData }
    }

    knobs! {
        /// Sets how long an entry is fresh; 10 ms to 30 days. Default 5 minutes.
        ttl: Duration,
        /// Sets the share by which each ttl is shortened at random, so that entries that were
        /// filled together do not end together; 0 to 0.9. Default 0.1.
        jitter: f64,
        /// Sets how long the cache remembers that a value does not exist; 10 ms to 30 days. Default
        /// 30 seconds.
        null_ttl: Duration,
        /// How long after its ttl an entry may be served while it is loaded anew, or when that
        /// fails; and how long after the beginning of an outage of Redis a value of this process
        /// replaces a load that fails. Up to 30 days, zero for never. Default one minute.
        stale_for: Duration,
        /// Sets how long a reader waits for a fresh value if it has a stale value. Default 100 ms.
        soft_limit: Duration,
        /// Sets the longest time that a reader waits. It must be longer than `lease`, so that
        /// readers outlive a loader whose process dies. Default 5 seconds.
        hard_limit: Duration,
        /// Sets how long one load may keep others from loading; a longer load does not fill. If the
        /// process that loads dies, others wait for this time. 10 ms to a day and below
        /// `hard_limit`. Default 3 seconds.
        lease: Duration,
        /// Sets what a reader may see while a write is under way. Default [`Mode::Eventual`].
        mode: Mode,
        /// Sets how far the replicas that loaders read lag behind at most. No value is filled for
        /// this time after a write. Up to a day. Default zero (loaders read the primary).
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
        /// Sets how many loads may be under way in this process; at least 1. Default 64.
        max_loads: usize,
        /// Sets how eagerly entries are loaded again before they end: the beta of XFetch, 0 (never)
        /// to 100. Default 1.
        early: f64,
        /// Sets how long Redis may take to answer. Default 500 ms.
        redis_limit: Duration,
        /// Sets the longest encoded value in bytes; longer values are not cached. Default 8 MiB.
        max_value: usize,
        /// Sets how values are encoded. Default [`Codec::Postcard`].
        codec: Codec,
        /// Sets the number of the type of the values; raise it when the type changes. An entry with
        /// another number is never decoded: it is loaded again and overwritten. All numbers share
        /// holds and invalidations, so that old and new programs may run side by side. Default 0.
        schema: u32,
    }

    /// Restricts the form of keys: a `get` of a key for which `form` returns false returns `None`
    /// at once. Default: every form is allowed.
    #[must_use]
    pub fn only_keys(mut self, form: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.settings.gate.form = Some(Arc::new(form));
        self
    }

    /// Sets a filter that knows which keys have no value. A `get` of such a key returns `None`, and
    /// neither reads the entry in Redis nor calls the loader. Use a
    /// [`bloom::Redis`](crate::bloom::Redis), to which a key must be added before its row is
    /// committed, or [`Filter::per_process`]. Default: none.
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
    /// `url` names the server (`redis://[user:password@]host[:port][/db]`, `rediss://…`,
    /// `unix:/path`), or the sentinels that name its master
    /// (`redis+sentinel://[user[:password]@]host[:port],…/NAME`, `rediss+sentinel://…`). Redis may
    /// be down: until it is up, values are loaded.
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
        Ok(Cache::new(Inner::start(self.settings, server, self.clock)))
    }
}

impl Settings {
    fn check(&self) -> Result<()> {
        word("name", &self.name)?;
        word("prefix", &self.prefix)?;
        let spans = [
            ("ttl", self.ttl, 10 * MS, 30 * DAY),
            ("null_ttl", self.null_ttl, 10 * MS, 30 * DAY),
            ("stale_for", self.stale_for, Duration::ZERO, 30 * DAY),
            ("soft_limit", self.soft_limit, Duration::ZERO, DAY),
            ("hard_limit", self.hard_limit, MS, DAY),
            ("lease", self.lease, 10 * MS, DAY),
            ("replica_lag", self.replica_lag, Duration::ZERO, DAY),
            ("write_hold", self.write_hold, 10 * MS, DAY),
            ("local_ttl", self.local_ttl, Duration::ZERO, 30 * DAY),
            ("down_ttl", self.down_ttl, Duration::ZERO, DAY),
            ("redis_limit", self.redis_limit, MS, DAY),
        ];
        for (name, value, least, most) in spans {
            if value < least || value > most {
                let what = format!("{name} is {value:?}; allowed is {least:?} to {most:?}");
                return Err(Error::invalid(what));
            }
        }
        if self.hard_limit <= self.lease {
            let (limit, lease) = (self.hard_limit, self.lease);
            return Err(Error::invalid(format!(
                "hard_limit is {limit:?} and lease is {lease:?}: when a process dies while it loads, \
                 its readers time out before another may load; set hard_limit above lease, by what a \
                 load takes"
            )));
        }
        if self.mode == Mode::Strong && self.gate.per_process().is_some() {
            return Err(Error::invalid(
                "filter is Filter::per_process and mode is Strong: other processes learn of a new key a \
                 moment after the write; use bloom::Redis, or Mode::Eventual",
            ));
        }
        for (name, value, most) in [("jitter", self.jitter, 0.9), ("early", self.early, 100.0)] {
            if !(0.0..=most).contains(&value) {
                return Err(Error::invalid(format!("{name} is {value}; allowed is 0 to {most}")));
            }
        }
        if self.max_loads == 0 || self.max_loads > tokio::sync::Semaphore::MAX_PERMITS {
            return Err(Error::invalid(format!("max_loads is {}; at least 1", self.max_loads)));
        }
        Ok(())
    }

    /// How long an entry that is filled now stays fresh; `dice` is uniform in 0 to 1.
    pub(crate) fn fresh(&self, null: bool, dice: f64) -> Duration {
        let ttl = if null { self.null_ttl } else { self.ttl };
        ttl.mul_f64(1.0 - self.jitter * dice).max(MS)
    }

    /// How long it may be served after that.
    pub(crate) fn stale(&self, null: bool) -> Duration {
        if null { Duration::ZERO } else { self.stale_for }
    }
}

/// A part of keys that must not end a hash tag, and that people can read.
pub(crate) fn word(field: &str, text: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if !text.is_empty() && text.len() <= 64 && text.chars().all(allowed) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{field} is {text:?}; allowed are 1 to 64 letters, digits, '_', '.' and '-'"
    )))
}
