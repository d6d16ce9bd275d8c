//! The turn of a writer in the queue of a lock: it comes when no other attempt is before it.

use leasehold_core::proto::fifo::{PhaseRecord, Turn, TurnToken};
use leasehold_core::{Error, ErrorKind, Token};
use leasehold_etcd_api::{
    Compare, CompareOp, GetOptions, SortOrder, SortTarget, Txn, TxnOp, TxnResponse,
};

use crate::asking::{Asking, Behind, Failed, Held, Seen, other_kind};
use crate::entry;
use crate::error::strange;
use crate::key::Range;
use crate::record::{self, Record};
use crate::transaction::{any, count, get, key_at, kv_at, none, revision, term, token};
use crate::watcher::Wait;

/// Puts our key if it does not exist, and reads the queue.
pub(crate) async fn look(asking: &Asking<'_>) -> Result<(Seen, u64), Failed> {
    let live = asking.live;
    let created = match live.created {
        Some(created) => created,
        None => {
            let wait = asking.request.wait;
            let answer = asking.put(if wait { enter(asking) } else { attempt(asking) }).await?;
            if answer.succeeded {
                let seen = entered(asking, &answer).await?;
                return Ok((seen, term(&answer)));
            }
            match (kv_at(&answer, 0, 0), key_at(&answer, 1, 0)) {
                (Some(own), _) => match asking.under_another_lease(&own).await? {
                    Some(seen) => return Ok(seen),
                    None => own.create_revision,
                },
                (None, Some((other, _))) => return Err(other_kind(asking.engine, &other).into()),
                (None, None) if wait => {
                    return Err(strange("a key that exists was not returned").into());
                }
                (None, None) => return Ok((Seen::Taken, term(&answer))),
            }
        }
    };
    let (first, end) = asking.engine.keys.lock(&asking.request.name);
    let before = last(end, 1).with_max_create_revision(created - 1);
    let gets = vec![get(asking.own()), TxnOp::get(first, Some(before))];
    let gets = and(gets, asking.get_queue_record());
    if asking.believes_member && live.before.is_none() && live.created.is_some() {
        // Told that the key before ours is gone. A state that has our key and none before it is enough, however old it
        // is: no key comes before ours later. The latest state would be known only after the writes that are under way.
        let gets: Vec<TxnOp> = gets.iter().cloned().map(TxnOp::serializable).collect();
        let answer = asking.txn(Txn::new().and_then(gets)).await?;
        let is_there = asking.is_own(kv_at(&answer, 0, 0).as_ref(), created);
        if is_there && key_at(&answer, 1, 0).is_none() {
            return Ok((first_in_line(asking, created, &answer, 2).await?, term(&answer)));
        }
    }
    let txn = match &live.before {
        // The queue is read once the key before ours is gone.
        Some((key, at)) => Txn::new()
            .when([Compare::create_revision(&**key, CompareOp::Equal, *at)])
            .and_then([get(asking.own())])
            .or_else(gets),
        None => Txn::new().and_then(gets),
    };
    let answer = asking.txn(txn).await?;
    if !asking.is_own(kv_at(&answer, 0, 0).as_ref(), created) {
        return Ok((Seen::Gone, term(&answer)));
    }
    if let Some(before) = live.before.clone().filter(|_| answer.succeeded) {
        return Ok((behind(created, Some(before), None, &answer)?, term(&answer)));
    }
    let seen = match key_at(&answer, 1, 0) {
        None => first_in_line(asking, created, &answer, 2).await?,
        before => behind(created, before, None, &answer)?,
    };
    Ok((seen, term(&answer)))
}

/// Returns the options to read the last keys of a range.
pub(crate) fn last(end: Vec<u8>, many: i64) -> GetOptions {
    GetOptions::new()
        .with_range(end)
        .with_sort(SortTarget::Create, SortOrder::Descend)
        .with_keys_only()
        .with_limit(many)
}

/// Puts our key at the end of the queue, and returns the last key before it.
fn enter(asking: &Asking<'_>) -> Txn {
    let (first, end) = asking.engine.keys.lock(&asking.request.name);
    let gets = vec![TxnOp::get(first, Some(last(end, 2)))];
    asking.entering(and(gets, asking.get_queue_record()))
}

/// Puts our key if the queue is empty.
fn attempt(asking: &Asking<'_>) -> Txn {
    let (keys, name) = (&asking.engine.keys, &asking.request.name);
    Txn::new()
        .when(and(vec![none(keys.lock(name))], asking.other_kinds().map(none)))
        .and_then(and(vec![asking.put_entry()], asking.get_queue_record()))
        .or_else(and(vec![get(asking.own())], asking.other_kinds().map(any)))
}

