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
    table: Mutex<Table>,
    /// The attempts outside the local queues that ask for a lease now, and whether a client outside is
    /// known to wait for it: a message may overtake the grant.
    asking: Mutex<Vec<(AttemptId, bool)>>,
}

type Table = HashMap<Name, Vec<ReadLease>, RandomState>;

#[derive(Debug)]
struct ReadLease {
    hold: Arc<Hold>,
    machine: SharedRead,
}

impl ReadLeases {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asking(&self) -> MutexGuard<'_, Vec<(AttemptId, bool)>> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Expects messages for an attempt that no local queue knows, until [`asked`](Self::asked).
    pub(crate) fn ask(&self, attempt: AttemptId) {
        self.asking().push((attempt, false));
    }

    /// Forgets an attempt that asks no more. Returns true if a client outside is known to wait for
    /// its lease. A caller that holds now has entered the lease before.
    pub(crate) fn asked(&self, attempt: AttemptId) -> bool {
        let mut asking = self.asking();
        let place = asking.iter().position(|(one, _)| *one == attempt);
        place.is_some_and(|place| asking.swap_remove(place).1)
    }

    /// Records a new lease with one reader. `wanted`: a writer is known to wait.
    pub(crate) fn begin(&self, hold: &Arc<Hold>, wanted: bool) {
        let machine = SharedRead::new(hold.attempt, hold.token(), wanted, hold.is_suspect(), Sound);
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
        // What is left of a lease that ends at a fixed time is less than the task asks for.
        let fixed = wish.terms.renew_after.is_none() && !wish.terms.session;
        if fixed || wish.terms.max_hold.is_some() {
            return None;
        }
        let mut table = self.lock();
        let mut leases = table.get_mut(name)?.iter_mut().rev();
        leases.find_map(|ReadLease { hold, machine }| {
            if !fits(hold, wish, now) || machine.join(&hold.lease(), now, writer_waits).is_none() {
                return None;
            }
            hold.add_user();
            Some(hold.clone())
        })
    }

    /// Adds a reader that has waited in this process for the grant of this lease. It enters even if
    /// a writer waits, as a reader that waits at the engine does. Returns `None` if the lease does
    /// not fit, or is over.
    pub(crate) fn enter(&self, hold: &Hold, wish: &Wish, now: Now) -> Option<Arc<Hold>> {
        let mut table = self.lock();
        let lease = find(&mut table, &hold.name, hold.attempt)?;
        if !fits(hold, wish, now) || !hold.lease().is_valid(now) {
            return None;
        }
        lease.machine.reenter();
        hold.add_user();
        Some(lease.hold.clone())
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

    /// Removes a guard. Returns true for the last one, which must end the lease. One that may be cached stays
    /// here until [`remove`](Self::remove), so that messages find it.
    pub(crate) fn leave(&self, hold: &Hold) -> bool {
        let mut table = self.lock();
        let last = hold.leave();
        if let Some(lease) = find(&mut table, &hold.name, hold.attempt) {
            lease.machine.leave();
        }
        if last && hold.cache().is_zero() {
            remove(&mut table, hold);
        }
        last
    }

    /// Records that messages may have been missed, or that the engine may have lost its data.
    pub(crate) fn miss(&self) {
        self.lock().values_mut().flatten().for_each(|lease| lease.machine.handle_missed());
    }

    /// Records that a client outside waits. Returns false if no lease of this attempt is held, and
    /// the attempt does not ask outside the queues.
    pub(crate) fn wanted(&self, name: &Name, attempt: AttemptId) -> bool {
        // In the reverse order of a caller that begins to hold.
        let mut asking = self.asking();
        let asks = asking.iter_mut().find(|(one, _)| *one == attempt);
        let asks = asks.map(|(_, wanted)| *wanted = true).is_some();
        drop(asking);
        let mut table = self.lock();
        let lease = find(&mut table, name, attempt);
        lease.map(|lease| lease.machine.handle_wanted()).is_some() || asks
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

    /// Removes a lease that ends, has become another one, or is lost.
    pub(crate) fn remove(&self, hold: &Hold) -> Option<SharedRead> {
        remove(&mut self.lock(), hold)
    }
}

/// Returns true if a lease has the options of a task.
fn fits(hold: &Hold, wish: &Wish, now: Now) -> bool {
    // A lease keeps its terms in coarser units.
    let terms = Lease::ask(now, wish.terms).terms();
    hold.lease().terms() == terms && hold.on_loss() == wish.on_loss
}

fn find<'a>(table: &'a mut Table, name: &Name, attempt: AttemptId) -> Option<&'a mut ReadLease> {
    table.get_mut(name)?.iter_mut().find(|lease| lease.hold.attempt == attempt)
}

fn remove(table: &mut Table, hold: &Hold) -> Option<SharedRead> {
    let leases = table.get_mut(&hold.name)?;
    // A later hold may have the same attempt: its reader has taken the lease that was cached.
    let place = leases.iter().position(|lease| std::ptr::eq(&raw const *lease.hold, hold))?;
    let removed = leases.remove(place).machine;
    if leases.is_empty() {
        table.remove(&hold.name);
        shrink_map(table);
    }
    Some(removed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_proto::client::HeldTokens;
    use leasehold_proto::{ClientId, Terms, Token};

    use super::*;

    #[test]
    fn a_message_finds_a_lease_whose_last_reader_has_just_left() {
        let ttl = Duration::from_secs(30);
        let now = Now { steady_ns: 0, wall_ns: 0 };
        let terms = Terms { ttl, renew_after: Some(ttl / 3), max_hold: None, session: false };
        let random = crate::backend::with_mode(0, crate::backend::Mode::Shared);
        let attempt = AttemptId::new(ClientId::from_bits(1), 1, random);
        let tokens = HeldTokens::of_readers(Token::new(1).unwrap());
        let name = Name::new("a").unwrap();
        let mut hold = Hold::new(name, attempt, tokens, Lease::ask(now, terms), now, false);
        hold.set_cache(ttl);
        let (hold, reading) = (Arc::new(hold), ReadLeases::default());
        reading.begin(&hold, false);
        assert!(reading.leave(&hold));
        assert!(reading.wanted(&hold.name, attempt), "a client outside waits to write");
        assert!(reading.remove(&hold).unwrap().is_wanted(false));
        assert!(!reading.wanted(&hold.name, attempt));
    }
}
