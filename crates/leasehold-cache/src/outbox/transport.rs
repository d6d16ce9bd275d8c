//! What the relay has to pass on, and to whom.

use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::Result;
use crate::builder::word;
use crate::cache::check_key;

/// The longest hold: that of a cache's `replica_lag`.
const HOLD: Duration = Duration::from_secs(86_400);

/// One value that has changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// The cache: its prefix and its name with a colon between them.
    pub cache: String,
    /// The key's text.
    pub key: String,
    /// So long nobody fills it: how far the replicas that loaders read are behind.
    pub hold: Duration,
    /// A name for a broker that drops what it has already: the same when the same rows of the outbox
    /// are delivered again, and another as soon as one more has joined them. 0 where there is none.
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
        let checked = word("prefix", prefix).and(word("name", name)).and(check_key(&self.key));
        checked.err().map(|error| error.to_string())
    }
}

/// A change that was not taken, while others may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its place among those that were given.
    pub at: usize,
    /// Why; shown to people.
    pub reason: String,
}

/// Where the relay delivers to: [`RedisTransport`](super::RedisTransport), or a broker whose readers
/// apply the changes with one.
pub trait Transport: Send + Sync + 'static {
    /// Delivers all of these, in any order. Once it has returned, what is not among the refused has
    /// arrived for good: the relay forgets it. Must end by itself, within a few seconds.
    ///
    /// # Errors
    /// Any, when the other side cannot be reached or takes nothing now: all of them are given again
    /// later, those that did arrive too.
    fn deliver<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<Vec<Refused>>>;
}
