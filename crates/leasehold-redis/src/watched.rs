//! The master that sentinels name, for who keeps something else than locks there.

use std::fmt;
use std::sync::Arc;

use leasehold_core::{Error, Result, StoreUrl};
use redis::Client;

use crate::topology::{Sentinels, sentinels};

/// The master that sentinels watch. Clones ask the same sentinels, and share what they have said.
#[derive(Clone)]
pub struct WatchedMaster(Arc<Sentinels>);

impl WatchedMaster {
    /// Understands `redis+sentinel://[user[:password]@]host[:port],.../NAME` and
    /// `rediss+sentinel://`, with the options of [`connect`](crate::connect()) that are not about
    /// locks. Asks nobody yet.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](leasehold_core::ErrorKind::Invalid) for any other URL, a missing name,
    /// an unknown option, or a file that cannot be read.
    pub fn parse(url: &str) -> Result<Self> {
        let mut url = StoreUrl::parse(url)?;
        if !matches!(url.scheme(), "redis+sentinel" | "rediss+sentinel") {
            return Err(StoreUrl::invalid(
                "sentinels are named by redis+sentinel://one,two,three/NAME",
            ));
        }
        if url.take("prefix").is_some() {
            return Err(StoreUrl::invalid(
                "prefix is an option for locks, which are not kept here",
            ));
        }
        Ok(Self(Arc::new(sentinels(url)?)))
    }

    /// Asks all sentinels at once, each for a second at most, and listens to them from then on. Not
    /// connected yet; speaks RESP3.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](leasehold_core::ErrorKind::Unavailable) when none answers, or they
    /// do not agree: ask again. Other kinds for what has to be put right, such as a name that they do
    /// not know.
    pub async fn client(&self) -> Result<Client, Error> {
        self.0.master().await
    }

    /// Waits until a sentinel says that another server than that of the last
    /// [`client`](Self::client) is the master; not again for one that was asked for in vain.
    pub async fn moved(&self) {
        self.0.moved().await;
    }
}

impl fmt::Debug for WatchedMaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
