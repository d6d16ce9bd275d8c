//! The errors of the cache and of the related crates. For a reader of a cache, an outage of Redis
//! is not an error.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// Classifies an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting, key or value is not allowed. Nothing was sent.
    Invalid,
    /// The loader failed, and there was no stale value to return. The error of the loader is the
    /// source.
    Load,
    /// Too many loads are running (see `max_loads` of the cache), and none ended within the hard
    /// time limit.
    Overloaded,
    /// The value did not arrive within the hard time limit. The load continues in the background,
    /// and fills the cache if it can. From `write_in_tx`: the transaction took longer than
    /// `write_hold`, and was rolled back.
    Timeout,
    /// Redis cannot be reached, or refuses the call. From a write: the old value may still be
    /// cached.
    Unavailable,
    /// The database of an outbox failed or refused; its error is the source. In a transaction: no
    /// part of it was committed; roll it back.
    Database,
    /// The lease of a run ended, and another process has begun the run. The result of that process
    /// is valid.
    Lost,
    /// The value under the key does not belong to this crate, or has another version or other
    /// settings. It was not changed.
    Foreign,
}

/// An error, with its [`ErrorKind`].
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    message: Arc<str>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// A `Result` with the [`Error`] of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a loader, or of any other code of the program.
pub type BoxError = Box<dyn StdError + Send + Sync>;

impl Error {
    /// Creates an error without a source.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into().into(), source: None }
    }

    /// Creates an [`ErrorKind::Invalid`]: a setting, key or value is not allowed.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Adds the error that caused this error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Arc<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Creates the error of a Redis call; `url` has no password.
    pub(crate) fn redis(url: &str, error: redis::RedisError) -> Self {
        let (_, meaning) = leasehold_redis::meaning(&error);
        let mut message = format!("Redis at {url}: {meaning} ({error})");
        if error.code() == Some("MOVED") {
            message += " (this is a node of a Redis Cluster, which is not supported here; use a \
                        single server, or its sentinels)";
        }
        Self { source: Some(Arc::new(error)), ..Self::new(ErrorKind::Unavailable, message) }
    }

    /// Returns the kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
