//! Examines what can hurt locks that are kept in memory.

use crate::doctor::Examined;
use crate::memory::MemoryStore;
use crate::{Result, StoreUrl};

/// Reports the limits of a store in memory.
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a URL with options.
pub fn examine(url: &StoreUrl) -> Result<Examined> {
    MemoryStore::from_url(url)?;
    let mut examined = Examined::at(url.to_string());
    examined.problem(
        "one-process",
        "the locks are in the memory of one process",
        "other processes do not see them, so they only exclude tasks of this process",
        "use a directory for one machine (file:/var/lib/my-service/locks), a server for several; \
         memory: is for tests and single processes",
    );
    Ok(examined)
}
