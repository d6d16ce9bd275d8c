//! The answer of a fence: written, or refused because the resource has seen a larger token.

use std::fmt;

use crate::{Error, ErrorKind, Retry, Token};

/// The error for a refused write: a later holder of the lock has written before. Nothing was
/// changed.
///
/// The caller has lost its lock, even if its guard is valid, and must not continue. As an [`Error`]
/// it is of kind [`ErrorKind::Lost`]. The same write never succeeds later; a new acquisition may.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stale {
    /// The resource that the caller wanted to write; a key that is not UTF-8 is shown as closely as
    /// possible.
    pub resource: String,
    /// The token that came with the write.
    pub offered: Token,
    /// The largest token that the resource has seen; larger than `offered`.
    pub highest: Token,
}

impl Stale {
    /// Creates a refusal: `resource` has seen `highest`, which is larger than `offered`.
    pub fn new(resource: impl Into<String>, offered: Token, highest: Token) -> Self {
        Self { resource: resource.into(), offered, highest }
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, offered, highest } = self;
        write!(f, "token {offered} is stale: {resource:?} has already seen token {highest}")
    }
}

impl std::error::Error for Stale {}

impl From<Stale> for Error {
    fn from(stale: Stale) -> Self {
        Self::new(ErrorKind::Lost, stale.to_string())
            .with_retry(Retry::Useless)
            .with_source(stale)
            .during("fence", None)
    }
}

/// The answer of a fence behind a network, which can also fail in other ways.
#[must_use = "a refused write must stop the work"]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fenced {
    /// The write was done, and smaller tokens are refused from now on.
    Written,
    /// The write was refused, and nothing was changed.
    Stale(Stale),
}

impl Fenced {
    /// Returns the answer as a result, for `?`.
    ///
    /// # Errors
    /// The [`Stale`] of a refused write.
    pub fn into_result(self) -> Result<(), Stale> {
        match self {
            Self::Written => Ok(()),
            Self::Stale(stale) => Err(stale),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_write_is_a_loss_that_no_repetition_mends() {
        let [offered, highest] = [33, 34].map(|value| Token::new(value).unwrap());
        let error = Error::from(Stale { resource: "orders/555".into(), offered, highest });
        assert_eq!((error.kind(), error.retry()), (ErrorKind::Lost, Retry::Useless));
        let text = error.to_string();
        assert_eq!(text, "fence: token 33 is stale: \"orders/555\" has already seen token 34");
    }
}
