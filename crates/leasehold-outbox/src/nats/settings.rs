//! Checks the settings of a receiver before they are used.

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

impl ReceiverBuilder {
    pub(super) fn new(url: &str) -> Result<Self> {
        let settings = BatchSettings::default();
        Ok(Self { connection: NatsConnection::open(url)?, settings })
    }

    /// Sets how many messages are taken at a time, 1 to 1,000. Default 256.
    #[must_use]
    pub fn batch(mut self, batch: usize) -> Self {
        self.settings.batch = batch;
        self
    }

    /// Sets for how long no other receiver gets the messages of a batch: if a receiver dies during
    /// a batch, another receiver waits for this time. 1 s to an hour, default 30 seconds. It is the
    /// `ack_wait` of the durable consumer, which the first receiver creates; an existing consumer
    /// keeps its own.
    #[must_use]
    pub fn claim(mut self, claim: Duration) -> Self {
        self.settings.claim = claim;
        self
    }

    /// Sets how often a refused message may be delivered before it is given up, 1 to 1,000. Default
    /// 10: after a second, two, four, and so on, 8 minutes in all. A server that is down refuses no
    /// message.
    #[must_use]
    pub fn tries(mut self, tries: u32) -> Self {
        self.settings.tries = tries;
        self
    }

    /// Opens a receiver that applies changes to the Redis server of `url`, as
    /// `Builder::open` of a cache takes it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a setting or URL that is not allowed.
    pub fn open(self, url: &str) -> Result<Receiver> {
        self.settings.check()?;
        let transport = RedisTransport::open(url)?;
        self.to(transport)
    }

    /// Creates a receiver that hands the changes to another transport.
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
