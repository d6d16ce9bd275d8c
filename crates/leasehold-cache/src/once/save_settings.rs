//! Settings of saving, checked before anything is done with them.

use std::time::Duration;

use leasehold_core::clock::Clock;

use super::marks::Marks;
use super::save::{SaveOnce, Shared, Store};
use super::save_stats::Counters;
use crate::builder::word;
use crate::link::Link;
use crate::{Error, Result};

/// Settings of a [`SaveOnce`].
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
    /// Settings for rows of this name (as a cache's).
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

    /// What keys in Redis begin with; letters, digits, `_`, `.`, `-`. Default `leasehold-saved`.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.to_owned();
        self
    }

    /// Batches under way at a time, each with its own share of the keys: as many connections of the
    /// database are used. 1 to 64, default 2.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Rows in one statement at most, within 1 MiB ([`Store::size`]); 1 to 10,000, default 2,000.
    pub fn batch(mut self, batch: usize) -> Self {
        self.batch = batch;
        self
    }

    /// Keys that are remembered in the process; zero for none. Default 1,000,000.
    ///
    /// They are remembered until it ends: where the database has lost what it had acknowledged, restart
    /// the process after the marks are deleted.
    pub fn local_size(mut self, local_size: usize) -> Self {
        self.local_size = local_size;
        self
    }

    /// How long a mark in Redis says that a key is saved: as long as rows are usual to come again. Up to
    /// 30 days, zero for no marks. Default a day.
    ///
    /// A mark is as good as the commit before it: where a failover of the database can lose what it has
    /// acknowledged, its rows are lost while marks say they are there; delete the marks then, and restart
    /// the processes, which remember them ([`local_size`](Self::local_size)).
    pub fn mark_ttl(mut self, mark_ttl: Duration) -> Self {
        self.mark_ttl = mark_ttl;
        self
    }

    /// How long Redis may take to answer. Default 500 ms.
    pub fn redis_limit(mut self, redis_limit: Duration) -> Self {
        self.redis_limit = redis_limit;
        self
    }

    /// Opens it on the Redis server of `url`, which need not be up.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a setting or URL that is not allowed, or outside a tokio runtime.
    pub fn open<S: Store>(self, url: &str, store: S) -> Result<SaveOnce<S>> {
        word("name", &self.name)?;
        word("prefix", &self.prefix)?;
        for (field, value, least, most) in
            [("workers", self.workers, 1, 64), ("batch", self.batch, 1, 10_000)]
        {
            if value < least || value > most {
                let what = format!("{field} is {value}; allowed is {least} to {most}");
                return Err(Error::invalid(what));
            }
        }
        let (day, mark_ttl) = (Duration::from_secs(86_400), self.mark_ttl);
        if mark_ttl > 30 * day {
            return Err(Error::invalid(format!(
                "mark_ttl is {mark_ttl:?}; allowed is up to 30 days"
            )));
        }
        let link = Link::new(url, self.redis_limit, Clock::system())?;
        let marks = Marks::new(link, format!("{}:{}", self.prefix, self.name), mark_ttl);
        let local = quick_cache::sync::Cache::new(self.local_size);
        let shared = Shared { local, marks, batch: self.batch, counters: Counters::default() };
        Ok(SaveOnce::new(shared, store, self.workers))
    }
}
