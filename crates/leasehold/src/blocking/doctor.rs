//! Checks a store, as [`crate::doctor`] does.

use leasehold_core::Result;

use super::block_on;
use crate::doctor::Examined;

/// Checks the store of a URL for what can harm locks there; see [`crate::doctor::examine`].
///
/// # Errors
/// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
pub fn examine(url: &str) -> Result<Examined> {
    block_on(crate::doctor::examine(url))
}
