//! A held permit of a semaphore.

use std::ops::Deref;
use std::sync::Arc;

use crate::guard::Guard;
use crate::scope::Scope;
use crate::{Error, OnLoss, Result};

/// One or more slots of a semaphore that are held. It has the methods of a [`Guard`], and ends when it
/// is dropped or released: all its slots come back together.
///
/// Its [`token`](Guard::token) is larger than every earlier token of each of its slots. Permits of other
/// slots may have smaller, equal or larger tokens. So a resource that checks tokens keeps its highest token for each (name, slot), and a permit with
/// several slots passes the check of each of them with the same token. One mark for all slots would
/// refuse permits that are still valid.
#[must_use = "a permit that is dropped gives its slots back: bind it to a name such as `_permit` \
              (`let _ =` drops it at once)"]
#[derive(Debug)]
pub struct Permit {
    guard: Guard,
    slots: Arc<[u32]>,
}

impl Permit {
    pub(crate) fn new(guard: Guard, slots: Arc<[u32]>) -> Self {
        Self { guard, slots }
    }

    /// Returns the number of its slot, from 0 to the limit less one; of several slots the lowest. A
    /// lower limit does not renumber the slots of permits that are held.
    pub fn slot(&self) -> u32 {
        self.slots().first().copied().unwrap_or_default()
    }

    /// Returns the numbers of all its slots, ascending.
    pub fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// Gives the slots back; see [`Guard::release`].
    ///
    /// # Errors
    /// As there.
    pub async fn release(self) -> Result<()> {
        self.guard.release().await
    }
}

impl Deref for Permit {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

impl Scope for Permit {
    fn reenter(&self) -> Result<Self> {
        Ok(Self { guard: self.guard.reenter()?, slots: self.slots.clone() })
    }

    fn stops_work(&self) -> bool {
        self.guard.hold().on_loss() != OnLoss::Notify
    }

    async fn loss(&self) -> Error {
        Scope::loss(&self.guard).await
    }

    async fn release(self) -> Result<()> {
        self.guard.release().await
    }
}
