//! Tasks of clients that cache the lease of the lock: each takes it many times in a row, and then rests, so that the
//! client keeps it between most holds, and other clients want it now and then.

use std::time::Duration;

use leasehold::{Client, Lock};

use super::{Counter, NAME, TTL};
use crate::workload::Workload;
use crate::{MS, now};

/// How long a client caches the lease: longer than its tasks pause, or shorter than they do in half of the cases.
const CACHE: [Duration; 2] = [Duration::from_secs(1), Duration::from_millis(4)];
/// The longest time in which a task wants the lock again and again, in milliseconds. What waits longer, when a fault has
/// stopped all, rests soon after: else all tasks would want the lock from then on, and no client could cache the lease.
const TURN: u64 = 800;
/// The longest rest, in milliseconds.
const REST: u64 = 10_000;
/// A task that rests looks so often whether the run ends.
const NAP: Duration = Duration::from_millis(20);

/// The lock of a task.
pub(super) fn lock(client: &Client, workload: Workload, task: u32) -> Lock {
    let lock = client.lock(NAME).ttl(TTL);
    match workload {
        Workload::Cached => lock.cache(CACHE[task as usize % CACHE.len()]),
        Workload::Counter | Workload::Readers | Workload::Permits => lock,
    }
}

impl Counter {
    /// Rests, if it is a task of such a client whose turn is over.
    pub(super) async fn rest(&mut self) {
        if self.workload != Workload::Cached || now() < self.turn {
            return;
        }
        let until = now() + self.rng.u64(..REST) * MS;
        while now() < until && !self.ending.exists() {
            tokio::time::sleep(NAP).await;
        }
        self.turn = now() + self.rng.u64(..TURN) * MS;
    }
}
