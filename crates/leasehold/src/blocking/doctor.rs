//! Checks a store, as [`crate::doctor`] does.

use leasehold_core::Result;

use super::block_on;
use crate::doctor::Diagnosis;

/// Checks the store of a URL for what can harm locks there; see [`crate::doctor::diagnose`].
///
/// # Errors
/// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
pub fn diagnose(url: &str) -> Result<Diagnosis> {
    block_on(crate::doctor::diagnose(url))
}

/// Looks for locks of other libraries; see [`crate::doctor::foreign_locks`].
///
/// # Errors
/// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
pub fn foreign_locks(url: &str, prefix: &str) -> Result<Diagnosis> {
    block_on(crate::doctor::foreign_locks(url, prefix))
}
