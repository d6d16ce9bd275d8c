//! The turn of an attempt for a permit of a semaphore: it comes in the order of the keys' creation, when the slots
//! that it wants are free.
//!
//! Each permit and each waiter has a key under its own lease, with the slots that it has. Only the first waiter
//! grants itself a permit, so grants have the order of the create revisions, which are the tokens. An attempt that
//! finds no waiter puts its key with the slots at once, if nothing has been put under the name since it looked.

use std::collections::BTreeSet;

use leasehold_core::Deadline;
use leasehold_core::backend::{is_a_latch, is_a_lock, is_a_semaphore, refused_by_limit};
use leasehold_core::proto::semaphore::{Demand, Limit};
use leasehold_etcd_api::{
    Compare, CompareOp, GetOptions, SortOrder, SortTarget, Txn, TxnOp, TxnResponse,
};

use crate::asking::{Asking, Behind, Failed, Held, Seen};
use crate::entry::{Entry, write_permit};
use crate::error::no_answer;
use crate::key::Part;
use crate::limit::{self, StoredLimit};
use crate::transaction::{any, count, delete, none, revision, term, token};
use crate::watcher::Wait;

/// After this many changes by others, an attempt gets a place in the queue before it looks again.
const ROUNDS: usize = 3;

/// A semaphore, as of one revision.
struct View {
    revision: i64,
    term: u64,
    limit: Option<StoredLimit>,
    /// The permits and waiters, in the order of their places.
    entries: Vec<Entry>,
    /// A client of revision c26c1cc waits in the queue of the lock.
    has_queue: bool,
}

/// Finds our key, or puts it if it does not exist, and looks whose turn it is.
pub(crate) async fn look(asking: &Asking<'_>) -> Result<(Seen, u64), Failed> {
    let demand = asking.request.demand.ok_or_else(is_a_semaphore)?;
    for round in 0.. {
        let view = view(asking).await?;
        let own = view.entries.iter().find(|entry| entry.key == asking.own());
        match (asking.live.created, own) {
            (None, None) => {}
            (Some(created), Some(own)) if own.created == created => {
                return turn(asking, own, &view, demand).await;
            }
            (None, Some(own)) if own.lease == asking.lease.id => {
                return turn(asking, own, &view, demand).await;
            }
            // The key would expire with its other lease, which no client keeps alive.
            (None, Some(own)) => {
                let answer = asking.txn(delete(asking.own(), own.created.unsigned_abs())).await?;
                return Ok((Seen::Gone, term(&answer)));
            }
            (Some(_), _) => return Ok((Seen::Gone, view.term)),
        }
        let limit = view.limit.as_ref().map_or(demand.limit(), |stored| stored.limit);
        if limit != demand.limit() {
            return Err(refused_by_limit(limit, demand).into());
        }
        let waits = view.entries.iter().any(|entry| entry.slots.is_empty());
        let slots = if waits { None } else { view.free_slots(limit, demand) };
        if round < ROUNDS
            && let Some(slots) = slots
        {
            if let Some(held) = enter_at_once(asking, &view, demand, slots).await? {
                return Ok(held);
            }
            continue;
        }
        if !asking.request.wait && round < ROUNDS {
            return Ok((Seen::Taken, view.term));
        }
        if let Some(seen) = enter_queue(asking, &view, demand).await? {
            return Ok(seen);
        }
    }
    Ok((Seen::Changed, 0))
}

/// Reads the semaphore. Another kind under the name is an error.
async fn view(asking: &Asking<'_>) -> Result<View, Failed> {
    let (keys, name) = (&asking.engine.keys, &asking.request.name);
    let gets = [get_all(asking), any(keys.lock(name)), TxnOp::get(keys.latch(name), None)];
    let answer = asking.txn(Txn::new().and_then(gets)).await?;
    let mut view = View::read(asking, &answer, 0)?;
    view.has_queue = count(&answer, 1).is_some_and(|queued| queued > 0);
    if view.limit.is_none() && view.entries.is_empty() {
        if view.has_queue {
            return Err(is_a_lock().into());
        }
        if count(&answer, 2).is_some_and(|latches| latches > 0) {
            return Err(is_a_latch().into());
        }
    }
    Ok(view)
}

