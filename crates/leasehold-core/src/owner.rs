//! Re-entry by value: who the program says it is, not which thread or task it happens to be.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use leasehold_proto::{ClientId, Deadline};

use crate::guard::Guard;
use crate::hold::Hold;
use crate::lock::Lock;
use crate::turns::Turns;
use crate::{Error, ErrorKind, Name, Result};

/// An identity that a program passes to where it wants to enter a lock again
/// ([`Lock::acquire_as`]). Clones are the same owner.
///
/// Two tasks that use one owner are inside together: that is what it is for.
#[derive(Clone, Debug, Default)]
pub struct Owner(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    turns: Turns,
    held: Mutex<HashMap<(ClientId, Name), Weak<Hold>>>,
}

impl Owner {
    /// An owner that holds nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) async fn acquire(&self, lock: &Lock, until: Option<Deadline>) -> Result<Guard> {
        let name = lock.name().map_err(|error| error.during("acquire", None))?;
        let client = lock.client();
        let clock = &client.shared().clock;
        // Two tasks of one owner that come at once: the second enters what the first acquired.
        let Some(_turn) = clock.within(until, self.0.turns.enter(name)).await else {
            return Err(Error::new(
                ErrorKind::Timeout,
                "another task of this owner was still acquiring the lock",
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
