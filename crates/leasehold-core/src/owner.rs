//! Re-entry by value: the program names its owner; threads and tasks do not matter.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use leasehold_proto::{ClientId, Deadline};

use crate::hold::Hold;
use crate::keyed_mutex::KeyedMutex;
use crate::shared::Shared;
use crate::{Error, ErrorKind, Name, Result};

/// An identity that a program passes to the places that may acquire a lock again
/// ([`Lock::acquire_as`](crate::Lock::acquire_as)). Clones are the same owner.
///
/// Two tasks that use one owner can hold the lock at the same time: that is the purpose.
#[derive(Clone, Debug, Default)]
pub struct Owner(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    mutex: KeyedMutex,
    held: Mutex<HashMap<(ClientId, Name), Weak<Hold>>>,
}

impl Owner {
    /// Creates an owner that holds no lock.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shares the lease that this owner holds already, or acquires one.
    pub(crate) async fn acquire(
        &self,
        shared: &Shared,
        name: &Name,
        until: Option<Deadline>,
        acquire: impl Future<Output = Result<Arc<Hold>>>,
    ) -> Result<Arc<Hold>> {
        // If two tasks of one owner acquire at once, the second shares the lease of the first.
        let Some(_guard) = shared.clock.within(until, self.0.mutex.lock(name)).await else {
            return Err(Error::new(
                ErrorKind::Timeout,
                "timed out waiting for another task of this owner that is acquiring the lock",
            )
            .during("acquire", Some(name)));
        };
        let key = (shared.client, name.clone());
        let held = self.held().get(&key).and_then(Weak::upgrade);
        if let Some(hold) = held.filter(|hold| hold.share(shared.clock.now())) {
            return Ok(hold);
        }
        let hold = acquire.await?;
        let mut held = self.held();
        if held.len() == held.capacity() {
            held.retain(|_, hold| hold.strong_count() > 0);
        }
        held.insert(key, Arc::downgrade(&hold));
        Ok(hold)
    }

    fn held(&self) -> std::sync::MutexGuard<'_, HashMap<(ClientId, Name), Weak<Hold>>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
