//! The turn of a reader in the queue of a lock: it comes when no writer is before it.

use leasehold_core::proto::fifo::Turn;
use leasehold_etcd_api::{GetOptions, SortOrder, SortTarget, Txn, TxnOp, TxnResponse};

use crate::asking::{Asking, Behind, Failed, Seen, other_kind};
use crate::entry::Entry;
use crate::error::strange;
use crate::queue::last;
use crate::record::Record;
use crate::transaction::{
    any, count, created_at, delete, get, key_at, kv_at, revision, term, token,
};
use crate::watcher::Wait;

/// The queue with its record, as of one revision.
struct View {
    revision: i64,
    record: Record,
    /// The first entry.
    head: Option<Entry>,
    /// The first two writers, and the last one: key and create revision.
    writers: [Option<(Vec<u8>, i64)>; 2],
    last_writer: Option<(Vec<u8>, i64)>,
    /// How many entries there are.
    count: Option<u64>,
}

/// Puts our key if it does not exist, and reads the queue.
pub(crate) async fn look(asking: &Asking<'_>) -> Result<(Seen, u64), Failed> {
    let created = match asking.live.created {
        Some(created) => created,
        None => {
            if !asking.request.wait
                && let Some(taken) = is_taken(asking).await?
            {
                return Ok(taken);
            }
            let answer = asking.put(asking.entering(gets(asking))).await?;
            if answer.succeeded {
                let created = revision(&answer);
                let view = View::read(asking, &answer, 1)?;
                // All writers are before us.
                let before = view.last_writer.clone();
                return turn(asking, created, view, before, &answer).await;
            }
            match (kv_at(&answer, 0, 0), key_at(&answer, 1, 0)) {
                (Some(own), _) => match asking.under_another_lease(&own).await? {
                    Some(seen) => return Ok(seen),
                    None => own.create_revision,
                },
                (None, Some((other, _))) => return Err(other_kind(asking.engine, &other).into()),
                (None, None) => return Err(strange("a key that exists was not returned").into()),
            }
        }
    };
    let (first, end) = asking.engine.keys.writers(&asking.request.name);
    let before = last(end, 1).with_max_create_revision(created - 1);
    let own = [get(asking.own()), TxnOp::get(first, Some(before))];
    let answer = asking.txn(Txn::new().and_then([own.into(), gets(asking)].concat())).await?;
    if created_at(&answer, 0, 0) != Some(created) {
        return Ok((Seen::Gone, term(&answer)));
    }
    let view = View::read(asking, &answer, 2)?;
    turn(asking, created, view, key_at(&answer, 1, 0), &answer).await
}

/// Reads the queue for an attempt that does not wait; `None` if no writer is in it.
async fn is_taken(asking: &Asking<'_>) -> Result<Option<(Seen, u64)>, Failed> {
    let (engine, name) = (asking.engine, &asking.request.name);
    let own = vec![get(asking.own()), any(engine.keys.other_kinds(name))];
    let answer = asking.txn(Txn::new().and_then([own, gets(asking)].concat())).await?;
    if kv_at(&answer, 0, 0).is_some() {
        return Ok(None);
    }
    if let Some((other, _)) = key_at(&answer, 1, 0) {
        return Err(other_kind(engine, &other).into());
    }
    let view = View::read(asking, &answer, 2)?;
    let (before, place) = (view.last_writer.clone(), view.revision + 1);
    let blocks = view.blocks(place, before).is_some();
    Ok(blocks.then(|| (Seen::Taken, term(&answer))))
}

/// The reads of a view.
fn gets(asking: &Asking<'_>) -> Vec<TxnOp> {
    let ascending = |many: i64| {
        GetOptions::new().with_sort(SortTarget::Create, SortOrder::Ascend).with_limit(many)
    };
    let (keys, name) = (&asking.engine.keys, &asking.request.name);
    let ((all, all_end), (writers, end)) = (keys.lock(name), keys.writers(name));
    let first_two = ascending(2).with_range(end.clone()).with_keys_only();
    vec![
        asking.get_record(),
        TxnOp::get(all, Some(ascending(1).with_range(all_end))),
        TxnOp::get(writers.clone(), Some(first_two)),
        TxnOp::get(writers, Some(last(end, 1))),
    ]
}

impl View {
    /// Reads the answers from the one with this number on.
    fn read(asking: &Asking<'_>, answer: &TxnResponse, op: usize) -> Result<Self, Failed> {
        let head = kv_at(answer, op + 1, 0);
        Ok(Self {
            revision: revision(answer),
            record: Record::read(kv_at(answer, op, 0).as_ref())?,
            head: head.and_then(|kv| Entry::read(&asking.engine.keys, &kv)),
            writers: [0, 1].map(|place| key_at(answer, op + 2, place)),
            last_writer: key_at(answer, op + 3, 0),
            count: count(answer, op + 1),
        })
    }

    /// Returns true for a writer that a conversion has made a reader: only the first entry can be one.
    fn is_converted(&self, created: i64) -> bool {
        self.head.as_ref().is_some_and(|head| head.created == created && head.reads())
    }

    /// Returns the key that a reader at this place waits for: the last writer before it. `before` is the last key of a
    /// writer there.
    fn blocks(&self, place: i64, before: Option<(Vec<u8>, i64)>) -> Option<Vec<u8>> {
        if let Some((key, created)) = before
            && !self.is_converted(created)
        {
            return Some(key);
        }
        // A conversion may have made the first reader a writer.
        let head = self.head.as_ref().filter(|head| head.created < place && !head.reads());
        head.map(|head| head.key.clone())
    }

    /// Returns the place up to which all entries read.
    fn run(&self) -> i64 {
        let writers = self.writers.iter().flatten().map(|(_, created)| *created);
        let first = writers.filter(|created| !self.is_converted(*created)).min();
        first.map_or(self.revision, |first| first - 1)
    }
}

/// Decides whether our turn has come. `before` is the last key of a writer before ours.
async fn turn(
    asking: &Asking<'_>,
    created: i64,
    view: View,
    before: Option<(Vec<u8>, i64)>,
    answer: &TxnResponse,
) -> Result<(Seen, u64), Failed> {
    let (term, revision) = (term(answer), view.revision);
    if let Some(key) = view.blocks(created, before) {
        if !asking.request.wait {
            return leave(asking, created).await;
        }
        let place = view.count.filter(|_| created == revision).and_then(|all| all.checked_sub(1));
        let (before, wait) = (None, Wait::Change);
        return Ok((Seen::Behind(Behind { created, revision, key, before, wait, place }), term));
    }
    let first = view.head.as_ref().map_or(created, |head| head.created);
    let run = Some(view.run());
    let turn = Turn { place: created, created: token(created)?, first, run };
    let wanted = view.last_writer.as_ref().is_some_and(|(_, writer)| *writer > created);
    Ok((asking.take_turn(turn, view.record, revision, wanted).await?, term))
}

/// Leaves the queue: a writer came first.
async fn leave(asking: &Asking<'_>, created: i64) -> Result<(Seen, u64), Failed> {
    let answer = asking.txn(delete(asking.own(), created.unsigned_abs())).await?;
    asking.engine.attempts.change(asking.request.attempt, |live| live.created = None);
    Ok((Seen::Taken, term(&answer)))
}
