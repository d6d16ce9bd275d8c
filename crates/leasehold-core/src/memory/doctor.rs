//! Checks what can harm locks that are kept in memory.

use crate::doctor::Diagnosis;
use crate::memory::MemoryStore;
use crate::{Result, StoreUrl};

/// Reports the limits of a store in memory.
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a URL with options.
pub fn diagnose(url: &StoreUrl) -> Result<Diagnosis> {
    MemoryStore::from_url(url)?;
    let mut diagnosis = Diagnosis::at(url.to_string());
    diagnosis.problem(
        "one-process",
        "the locks are in the memory of one process",
        "other processes do not see them, so they only exclude tasks of this process",
        "use a directory for one machine (file:/var/lib/my-service/locks), a server for several; \
         memory: is for tests and single processes",
    );
    Ok(diagnosis)
}
