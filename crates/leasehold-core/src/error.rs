//! The one error type: what kind, whether trying again can help, which operation on which lock.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::{Name, NotAToken};

/// What went wrong. The text of each kind says what state is left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A name, duration, URL or combination of options is not allowed. Nothing was sent.
    Invalid,
    /// This backend cannot do it (see its [`Capability`](crate::backend::Capability)).
    /// Nothing was changed.
    Unsupported,
    /// The lock was not free within the time given. Nothing is held; the place in the queue is left
    /// in the background. The message names the holder where that is known.
    Timeout,
    /// The lease ended while the guard was held. Somebody else may hold the lock by now.
    Lost,
    /// Somebody else was faster: a row has changed since it was read, or the database has ended the
    /// transaction to break a deadlock or to keep its order. Nothing was changed; the whole of the
    /// work may be done again.
    Conflict,
    /// The backend cannot be reached or used. An acquire that may have arrived there is ended in
    /// the background; a lease that nobody ends passes away with its ttl.
    Unavailable,
    /// The backend refused: credentials, permissions, read-only, full. Nothing was changed.
    Refused,
    /// What is stored under this name is not ours, damaged, or of a newer version.
    /// It was left as it is.
    Foreign,
    /// The client was closed, or the runtime that its renewal task ran on has ended.
    Closed,
}

impl ErrorKind {
    /// True when the operation was certainly not carried out. After any other error of a backend
    /// that is unknown: it is asked again, or ended.
    pub fn is_certain(self) -> bool {
        matches!(
            self,
            Self::Invalid | Self::Unsupported | Self::Conflict | Self::Refused | Self::Foreign
        )
    }
}

/// Whether the same call may succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Trying again can help.
    Useful,
    /// It will fail in the same way until something else is changed.
    Useless,
}

/// Why an operation failed; see [`ErrorKind`] for what it leaves behind.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    retry: Retry,
    operation: &'static str,
    name: Option<Name>,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of this kind; `message` names the field, the value and what is allowed.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let retry = match kind {
            ErrorKind::Timeout | ErrorKind::Conflict | ErrorKind::Unavailable | ErrorKind::Lost => {
                Retry::Useful
            }
            _ => Retry::Useless,
        };
        Self(Box::new(Inner {
            kind,
            retry,
            operation: "",
            name: None,
            message: message.into(),
            source: None,
        }))
    }

    /// Adds what caused it.
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// Says otherwise than the kind's default whether trying again helps.
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.0.retry = retry;
        self
    }

    /// Adds the operation and the lock, unless an inner layer has done so.
    pub fn during(mut self, operation: &'static str, name: Option<&Name>) -> Self {
        if self.0.operation.is_empty() {
            self.0.operation = operation;
        }
        if self.0.name.is_none() {
            self.0.name = name.cloned();
        }
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same call may succeed later.
    pub fn retry(&self) -> Retry {
        self.0.retry
    }

    /// The operation that failed: `acquire`, `release`, `connect` and so on; may be empty.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// The lock that it was about, if it was about one.
    pub fn name(&self) -> Option<&Name> {
        self.0.name.as_ref()
    }

    /// The text without operation and name.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl From<NotAToken> for Error {
    fn from(error: NotAToken) -> Self {
        Self::new(ErrorKind::Invalid, error.to_string())
    }
}

impl Clone for Error {
    fn clone(&self) -> Self {
        let Inner { kind, retry, operation, name, message, source } = &*self.0;
        Self(Box::new(Inner {
            kind: *kind,
            retry: *retry,
            operation,
            name: name.clone(),
            message: message.clone(),
            source: source.clone(),
        }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        if !inner.operation.is_empty() {
            f.write_str(inner.operation)?;
            if let Some(name) = &inner.name {
                write!(f, " {name}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&inner.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        let mut out = f.debug_struct("Error");
        out.field("kind", &inner.kind).field("retry", &inner.retry);
        if !inner.operation.is_empty() {
            out.field("operation", &inner.operation);
        }
        if let Some(name) = &inner.name {
            out.field("name", name);
        }
        out.field("message", &inner.message);
        if let Some(source) = &inner.source {
            out.field("source", source);
        }
        out.finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
