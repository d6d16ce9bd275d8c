//! Who uses Redis: what warnings, errors and metrics name.

use redis::RedisError;
use tracing::field::display;

use crate::Error;
use crate::server::Server;

/// What kind it is; each has a label of its own in metrics, and a field in warnings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Cache,
    Filter,
    Bitmap,
    SaveOnce,
    RunOnce,
    #[cfg(all(
        feature = "outbox",
        any(feature = "mysql", feature = "postgres", feature = "sqlite")
    ))]
    Relay,
}

impl Kind {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Filter => "filter",
            Self::Bitmap => "bitmap",
            Self::SaveOnce => "save_once",
            Self::RunOnce => "run_once",
            #[cfg(all(
                feature = "outbox",
                any(feature = "mysql", feature = "postgres", feature = "sqlite")
            ))]
            Self::Relay => "relay",
        }
    }

    /// What happens while Redis cannot be used.
    pub(crate) fn meanwhile(self) -> &'static str {
        match self {
            Self::Cache => "values are loaded past it",
            Self::Filter => "the filter answers Unavailable, and nothing can be added",
            Self::SaveOnce => "rows are saved without its marks",
            Self::RunOnce => "no run begins",
            _ => "calls fail",
        }
    }
}

#[derive(Debug)]
pub(crate) struct User {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// Of the server, without its password.
    url: String,
}

impl User {
    pub(crate) fn new(kind: Kind, name: impl Into<String>, server: &Server) -> Self {
        Self { kind, name: name.into(), url: server.url().to_owned() }
    }

    /// The server's URL without its password.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The error of a call, with the server's URL.
    pub(crate) fn error(&self, error: RedisError) -> Error {
        Error::redis(&self.url, error)
    }

    pub(crate) fn warn(&self, text: &str) {
        self.warn_of(None, text);
    }

    pub(crate) fn warn_of(&self, error: Option<&RedisError>, text: &str) {
        let error = error.map(|error| display(self.error(error.clone())));
        let name = |label| (self.kind.label() == label).then_some(self.name.as_str());
        tracing::warn!(
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
