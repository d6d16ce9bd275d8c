//! What can go wrong with a cache: little, since Redis being down is not an error for a reader.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting, key or value is not allowed. Nothing was sent.
    Invalid,
    /// The loader failed, and there was no stale value to give; its error is the source.
    Load,
    /// Too many loads are under way (see [`Builder::max_loads`](crate::Builder::max_loads)), and none
    /// ended within the hard time limit.
    Overloaded,
    /// The value was not there within the hard time limit; the load goes on, and fills when it can.
    Timeout,
    /// Redis cannot be reached or refuses. Of a write: what had to be invalidated may still be there.
    Unavailable,
    /// The database of an outbox failed or refused; what it says is the source. In a transaction:
    /// nothing of it was committed, roll it back.
    #[cfg(feature = "outbox")]
    Database,
    /// The lease of a run ended, and somebody else has begun it; what he does stands.
    Lost,
    /// What lies under the key is not ours, of another version, or made with other settings. It was
    /// left as it is.
    Foreign,
}

/// Why a call failed; see [`ErrorKind`].
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    message: Arc<str>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a loader fails with.
pub type BoxError = Box<dyn StdError + Send + Sync>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into().into(), source: None }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    pub(crate) fn load(error: BoxError) -> Self {
        let message = format!("the value could not be loaded: {error}");
        Self { source: Some(error.into()), ..Self::new(ErrorKind::Load, message) }
    }

    pub(crate) fn redis(error: redis::RedisError) -> Self {
        let mut message = format!("Redis: {error}");
        if error.code() == Some("MOVED") {
            message += " (a node of a Cluster, which caches and what stands beside them do not use; \
                        name a server of its own, or its sentinels)";
        }
        Self { source: Some(Arc::new(error)), ..Self::new(ErrorKind::Unavailable, message) }
    }

    #[cfg(feature = "outbox")]
    pub(crate) fn database(error: leasehold::Error) -> Self {
        let kind = match error.kind() {
            leasehold::ErrorKind::Invalid if error.source().is_none() => ErrorKind::Invalid,
            _ => ErrorKind::Database,
        };
        let message = format!("outbox: {}", error.message());
        Self { source: Some(Arc::new(error)), ..Self::new(kind, message) }
    }

    pub(crate) fn store(kind: ErrorKind, key: &str, error: BoxError) -> Self {
        let message = format!("rows were not saved, {key:?} the first of them: {error}");
        Self { source: Some(error.into()), ..Self::new(kind, message) }
    }

    /// What went wrong.
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