fn and<T>(mut all: Vec<T>, more: Option<T>) -> Vec<T> {
    all.extend(more);
    all
}

async fn entered(asking: &Asking<'_>, answer: &TxnResponse) -> Result<Seen, Failed> {
    let created = revision(answer);
    if !asking.request.wait {
        return first_in_line(asking, created, answer, 1).await;
    }
    match key_at(answer, 1, 0) {
        Some((key, at)) if key == asking.own() && at == created => {}
        _ => return Err(strange("a key that was just put is not the last").into()),
    }
    match key_at(answer, 1, 1) {
        None => first_in_line(asking, created, answer, 2).await,
        before => {
            let place = count(answer, 1).and_then(|count| count.checked_sub(2));
            behind(created, before, place, answer)
        }
    }
}

fn behind(
    created: i64,
    before: Option<(Vec<u8>, i64)>,
    place: Option<u64>,
    answer: &TxnResponse,
) -> Result<Seen, Failed> {
    let (key, at) = before.ok_or_else(|| strange("no key is before ours"))?;
    let (revision, before, wait) = (revision(answer), Some(at), Wait::Deletion);
    Ok(Seen::Behind(Behind { created, revision, key, before, wait, place }))
}

/// Finds the token of a writer whose turn has come. `op` has read the record.
async fn first_in_line(
    asking: &Asking<'_>,
    created: i64,
    answer: &TxnResponse,
    op: usize,
) -> Result<Seen, Failed> {
    let record = Record::read(kv_at(answer, op, 0).as_ref())?;
    let turn = Turn { place: created, created: token(created)?, first: created, run: None };
    asking.take_turn(turn, record, revision(answer), false).await
}

impl Asking<'_> {
    /// Returns the transaction that puts our key and reads this, if we have no key. Its first read, if it fails, is that
    /// of our key; the second one that of another kind under the name.
    pub(crate) fn entering(&self, gets: Vec<TxnOp>) -> Txn {
        let is_new = Compare::create_revision(self.own(), CompareOp::Equal, 0);
        Txn::new()
            .when(and(vec![is_new], self.other_kinds().map(none)))
            .and_then([vec![self.put_entry()], gets].concat())
            .or_else(and(vec![get(self.own())], self.other_kinds().map(any)))
    }

    /// Returns the range of other kinds under the name, if the format has some.
    fn other_kinds(&self) -> Option<Range> {
        let keys = &self.engine.keys;
        (!keys.is_wire()).then(|| keys.other_kinds(&self.request.name))
    }

    pub(crate) fn put_entry(&self) -> TxnOp {
        let value = match self.engine.keys.is_wire() {
            true => entry::write_named(self.request, self.unix_ms()),
            false => entry::write(self.request, self.unix_ms()),
        };
        TxnOp::put(self.own(), value, Some(self.options()))
    }

    /// Returns the read of the record, if the format has one.
    fn get_queue_record(&self) -> Option<TxnOp> {
        (!self.engine.keys.is_wire()).then(|| self.get_record())
    }

    pub(crate) fn get_record(&self) -> TxnOp {
        TxnOp::get(self.engine.keys.phase(&self.request.name), None)
    }

    /// Finds the token of an attempt whose turn has come, and registers it where that is needed. Queue and record
    /// are those of one revision.
    pub(crate) async fn take_turn(
        &self,
        turn: Turn<i64>,
        record: Record,
        revision: i64,
        wanted: bool,
    ) -> Result<Seen, Failed> {
        let held = |token: Token, has_record: bool| {
            let (created, slots) = (turn.place, Vec::new());
            Seen::Held(Held { created, revision, token, slots, wanted, has_record })
        };
        match turn.token(record.phase) {
            Some(TurnToken::Has(token)) => Ok(held(token, record.changed != 0)),
            Some(TurnToken::Register(new)) => {
                let stored = self.register(turn.place, new, record).await?;
                Ok(if stored { held(new.token, true) } else { Seen::Changed })
            }
            None => Err(used_up().into()),
        }
    }

    /// Stores a record if it has not changed, and if our key exists.
    async fn register(
        &self,
        created: i64,
        new: PhaseRecord<i64>,
        record: Record,
    ) -> Result<bool, Failed> {
        let key = self.engine.keys.phase(&self.request.name);
        let txn = Txn::new()
            .when([
                Compare::create_revision(self.own(), CompareOp::Equal, created),
                Compare::mod_revision(&*key, CompareOp::Equal, record.changed),
            ])
            .and_then([TxnOp::put(&*key, record::write(new), None)]);
        Ok(self.txn(txn).await?.succeeded)
    }
}

pub(crate) fn used_up() -> Error {
    Error::new(
        ErrorKind::Foreign,
        "the lock has no token left (2^53-1 was reached); use another lock name",
    )
}