fn get_all(asking: &Asking<'_>) -> TxnOp {
    let (first, end) = asking.engine.keys.semaphore(&asking.request.name);
    let options =
        GetOptions::new().with_range(end).with_sort(SortTarget::Create, SortOrder::Ascend);
    TxnOp::get(first, Some(options))
}

impl View {
    fn read(asking: &Asking<'_>, answer: &TxnResponse, op: usize) -> Result<Self, Failed> {
        let (revision, term) = (revision(answer), term(answer));
        let mut view = Self { revision, term, limit: None, entries: Vec::new(), has_queue: false };
        let Some(found) = answer.range(op) else {
            return Err(crate::error::strange("the semaphore was not returned").into());
        };
        for kv in &found.kvs {
            match asking.engine.keys.read(&kv.key) {
                Some((_, Part::Limit)) => view.limit = Some(StoredLimit::read(kv)?),
                _ => view.entries.extend(Entry::read(&asking.engine.keys, kv)),
            }
        }
        Ok(view)
    }

    /// Returns the lowest free slots for this demand; `None` if it does not fit. All permits count, also those in
    /// slots above a lowered limit.
    fn free_slots(&self, limit: Limit, demand: Demand) -> Option<Vec<u32>> {
        let held: BTreeSet<u32> =
            self.entries.iter().flat_map(|entry| entry.slots.iter().copied()).collect();
        let room = (limit.get() as usize).checked_sub(held.len())?;
        let wanted = demand.slots() as usize;
        let free = (0..limit.get()).filter(|slot| !held.contains(slot)).take(wanted);
        let free: Vec<u32> = free.collect();
        (room >= wanted && free.len() == wanted).then_some(free)
    }

    /// Compares that the limit has not changed.
    fn same_limit(&self, key: Vec<u8>) -> Compare {
        let changed = self.limit.as_ref().map_or(0, |limit| limit.changed);
        Compare::mod_revision(key, CompareOp::Equal, changed)
    }
}

impl Asking<'_> {
    fn put_permit(&self, slots: Vec<u32>) -> TxnOp {
        let value = write_permit(self.request, self.unix_ms(), slots);
        TxnOp::put(self.own(), value, Some(self.options()))
    }

    /// Puts our key with this transaction, and the limit if none is stored.
    ///
    /// A client of revision c26c1cc waits until no key is left that was created before its own. So if one waits, the limit,
    /// which is such a key, stays without an end: our key comes after.
    async fn put_with_limit(
        &self,
        view: &View,
        demand: Demand,
        mut when: Vec<Compare>,
        mut ops: Vec<TxnOp>,
    ) -> Result<TxnResponse, Failed> {
        let (engine, name) = (self.engine, &self.request.name);
        let Some(stored) = &view.limit else {
            when.extend([
                none(engine.keys.lock(name)),
                Compare::create_revision(engine.keys.latch(name), CompareOp::Equal, 0),
            ]);
            let id = limit::lease_id(&engine.keys.limit(name));
            let (lease, existed) = engine.grant_as(id, limit::KEEP, self.limit).await?;
            if existed {
                // Little of its time may be left.
                let until = Deadline::after(engine.clock.now(), self.limit);
                let kept = engine.clock.within(Some(until), engine.keeper.keep(lease.id)).await;
                kept.unwrap_or_else(|| Err(no_answer()))?;
            }
            let put = leasehold_etcd_api::PutOptions::new().with_lease(lease.id);
            let value = limit::write(demand.limit(), 1);
            ops.push(TxnOp::put(engine.keys.limit(name), value, Some(put)));
            return self.put(Txn::new().when(when).and_then(ops)).await;
        };
        match (stored.lease != 0, view.has_queue) {
            (true, true) => {
                let value = limit::write(stored.limit, stored.version);
                ops.push(TxnOp::put(engine.keys.limit(name), value, None));
            }
            (true, false) => when.push(none(engine.keys.lock(name))),
            (false, _) => {}
        }
        let answer = self.put(Txn::new().when(when).and_then(ops)).await?;
        engine.keep_limit(stored.lease);
        Ok(answer)
    }
}

