//! Checks that leases are still held: a file lock needs no renewal.

use std::sync::Arc;

use leasehold_core::Result;
use leasehold_core::backend::{Renewal, Renewed};

use super::attempts::Attempts;
use super::lease::Lease;
use super::os_error::failed;
use super::store::Store;

/// Returns whether the lock file of a lease still exists and belongs to it.
pub(crate) fn check(store: &Store, renewal: &Renewal) -> Result<Renewed> {
    let lease = held(&store.attempts, renewal)?;
    Ok(match lease {
        Some(lease) if lease.reads() => {
            match store.is_wanted(&store.directory.files(&renewal.name)) {
                true => Renewed::Wanted,
                false => Renewed::Renewed,
            }
        }
        Some(_) => Renewed::Renewed,
        None => Renewed::Lost,
    })
}

/// Returns the lease that a renewal names, if its file is still in its place.
pub(crate) fn held<S: Default>(
    attempts: &Attempts<S>,
    renewal: &Renewal,
) -> Result<Option<Arc<Lease>>> {
    let lease = attempts.lease(renewal.attempt).filter(|lease| lease.token() == renewal.base);
    let Some(lease) = lease else { return Ok(None) };
    match lease.is_healthy() {
        Ok(true) => Ok(Some(lease)),
        Ok(false) => Ok(None),
        Err(error) => {
            Err(failed("check", lease.path(), error).during("renew", Some(&renewal.name)))
        }
    }
}
