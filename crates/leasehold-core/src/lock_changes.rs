//! Notifies observers of the changes of a lock: by push where the engine can, and at intervals.

use std::time::Duration;

use crate::backend::Changes;
use crate::clock::Clock;
use crate::{Client, Lock, Name, Result};

/// The changes of a lock from now on, of [`Lock::changes`].
#[derive(Debug)]
pub struct LockChanges {
    clock: Clock,
    /// `None` if the engine does not push them, or cannot any more.
    pushed: Option<Changes>,
}

impl Lock {
    /// Returns what waits for the changes of this lock. Ask for the [`status`](Self::status) after
    /// this call and after each change, and again if that fails: nothing is then missed. It does no I/O.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold_core::Result<()> {
    /// # use std::{sync::Arc, time::Duration};
    /// # use leasehold_core::{Client, memory::MemoryStore};
    /// # let client = Client::new(Arc::new(MemoryStore::new().connect()))?;
    /// let lock = client.lock("report");
    /// let mut changes = lock.changes()?;
    /// let guard = lock.acquire().await?;
    /// changes.within(Duration::from_secs(3600)).await; // returns at once
    /// assert_eq!(lock.status().await?.token, Some(guard.token()));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the name is not allowed.
    pub fn changes(&self) -> Result<LockChanges> {
        Ok(LockChanges::of(&self.client, self.name()?))
    }
}

impl LockChanges {
    pub(crate) fn of(client: &Client, name: &Name) -> Self {
        let shared = client.shared();
        Self { clock: shared.clock.clone(), pushed: shared.backend.watch(name) }
    }

    /// Waits until the lock may have changed since the last call, but at most this long. An engine
    /// without [`Capability::observe`](crate::Capability) always takes the whole time. The end of a
    /// lease by time is not a change. If the future is dropped, no change is lost.
    pub async fn within(&mut self, at_most: Duration) {
        let pushed = async {
            match &mut self.pushed {
                Some(changes) => changes.changed().await,
                None => std::future::pending().await,
            }
        };
        let is_pushed = tokio::select! {
            biased;
            is_pushed = pushed => is_pushed,
            () = self.clock.sleep(at_most) => true,
        };
        if !is_pushed {
            self.pushed = None;
        }
    }
}