/// Puts our key with its slots if nothing has been put under the name since the view; `None` if something was.
async fn enter_at_once(
    asking: &Asking<'_>,
    view: &View,
    demand: Demand,
    slots: Vec<u32>,
) -> Result<Option<(Seen, u64)>, Failed> {
    let (first, end) = asking.engine.keys.semaphore(&asking.request.name);
    let is_unchanged =
        Compare::mod_revision(first, CompareOp::Less, view.revision + 1).with_range(end);
    let when = vec![is_unchanged, view.same_limit(asking.engine.keys.limit(&asking.request.name))];
    let ops = vec![asking.put_permit(slots.clone())];
    let answer = asking.put_with_limit(view, demand, when, ops).await?;
    if !answer.succeeded {
        return Ok(None);
    }
    let created = revision(&answer);
    Ok(Some((held(created, created, slots)?, term(&answer))))
}

/// Puts our key as that of a waiter; `None` if the limit has changed.
async fn enter_queue(
    asking: &Asking<'_>,
    view: &View,
    demand: Demand,
) -> Result<Option<(Seen, u64)>, Failed> {
    let when = vec![
        Compare::create_revision(asking.own(), CompareOp::Equal, 0),
        view.same_limit(asking.engine.keys.limit(&asking.request.name)),
    ];
    // The second operation shows the semaphore with our key.
    let ops = vec![asking.put_permit(Vec::new()), get_all(asking)];
    let answer = asking.put_with_limit(view, demand, when, ops).await?;
    if !answer.succeeded {
        return Ok(None);
    }
    let view = View::read(asking, &answer, 1)?;
    match view.entries.iter().find(|entry| entry.key == asking.own()) {
        Some(own) => turn(asking, own, &view, demand).await.map(Some),
        None => Err(crate::error::strange("a key that was just put was not returned").into()),
    }
}

/// Decides whether the turn of our key has come, and grants it its slots then.
async fn turn(
    asking: &Asking<'_>,
    own: &Entry,
    view: &View,
    demand: Demand,
) -> Result<(Seen, u64), Failed> {
    let created = own.created;
    if !own.slots.is_empty() {
        return Ok((held(created, view.revision, own.slots.clone())?, view.term));
    }
    let limit = view.limit.as_ref().map_or(demand.limit(), |stored| stored.limit);
    if demand.slots() > limit.get() {
        leave(asking, created).await?;
        return Err(refused_by_limit(limit, demand).into());
    }
    let before = view.entries.iter().filter(|entry| entry.created < created);
    let waiters: Vec<&Entry> = before.filter(|entry| entry.slots.is_empty()).collect();
    let (range, end) = asking.engine.keys.semaphore(&asking.request.name);
    let (key, wait) = match (waiters.last(), view.free_slots(limit, demand)) {
        (None, Some(slots)) => return grant(asking, own, view, slots).await,
        (None, None) => (range, Wait::Slots(end)),
        (Some(waiter), _) => (waiter.key.clone(), Wait::Change),
    };
    if !asking.request.wait {
        leave(asking, created).await?;
        return Ok((Seen::Taken, view.term));
    }
    let place = Some(waiters.len() as u64);
    let (revision, before) = (view.revision, None);
    Ok((Seen::Behind(Behind { created, revision, key, before, wait, place }), view.term))
}

/// Gives our key, which is that of the first waiter, its slots.
async fn grant(
    asking: &Asking<'_>,
    own: &Entry,
    view: &View,
    slots: Vec<u32>,
) -> Result<(Seen, u64), Failed> {
    let txn = Txn::new()
        .when([
            Compare::mod_revision(asking.own(), CompareOp::Equal, own.changed),
            view.same_limit(asking.engine.keys.limit(&asking.request.name)),
        ])
        .and_then([asking.put_permit(slots.clone())]);
    let answer = asking.txn(txn).await?;
    if !answer.succeeded {
        return Ok((Seen::Changed, term(&answer)));
    }
    if let Some(limit) = &view.limit {
        asking.engine.keep_limit(limit.lease);
    }
    Ok((held(own.created, revision(&answer), slots)?, term(&answer)))
}

/// Leaves the queue.
async fn leave(asking: &Asking<'_>, created: i64) -> Result<(), Failed> {
    asking.txn(delete(asking.own(), created.unsigned_abs())).await?;
    asking.engine.attempts.change(asking.request.attempt, |live| live.created = None);
    Ok(())
}

fn held(created: i64, revision: i64, slots: Vec<u32>) -> Result<Seen, Failed> {
    let token = token(created)?;
    let (wanted, has_record) = (false, false);
    Ok(Seen::Held(Held { created, revision, token, slots, wanted, has_record }))
}
