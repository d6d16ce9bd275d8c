//! The settings of a relay and their limits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold::rows::Engine;
use leasehold_core::clock::Clock;
use sqlx::Pool;

use super::Relay;
use crate::Result;
use crate::limits::{BatchSettings, in_range};
use crate::redis_transport::RedisTransport;
use crate::rows::{Rows, Table};
use crate::table::Outbox;
use crate::transport::Transport;

const MS: Duration = Duration::from_millis(1);

/// Configures a [`Relay`].
#[derive(Clone)]
pub struct RelayBuilder {
    rows: Arc<dyn Rows>,
    settings: Settings,
}

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) batches: BatchSettings,
    pub(super) poll: Duration,
}

impl RelayBuilder {
    pub(super) fn new<E: Engine>(outbox: &Outbox, pool: &Pool<E>) -> Self {
        let rows = Arc::new(Table { outbox: outbox.clone(), pool: pool.clone() });
        let settings = Settings { batches: BatchSettings::default(), poll: 200 * MS };
        Self { rows, settings }
    }

    /// Sets how many rows a batch has, 1 to 1,000. Default 256.
    #[must_use]
    pub fn batch(mut self, batch: usize) -> Self {
        self.settings.batches.batch = batch;
        self
    }

    /// Sets how often the relay checks an empty table for new rows, 10 ms to a minute. Default 200
    /// ms. On PostgreSQL a commit also wakes it.
    #[must_use]
    pub fn poll(mut self, poll: Duration) -> Self {
        self.settings.poll = poll;
        self
    }

    /// Sets how long no other relay gets the rows of a batch. If a relay dies during a batch,
    /// another relay gets its rows after this time. 1 s to an hour, default 30 seconds.
    #[must_use]
    pub fn claim(mut self, claim: Duration) -> Self {
        self.settings.batches.claim = claim;
        self
    }

    /// Sets how often a row is refused before it is parked, 1 to 1,000. Default 10, with pauses of
    /// 1, 2, 4, ... seconds, 8 minutes in all. While a server is down, its outage does not count as
    /// a try.
    #[must_use]
    pub fn tries(mut self, tries: u32) -> Self {
        self.settings.batches.tries = tries;
        self
    }

    /// Opens a relay to the Redis server of `url`; see `Builder::open` of a cache for its form.
    /// With the feature `nats`, also to the stream of a `nats://` URL; see `NatsTransport::open`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a setting or URL that is not allowed, or
    /// outside a tokio runtime.
    pub fn open(self, url: &str) -> Result<Relay> {
        self.settings.check()?;
        #[cfg(feature = "nats")]
        if crate::nats::is_nats(url) {
            let transport = crate::nats::NatsTransport::open(url)?;
            return self.to(transport);
        }
        let transport = RedisTransport::open(url)?;
        self.to(transport)
    }

    /// Creates a relay that delivers to another transport.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a setting that is not allowed.
    pub fn to(self, transport: impl Transport) -> Result<Relay> {
        self.settings.check()?;
        Ok(Relay::new(self.rows, Arc::new(transport), self.settings, Clock::system()))
    }
}

impl Settings {
    fn check(&self) -> Result<()> {
        self.batches.check()?;
        in_range("poll", self.poll, 10 * MS..=60_000 * MS)
    }
}

impl fmt::Debug for RelayBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}
