//! The changes that a relay delivers, and the transports that deliver them.

use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold_cache_redis::{check_key, check_name};

use crate::Result;

/// The longest hold: the longest `replica_lag` of a cache.
const HOLD: Duration = Duration::from_secs(86_400);

/// A value that has changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Change {
    /// The cache: its prefix and its name, with a colon between them.
    pub cache: String,
    /// The text of the key.
    pub key: String,
    /// How long no process may fill the key: the lag of the replicas that loaders read.
    pub hold: Duration,
    /// An id for brokers that drop messages with a known id. It is the same if the same rows of the
    /// outbox are delivered again, and different if another row was merged in. 0 if there is none.
    pub id: u128,
}

impl Change {
    /// Returns why this is not a change that a cache has written.
    pub(crate) fn problem(&self) -> Option<String> {
        let Some((prefix, name)) = self.cache.split_once(':') else {
            return Some(format!("cache is {:?}; prefix:name is allowed", self.cache));
        };
        if self.hold > HOLD {
            return Some(format!("hold is {:?}; up to {HOLD:?} is allowed", self.hold));
        }
        let checked =
            check_name("prefix", prefix).and(check_name("name", name)).and(check_key(&self.key));
        checked.err().map(|error| error.to_string())
    }
}

impl Change {
    /// Creates a change without an id.
    pub fn new(cache: impl Into<String>, key: impl Into<String>, hold: Duration) -> Self {
        Self { cache: cache.into(), key: key.into(), hold, id: 0 }
    }
}

/// A change that the transport refused, while it may accept others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The index of the change among the given changes.
    pub at: usize,
    /// The reason, for people to read.
    pub reason: String,
}

impl Refused {
    /// Creates a refusal of the change at index `at`.
    pub fn new(at: usize, reason: impl Into<String>) -> Self {
        Self { at, reason: reason.into() }
    }
}

/// Delivers the changes of a relay: [`RedisTransport`](crate::RedisTransport), or a broker whose
/// readers apply the changes with one.
pub trait Transport: Send + Sync + 'static {
    /// Delivers all of these changes, in any order. When it returns, every change that is not among
    /// the refused must have arrived durably: the relay deletes it. The call must end by itself
    /// within a few seconds.
    ///
    /// # Errors
    /// Any error, if the other side cannot be reached or accepts no change now: the relay delivers
    /// all changes again later, including those that did arrive.
    fn deliver<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<Vec<Refused>>>;
}
