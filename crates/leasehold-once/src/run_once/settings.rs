//! The settings of [`RunOnce`] and their limits.

use std::time::Duration;

use leasehold_cache_redis::{ConsumerKind, Link, check_name};
use leasehold_core::clock::Clock;

use super::RunOnce;
use crate::{Codec, Error, Result};

/// Configures a [`RunOnce`].
#[derive(Clone, Debug)]
pub struct RunOnceBuilder {
    pub(super) name: String,
    pub(super) prefix: String,
    pub(super) lease: Duration,
    pub(super) keep: Duration,
    redis_limit: Duration,
    pub(super) codec: Codec,
}

impl RunOnceBuilder {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            prefix: "leasehold-once".to_owned(),
            lease: Duration::from_secs(30),
            keep: Duration::from_secs(86_400),
            redis_limit: Duration::from_millis(500),
            codec: Codec::default(),
        }
    }

    /// Sets the prefix of the keys; letters, digits, `_`, `.`, `-`. Default `leasehold-once`.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.to_owned();
        self
    }

    /// Sets how long the work may continue without [`Run::renew`](crate::Run::renew) before another
    /// run may begin it. The call that ends a run is repeated for as long if Redis does not answer.
    /// 10 ms to a day, default 30 seconds.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how long a result, and the record of a dead holder after its lease, is kept. Choose a
    /// longer time than clients repeat a request. A second to 365 days, default a day.
    #[must_use]
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// Sets how long Redis may take to answer. Default 500 ms.
    #[must_use]
    pub fn redis_limit(mut self, redis_limit: Duration) -> Self {
        self.redis_limit = redis_limit;
        self
    }

    /// Sets how results are encoded. Default [`Codec::Postcard`].
    #[must_use]
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// Opens the runs on the Redis server of `url`, without connecting to it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a setting or URL that is not allowed, or outside a tokio runtime.
    pub fn open(self, url: &str) -> Result<RunOnce> {
        check_name("name", &self.name)?;
        check_name("prefix", &self.prefix)?;
        let (ms, day) = (Duration::from_millis(1), Duration::from_secs(86_400));
        for (field, value, least, most) in [
            ("lease", self.lease, 10 * ms, day),
            ("keep", self.keep, 1_000 * ms, 365 * day),
            ("redis_limit", self.redis_limit, ms, day),
        ] {
            if value < least || value > most {
                let what = format!("{field} is {value:?}; {least:?} to {most:?} is allowed");
                return Err(Error::invalid(what));
            }
        }
        let clock = Clock::system();
        let stem = format!("{}:{}", self.prefix, self.name);
        let link = Link::open(url, self.redis_limit, clock.clone(), ConsumerKind::RunOnce, &stem)?;
        Ok(RunOnce::new(link, self, clock))
    }
}
