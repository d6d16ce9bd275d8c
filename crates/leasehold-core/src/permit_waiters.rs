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

/// The waiting tasks by their attempts, and the slots of new permits.
#[derive(Debug, Default)]
pub(crate) struct PermitWaiters {
    asking: Mutex<HashMap<AttemptId, Asking, RandomState>>,
    /// From the grant until the guard is made, in one poll of the caller. Holds do not contain them,
    /// since a process may have very many holds without slots.
    slots: Mutex<HashMap<AttemptId, Arc<[u32]>, RandomState>>,
}

#[derive(Debug)]
struct Asking {
    name: Name,
    waiter: Arc<LocalWaiter>,
}

impl PermitWaiters {
    fn lock(&self) -> MutexGuard<'_, HashMap<AttemptId, Asking, RandomState>> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<AttemptId, Arc<[u32]>, RandomState>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the slots of a permit that was granted just now.
    pub(crate) fn note_slots(&self, attempt: AttemptId, slots: Vec<u32>) {
        self.slots().insert(attempt, slots.into());
    }

    /// Returns the slots of a permit, ascending, for its guard.
    pub(crate) fn take_slots(&self, attempt: AttemptId) -> Arc<[u32]> {
        let mut slots = self.slots();
        let taken = slots.remove(&attempt).unwrap_or_default();
        shrink_map(&mut slots);
        taken
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
