//! The settings of a receiver and their limits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::Clock;

use super::connection::NatsConnection;
use super::pull::Pull;
use super::receiver::Receiver;
use crate::Result;
use crate::limits::BatchSettings;
use crate::redis_transport::RedisTransport;
use crate::transport::Transport;

/// Configures a [`Receiver`].
pub struct ReceiverBuilder {
    connection: NatsConnection,
    settings: BatchSettings,
}

impl Receiver {
    /// Returns the settings for a receiver of the stream of `url`; see
    /// [`NatsTransport`](super::NatsTransport) for its form.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a URL that cannot be parsed, or
    /// outside a tokio runtime.
    pub fn builder(url: &str) -> Result<ReceiverBuilder> {
        ReceiverBuilder::new(url)
    }
}

impl ReceiverBuilder {
    fn new(url: &str) -> Result<Self> {
        let settings = BatchSettings::default();
        Ok(Self { connection: NatsConnection::open(url)?, settings })
    }

    /// Sets how many messages a batch has, 1 to 1,000. Default 256.
    #[must_use]
    pub fn batch(mut self, batch: usize) -> Self {
        self.settings.batch = batch;
        self
    }

    /// Sets how long no other receiver gets the messages of a batch. If a receiver dies during a
    /// batch, another receiver gets its messages after this time. 1 s to an hour, default 30
    /// seconds. It is the `ack_wait` of the durable consumer, which the first receiver creates; an
    /// existing consumer keeps its own.
    #[must_use]
    pub fn claim(mut self, claim: Duration) -> Self {
        self.settings.claim = claim;
        self
    }

    /// Sets how often a refused message is delivered before it is dropped, 1 to 1,000. Default 10,
    /// with pauses of 1, 2, 4, ... seconds, 8 minutes in all. While a server is down, its outage
    /// does not count as a try.
    #[must_use]
    pub fn tries(mut self, tries: u32) -> Self {
        self.settings.tries = tries;
        self
    }

    /// Opens a receiver that applies changes to the Redis server of `url`; see `Builder::open` of a
    /// cache for its form.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a setting or URL that is not allowed.
    pub fn open(self, url: &str) -> Result<Receiver> {
        self.settings.check()?;
        let transport = RedisTransport::open(url)?;
        self.to(transport)
    }

    /// Creates a receiver that delivers the changes to another transport.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a setting that is not allowed.
    pub fn to(self, transport: impl Transport) -> Result<Receiver> {
        self.settings.check()?;
        let pull = Pull::new(self.connection);
        Ok(Receiver::new(pull, Arc::new(transport), self.settings, Clock::system()))
    }
}

impl fmt::Debug for ReceiverBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiverBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}
