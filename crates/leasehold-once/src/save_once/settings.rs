//! The settings of [`SaveOnce`] and their limits.

use std::time::Duration;

use leasehold_cache_redis::{ConsumerKind, Link, check_name};
use leasehold_core::clock::Clock;

use super::marks::Marks;
use super::stats::Counters;
use super::{SaveOnce, Shared, Store};
use crate::{Error, Result};

/// Configures a [`SaveOnce`].
#[derive(Clone, Debug)]
pub struct SaveOnceBuilder {
    name: String,
    prefix: String,
    workers: usize,
    batch: usize,
    local_size: usize,
    mark_ttl: Duration,
    redis_limit: Duration,
}

impl SaveOnceBuilder {
    /// Creates the settings for rows of this name, which has the form of a cache name.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            prefix: "leasehold-saved".to_owned(),
            workers: 2,
            batch: 2_000,
            local_size: 1_000_000,
            mark_ttl: Duration::from_secs(86_400),
            redis_limit: Duration::from_millis(500),
        }
    }

    /// Sets the prefix of the keys in Redis; letters, digits, `_`, `.`, `-`. Default
    /// `leasehold-saved`.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.to_owned();
        self
    }

    /// Sets how many batches may run at the same time, each with its own share of the keys and its
    /// own database connection. 1 to 64, default 2.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Sets how many rows a statement may have, within 1 MiB ([`Store::size`]). 1 to 10,000,
    /// default 2,000.
    #[must_use]
    pub fn batch(mut self, batch: usize) -> Self {
        self.batch = batch;
        self
    }

    /// Sets how many keys the process remembers; zero for none. Default 1,000,000.
    ///
    /// The process remembers them until it ends. If the database has lost rows that it had
    /// acknowledged, delete the marks, then restart the process.
    #[must_use]
    pub fn local_size(mut self, local_size: usize) -> Self {
        self.local_size = local_size;
        self
    }

    /// Sets how long a mark in Redis states that a key is saved. Choose the time in which rows are
    /// usually repeated. Up to 30 days, zero for no marks. Default a day.
    ///
    /// A mark is as reliable as the commit before it. A failover of the database may lose rows that
    /// it had acknowledged, while marks still exist for them. In that case delete the marks, and
    /// restart the processes, which remember the keys ([`local_size`](Self::local_size)).
    #[must_use]
    pub fn mark_ttl(mut self, mark_ttl: Duration) -> Self {
        self.mark_ttl = mark_ttl;
        self
    }

    /// Sets how long Redis may take to answer. Default 500 ms.
    #[must_use]
    pub fn redis_limit(mut self, redis_limit: Duration) -> Self {
        self.redis_limit = redis_limit;
        self
    }

    /// Opens the row store `store` with marks on the Redis server of `url`. Redis may be down.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a setting or URL that is not allowed, or outside a tokio runtime.
    pub fn open<S: Store>(self, url: &str, store: S) -> Result<SaveOnce<S>> {
        check_name("name", &self.name)?;
        check_name("prefix", &self.prefix)?;
        for (field, value, least, most) in
            [("workers", self.workers, 1, 64), ("batch", self.batch, 1, 10_000)]
        {
            if value < least || value > most {
                let what = format!("{field} is {value}; {least} to {most} is allowed");
                return Err(Error::invalid(what));
            }
        }
        let (day, mark_ttl) = (Duration::from_secs(86_400), self.mark_ttl);
        if mark_ttl > 30 * day {
            return Err(Error::invalid(format!(
                "mark_ttl is {mark_ttl:?}; up to 30 days is allowed"
            )));
        }
        let stem = format!("{}:{}", self.prefix, self.name);
        let link =
            Link::open(url, self.redis_limit, Clock::system(), ConsumerKind::SaveOnce, &stem)?;
        let marks = Marks::new(link, stem, mark_ttl);
        let local = quick_cache::sync::Cache::new(self.local_size);
        let shared = Shared { local, marks, batch: self.batch, counters: Counters::default() };
        Ok(SaveOnce::new(shared, store, self.workers))
    }
}
