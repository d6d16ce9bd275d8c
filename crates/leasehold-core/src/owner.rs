//! Re-entry by value: the program names its owner; threads and tasks do not matter.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use leasehold_proto::{ClientId, Deadline};

use crate::guard::Guard;
use crate::hold::Hold;
use crate::lock::Lock;
use crate::turns::Turns;
use crate::{Error, ErrorKind, Name, Result};

/// An identity that a program passes to the places that may acquire a lock again
/// ([`Lock::acquire_as`]). Clones are the same owner.
///
/// Two tasks that use one owner can hold the lock at the same time: that is the purpose.
#[derive(Clone, Debug, Default)]
pub struct Owner(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    turns: Turns,
    held: Mutex<HashMap<(ClientId, Name), Weak<Hold>>>,
}

impl Owner {
    /// Creates an owner that holds nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) async fn acquire(&self, lock: &Lock, until: Option<Deadline>) -> Result<Guard> {
        let name = lock.name().map_err(|error| error.during("acquire", None))?;
        let client = lock.client();
        let clock = &client.shared().clock;
        // If two tasks of one owner acquire at once, the second shares the lease of the first.
        let Some(_turn) = clock.within(until, self.0.turns.enter(name)).await else {
            return Err(Error::new(
                ErrorKind::Timeout,
                "timed out waiting for another task of this owner that is acquiring the lock",
            )
            .during("acquire", Some(name)));
        };
        let key = (client.shared().client, name.clone());
        let held = self.held().get(&key).and_then(Weak::upgrade);
        if let Some(hold) = held.filter(|hold| hold.share(clock.now())) {
            return Ok(Guard::new(client.clone(), hold));
        }
        let guard = lock.acquire_until(until).await?;
        let mut held = self.held();
        if held.len() == held.capacity() {
            held.retain(|_, hold| hold.strong_count() > 0);
        }
        held.insert(key, Arc::downgrade(guard.hold()));
        Ok(guard)
    }

    fn held(&self) -> std::sync::MutexGuard<'_, HashMap<(ClientId, Name), Weak<Hold>>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
