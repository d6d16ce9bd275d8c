//! Which program each lease of this client was acquired for: a renewal notes it again if the server has lost it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_core::AttemptId;
use leasehold_core::backend::Origin;

/// How many leases are remembered; of more, those that began lately are.
const MOST: usize = 10_000;

/// The origins of the attempts that hold.
#[derive(Debug, Default)]
pub(super) struct Origins(Mutex<HashMap<AttemptId, Arc<Origin>>>);

impl Origins {
    pub(super) fn hold(&self, attempt: AttemptId, origin: &Arc<Origin>) {
        let mut table = self.lock();
        // Of a client that was dropped, no attempt is ended here.
        if table.len() >= MOST {
            table.clear();
        }
        table.insert(attempt, origin.clone());
    }

    pub(super) fn of(&self, attempt: AttemptId) -> Option<Arc<Origin>> {
        self.lock().get(&attempt).cloned()
    }

    pub(super) fn forget(&self, attempt: AttemptId) {
        self.lock().remove(&attempt);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AttemptId, Arc<Origin>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
