//! The tasks that wait for a permit of a semaphore: each has its own attempt and its own place in the
//! queue of the engine, since many may hold at a time.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use leasehold_proto::client::Mail;
use leasehold_proto::{AttemptId, Now};

use crate::local_queue::LocalWaiter;
use crate::table_capacity::shrink_map;
use crate::{Error, Name};

/// The waiting tasks by their attempts.
#[derive(Debug, Default)]
pub(crate) struct PermitWaiters(Mutex<HashMap<AttemptId, Asking, RandomState>>);

#[derive(Debug)]
struct Asking {
    name: Name,
    waiter: Arc<LocalWaiter>,
}

impl PermitWaiters {
    fn lock(&self) -> MutexGuard<'_, HashMap<AttemptId, Asking, RandomState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Expects messages for an attempt, until [`asked`](Self::asked).
    pub(crate) fn ask(&self, name: &Name, attempt: AttemptId, waiter: &Arc<LocalWaiter>) {
        let asking = Asking { name: name.clone(), waiter: waiter.clone() };
        self.lock().insert(attempt, asking);
    }

    /// Forgets an attempt that holds now, or is being ended.
    pub(crate) fn asked(&self, attempt: AttemptId) {
        let mut table = self.lock();
        table.remove(&attempt);
        shrink_map(&mut table);
    }

    /// Sends a message to the task of an attempt. Returns false if none waits with it.
    pub(crate) fn tell(&self, attempt: AttemptId, message: impl FnOnce(&mut Mail<Error>)) -> bool {
        let table = self.lock();
        let asking = table.get(&attempt);
        asking.map(|asking| asking.waiter.leave(message)).is_some()
    }

    /// Records that slots may be free: the tasks ask again.
    pub(crate) fn freed(&self, name: &Name) {
        for asking in self.lock().values().filter(|asking| asking.name == *name) {
            asking.waiter.leave(|mail| mail.ask_again = true);
        }
    }

    /// Records that the connection to the engine is broken: the tasks start their timeout.
    pub(crate) fn broken(&self, now: Now) {
        self.lock().values().for_each(|asking| asking.waiter.leave(|mail| mail.broken = Some(now)));
    }

    /// Records that messages may have been missed: the tasks ask again.
    pub(crate) fn reset(&self) {
        self.lock().values().for_each(|asking| asking.waiter.leave(|mail| mail.ask_again = true));
    }

    /// Wakes every task: the client has been closed.
    pub(crate) fn ring_all(&self) {
        self.lock().values().for_each(|asking| asking.waiter.bell.notify_one());
    }

    /// Returns how many tasks wait, and for how many names.
    pub(crate) fn count(&self) -> (usize, usize) {
        let table = self.lock();
        let names: HashSet<&Name> = table.values().map(|asking| &asking.name).collect();
        (table.len(), names.len())
    }
}
