//! The error type of all operations: its kind, whether a retry can help, and which operation on
//! which lock failed.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::{Name, NotAName, NotAToken};

/// The kind of an error. Each kind documents the state that it leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A name, duration, URL or combination of options is invalid. Nothing was sent.
    Invalid,
    /// This backend does not support the operation (see its
    /// [`Capability`](crate::Capability)). Nothing was changed.
    Unsupported,
    /// The lock was not free before the timeout. The client holds nothing, and leaves the queue in
    /// the background. The message names the holder if it is known.
    Timeout,
    /// The lease ended while the guard was held. Another client may hold the lock by now.
    Lost,
    /// The row changed after it was read, or the database aborted the transaction because of a
    /// deadlock or a serialization failure. Nothing was changed; the caller may repeat the whole
    /// transaction.
    Conflict,
    /// The backend cannot be reached or used. If an acquire may have arrived, the client ends it in
    /// the background; a lease that remains expires with its ttl.
    Unavailable,
    /// The backend refused: credentials, permissions, read-only, full. Nothing was changed.
    Refused,
    /// The data under this name belongs to another program, is damaged, or has a newer version. It
    /// was not changed.
    Foreign,
    /// The client was closed, or the runtime of its renewal task has ended.
    Closed,
}

impl ErrorKind {
    /// Returns true if the operation was certainly not executed. After any other error of a backend
    /// this is unknown; the client then repeats the request, or ends the attempt.
    pub fn is_certain(self) -> bool {
        matches!(
            self,
            Self::Invalid | Self::Unsupported | Self::Conflict | Self::Refused | Self::Foreign
        )
    }
}

/// Whether the same call may succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Retry {
    /// A retry can help.
    Useful,
    /// The call fails again until something else changes.
    Useless,
}

/// Why an operation failed; see [`ErrorKind`] for the state that it leaves behind.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    retry: Retry,
    operation: &'static str,
    name: Option<Name>,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// A `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error of this kind; `message` names the field, the value and what is allowed.
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

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// Overrides whether a retry can help, which otherwise follows from the kind.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.0.retry = retry;
        self
    }

    /// Adds the operation and the lock, unless an inner layer has added them.
    #[must_use]
    pub fn during(mut self, operation: &'static str, name: Option<&Name>) -> Self {
        if self.0.operation.is_empty() {
            self.0.operation = operation;
        }
        if self.0.name.is_none() {
            self.0.name = name.cloned();
        }
        self
    }

    /// Returns the kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns whether the same call may succeed later.
    pub fn retry(&self) -> Retry {
        self.0.retry
    }

    /// Returns the operation that failed: `acquire`, `release`, `connect` and so on; may be empty.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// Returns the lock of the operation, if it has one.
    pub fn name(&self) -> Option<&Name> {
        self.0.name.as_ref()
    }

    /// Returns the first cause whose text is not part of the message.
    fn unsaid_source(&self) -> Option<&(dyn StdError + 'static)> {
        let is_said = |cause: &(dyn StdError + 'static)| match cause.downcast_ref::<Self>() {
            Some(error) => self.message().contains(error.message()),
            None => self.message().contains(&cause.to_string()),
        };
        let causes = std::iter::successors(self.source(), |&cause| cause.source());
        causes.into_iter().find(|cause| !is_said(*cause))
    }

    /// Returns the text without operation and name.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl From<NotAName> for Error {
    fn from(error: NotAName) -> Self {
        Self::new(ErrorKind::Invalid, error.to_string())
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
        if let Some(source) = self.unsaid_source() {
            out.field("source", &source);
        }
        out.finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn debug_shows_each_cause_once() {
        let io = || io::Error::other("disk on fire");
        let inner = Error::new(ErrorKind::Unavailable, format!("cannot read x: {}", io()));
        let inner = inner.with_source(io()).during("acquire", None);
        let outer = Error::new(ErrorKind::Timeout, format!("timed out: {}", inner.message()));
        let outer = outer.with_source(inner);
        let text = format!("{outer:?}");
        assert_eq!(text.matches("disk on fire").count(), 1, "{text}");
        assert_eq!(text.matches("cannot read x").count(), 1, "{text}");
        // What the message does not say is shown.
        let error = Error::new(ErrorKind::Refused, "cannot be read").with_source(io());
        let text = format!("{error:?}");
        assert_eq!(text.matches("disk on fire").count(), 1, "{text}");
        assert!(error.source().is_some() && outer.source().is_some());
    }
}
