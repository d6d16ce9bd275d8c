//! The changes that a relay delivers, and where it delivers them.

use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold_cache_redis::{check_key, check_name};

use crate::Result;

/// The longest hold: that of a cache's `replica_lag`.
const HOLD: Duration = Duration::from_secs(86_400);

/// A value that has changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Change {
    /// The cache: its prefix and its name, with a colon between them.
    pub cache: String,
    /// The text of the key.
    pub key: String,
    /// How long no process fills the key: the lag of the replicas that loaders read.
    pub hold: Duration,
    /// An id for a broker that drops messages with a known id. It is the same if the same rows of
    /// the outbox are delivered again, and another if a row has joined them. 0 if there is none.
    pub id: u128,
}

impl Change {
    /// Why this is none that a cache has written.
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

/// A change that was refused, while other changes may be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The index of the change among those that were given.
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
    /// Delivers all of these changes, in any order. After it returns, the relay forgets every
    /// change that is not among the refused: it must have arrived durably. The call must end by
    /// itself, within a few seconds.
    ///
    /// # Errors
    /// Any error, if the other side cannot be reached or accepts no change now: all changes are
    /// given again later, also those that did arrive.
    fn deliver<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<Vec<Refused>>>;
}
