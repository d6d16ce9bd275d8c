//! The read leases of a client. Tasks of this process share one lease, as long as no writer waits.
//! The decisions are those of [`leasehold_proto::client::SharedRead`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use leasehold_proto::client::{Conversion, SharedRead, Sound};
use leasehold_proto::{AttemptId, Lease, Now};

use crate::Name;
use crate::hold::Hold;
use crate::local_queue::Wish;
use crate::table_capacity::shrink_map;

/// The read leases by name, the newest last. A name has more than one while readers of an earlier
/// phase still hold, or if tasks use different options.
#[derive(Debug, Default)]
pub(crate) struct ReadLeases {
    table: Mutex<HashMap<Name, Vec<ReadLease>, RandomState>>,
}

#[derive(Debug)]
struct ReadLease {
    hold: Arc<Hold>,
    machine: SharedRead,
}

impl ReadLeases {
    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Vec<ReadLease>, RandomState>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a new lease with one reader. `wanted`: a writer is known to wait.
    pub(crate) fn begin(&self, hold: &Arc<Hold>, wanted: bool) {
        let machine = SharedRead::new(hold.attempt, hold.token(), wanted, hold.suspect, Sound);
        let lease = ReadLease { hold: hold.clone(), machine };
        self.lock().entry(hold.name.clone()).or_default().push(lease);
    }

    /// Adds a reader to a lease that fits, without a call. `writer_waits`: a task of this process
    /// waits to write. Returns `None` if the task must ask the engine.
    pub(crate) fn join(
        &self,
        name: &Name,
        wish: &Wish,
        now: Now,
        writer_waits: bool,
    ) -> Option<Arc<Hold>> {
        let mut table = self.lock();
        let mut leases = table.get_mut(name)?.iter_mut().rev();
        // A lease keeps its terms in coarser units.
        let terms = Lease::ask(now, wish.terms).terms();
        leases.find_map(|ReadLease { hold, machine }| {
            let lease = hold.lease();
            let fits = lease.terms() == terms && hold.on_loss == wish.on_loss;
            if !fits || machine.join(&lease, now, writer_waits).is_none() {
                return None;
            }
            drop(lease);
            hold.add_user();
            Some(hold.clone())
        })
    }

    /// Adds a guard of a task that reads already. Returns false if its lease is over.
    pub(crate) fn share(&self, hold: &Hold, now: Now) -> bool {
        let mut table = self.lock();
        let lease = find(&mut table, &hold.name, hold.attempt);
        let shared = lease.filter(|_| hold.lease().is_valid(now)).map(|lease| {
            lease.machine.reenter();
            hold.add_user();
        });
        shared.is_some()
    }

    /// Removes a guard. Returns true for the last one, which must end the lease.
    pub(crate) fn leave(&self, hold: &Hold) -> bool {
        let mut table = self.lock();
        let last = hold.leave();
        if let Some(lease) = find(&mut table, &hold.name, hold.attempt) {
            lease.machine.leave();
        }
        if last {
            remove(&mut table, hold);
        }
        last
    }

    /// Records that a writer waits. Returns false if no lease of this attempt is held.
    pub(crate) fn wanted(&self, name: &Name, attempt: AttemptId) -> bool {
        let mut table = self.lock();
        let lease = find(&mut table, name, attempt);
        lease.map(|lease| lease.machine.handle_wanted()).is_some()
    }

    /// Begins to make the only reader of a lease a writer with the attempt `next`. Returns `None` if
    /// the engine would refuse.
    pub(crate) fn try_upgrade(&self, hold: &Hold, next: AttemptId, now: Now) -> Option<Conversion> {
        let mut table = self.lock();
        let lease = find(&mut table, &hold.name, hold.attempt)?;
        lease.machine.try_upgrade(next, &hold.lease(), now)
    }

    /// Records that the engine has refused the upgrade of this lease.
    pub(crate) fn refuse_upgrade(&self, hold: &Hold, wanted: bool) {
        if let Some(lease) = find(&mut self.lock(), &hold.name, hold.attempt) {
            lease.machine.handle_upgrade_refused(wanted);
        }
    }

    /// Removes a lease that has become another one, or is lost.
    pub(crate) fn remove(&self, hold: &Hold) {
        remove(&mut self.lock(), hold);
    }
}

fn find<'a>(
    table: &'a mut HashMap<Name, Vec<ReadLease>, RandomState>,
    name: &Name,
    attempt: AttemptId,
) -> Option<&'a mut ReadLease> {
    table.get_mut(name)?.iter_mut().find(|lease| lease.hold.attempt == attempt)
}

fn remove(table: &mut HashMap<Name, Vec<ReadLease>, RandomState>, hold: &Hold) {
    let Some(leases) = table.get_mut(&hold.name) else { return };
    leases.retain(|lease| lease.hold.attempt != hold.attempt);
    if leases.is_empty() {
        table.remove(&hold.name);
        shrink_map(table);
    }
}
