//! The store: a table with versions, as many products offer it. An engine of yours has a connection
//! to a server here, with a time limit for each call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_core::clock::Clock;
use leasehold_core::{Now, Result};

/// A value, and how often it was written.
type Versioned = (u64, String);

/// A table that replaces a value only if no client has written it since it was read. Clones are the
/// same table.
#[derive(Clone, Debug)]
pub struct KeyValueStore {
    values: Arc<Mutex<BTreeMap<String, Versioned>>>,
    clock: Clock,
}

impl Default for KeyValueStore {
    fn default() -> Self {
        Self { values: Arc::default(), clock: Clock::system() }
    }
}

impl KeyValueStore {
    /// Returns the store's own time: leases of different clients must end by one clock.
    pub(crate) async fn now(&self) -> Result<Now> {
        Ok(self.clock.now())
    }

    /// Returns a value and its version.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<Versioned>> {
        Ok(self.values().get(key).cloned())
    }

    /// Writes a value if the current one has this version (`None`: if there is no value). Returns
    /// false if it has another version.
    pub(crate) async fn put_if(
        &self,
        key: &str,
        version: Option<u64>,
        value: String,
    ) -> Result<bool> {
        let mut values = self.values();
        if values.get(key).map(|(version, _)| *version) != version {
            return Ok(false);
        }
        values.insert(key.to_owned(), (version.unwrap_or(0) + 1, value));
        Ok(true)
    }

    /// Returns the first keys that begin with `prefix`, in order.
    pub(crate) async fn keys(&self, prefix: &str, limit: usize) -> Result<Vec<String>> {
        let values = self.values();
        let from = values.range(prefix.to_owned()..).map(|(key, _)| key);
        Ok(from.take_while(|key| key.starts_with(prefix)).take(limit).cloned().collect())
    }

    fn values(&self) -> MutexGuard<'_, BTreeMap<String, Versioned>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
