//! The master that sentinels name, for programs that store other data than locks on it.

use std::fmt;
use std::sync::Arc;

use leasehold_core::{Error, Result, StoreUrl};
use redis::Client;

use crate::source::{Sentinels, sentinels};

/// The master that sentinels watch. Clones share the same sentinels and their answers.
#[derive(Clone)]
pub struct SentinelMaster(Arc<Sentinels>);

impl SentinelMaster {
    /// Parses `redis+sentinel://[user[:password]@]host[:port],.../NAME` and `rediss+sentinel://`,
    /// with the options of [`connect`](crate::connect()) that do not concern locks. It sends
    /// nothing yet.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](leasehold_core::ErrorKind::Invalid) for any other URL, a missing name,
    /// an unknown option, or a file that cannot be read.
    pub fn parse(url: &str) -> Result<Self> {
        let mut url = StoreUrl::parse(url)?;
        if !matches!(url.scheme(), "redis+sentinel" | "rediss+sentinel") {
            return Err(StoreUrl::invalid(
                "not a URL of sentinels; write redis+sentinel://one,two,three/NAME",
            ));
        }
        if url.take("prefix").is_some() {
            return Err(StoreUrl::invalid("the option prefix is for locks only; remove it"));
        }
        Ok(Self(Arc::new(sentinels(url)?)))
    }

    /// Asks all sentinels, for at most 1 s each, and listens to them from then on. Returns a client
    /// that is not connected and uses RESP3.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](leasehold_core::ErrorKind::Unavailable) if no sentinel answers,
    /// or if they do not agree: call it again. Other kinds for errors that an operator must fix,
    /// such as a name that the sentinels do not know.
    pub async fn client(&self) -> Result<Client, Error> {
        self.0.master().await
    }

    /// Waits until a sentinel reports another master than the last [`client`](Self::client). A
    /// master that failed is not reported again.
    pub async fn moved(&self) {
        self.0.moved().await;
    }
}

impl fmt::Debug for SentinelMaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
