//! Checks that leases are still held: a file lock needs no renewal.

use leasehold_core::Result;
use leasehold_core::backend::{Renewal, Renewed};

use super::os_error::failed;
use super::store::Store;

/// Returns whether the lock file of a lease still exists and belongs to it.
pub(crate) fn check(store: &Store, renewal: &Renewal) -> Result<Renewed> {
    let Some(lease) = store.attempts.lease(renewal.attempt) else { return Ok(Renewed::Lost) };
    if lease.token() != renewal.base {
        return Ok(Renewed::Lost);
    }
    let files = store.directory.files(&renewal.name);
    match lease.is_healthy() {
        Ok(true) if lease.reads() && store.is_wanted(&files) => Ok(Renewed::Wanted),
        Ok(true) => Ok(Renewed::Renewed),
        Ok(false) => Ok(Renewed::Lost),
        Err(error) => Err(failed("check", &files.lock, error).during("renew", Some(&renewal.name))),
    }
}
