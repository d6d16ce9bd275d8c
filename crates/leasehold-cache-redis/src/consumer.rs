//! The user of a Redis connection, and its name in warnings, errors and metrics.

use redis::RedisError;
use tracing::field::display;

use crate::Error;
use crate::server::Server;

/// The target of all log lines, of this crate and of the crates that use it.
pub const LOG_TARGET: &str = "leasehold_cache";

/// The kind of a [`Consumer`]. Each kind has its own label in metrics, and its own field in log
/// lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConsumerKind {
    /// A cache.
    Cache,
    /// A Bloom filter in Redis.
    Filter,
    /// A bitmap in Redis.
    Bitmap,
    /// Rows that are saved once.
    SaveOnce,
    /// Work that runs once.
    RunOnce,
    /// A relay of invalidations.
    Relay,
}

impl ConsumerKind {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Filter => "filter",
            Self::Bitmap => "bitmap",
            Self::SaveOnce => "save_once",
            Self::RunOnce => "run_once",
            Self::Relay => "relay",
        }
    }

    /// Returns what happens while Redis cannot be used.
    pub(crate) fn meanwhile(self) -> &'static str {
        match self {
            Self::Cache => "values are loaded without the cache",
            Self::Filter => "the filter answers Unavailable, and nothing can be added",
            Self::SaveOnce => "rows are saved without its marks",
            Self::RunOnce => "no run begins",
            _ => "calls fail",
        }
    }
}

/// The user of a Redis server, such as a cache or a filter.
#[derive(Debug)]
pub struct Consumer {
    pub(crate) kind: ConsumerKind,
    pub(crate) name: String,
    /// The URL of the server, without its password.
    url: String,
}

impl Consumer {
    /// Creates a consumer of this kind and name.
    pub fn new(kind: ConsumerKind, name: impl Into<String>, server: &Server) -> Self {
        Self { kind, name: name.into(), url: server.url().to_owned() }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the server's URL without its password.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the error of a call, with the server's URL.
    pub fn error(&self, error: RedisError) -> Error {
        Error::redis(&self.url, error)
    }

    /// Logs a warning with the name and the server's URL.
    pub fn warn(&self, text: &str) {
        self.warn_of(None, text);
    }

    /// Logs a warning with the name, the server's URL and an error.
    pub fn warn_of(&self, error: Option<&RedisError>, text: &str) {
        let error = error.map(|error| display(self.error(error.clone())));
        let name = |label| (self.kind.label() == label).then_some(self.name.as_str());
        tracing::warn!(
            target: LOG_TARGET,
            cache = name("cache"),
            filter = name("filter"),
            bitmap = name("bitmap"),
            save_once = name("save_once"),
            run_once = name("run_once"),
            relay = name("relay"),
            url = self.url,
            error,
            "{text}"
        );
    }
}
