//! Releases an attempt: deletes its key, and keeps its lease for reuse or revokes it.

use leasehold_core::backend::{Ended, Mode, ReleaseRequest, Verdict};
use leasehold_core::{AttemptId, Error, ErrorKind, Forced, Name, Result, Token};
use leasehold_etcd_api::{Compare, CompareOp, Txn, TxnOp};

use crate::attempts::Live;
use crate::engine::{Engine, LIMIT};
use crate::entry::Entry;
use crate::lease::Lease;
use crate::transaction::{any, delete, revision};

/// Releases an attempt.
pub(crate) async fn release(engine: &Engine, release: &ReleaseRequest) -> Result<Ended> {
    if release.keep.is_some() || release.then.is_some() {
        let what = if release.keep.is_some() { "keep" } else { "then" };
        let message = format!("etcd: {what} is not supported");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let verdict = match engine.attempts.end(release.attempt) {
        Err(verdict) => verdict,
        Ok(live) => {
            engine.watcher.leave(release.attempt);
            // If the put was sent twice, the second one may create the key again after this delete.
            let suspect = release.suspect || live.open > 0 || live.resent;
            let verdict = match release.base {
                Some(base) => give_back(engine, &release.name, &live, base).await?,
                None => Verdict::Gone,
            };
            engine.revoke_later(live.moved);
            if let Some(lease) = live.lease {
                let healthy = verdict == Verdict::Released && !suspect;
                if !healthy || !engine.pool.put(live.asked, lease, live.alive) {
                    // This deletes all keys under the lease, and the server refuses later puts under it.
                    revoke_or_leave(engine, lease, release.base.is_none() || suspect).await?;
                }
            }
            engine.attempts.ended(release.attempt, verdict);
            verdict
        }
    };
    Ok(Ended::new(verdict, None))
}

/// Deletes the key if it still belongs to the lease.
async fn give_back(engine: &Engine, name: &Name, live: &Live, base: Token) -> Result<Verdict> {
    let created = live.created.filter(|_| live.token == Some(base));
    let Some(created) = created else { return Ok(Verdict::Lost) };
    let deleted = engine.txn_called(LIMIT, leave(engine, name, live, created)).await?;
    if let Some(found) = deleted.value.range(1).filter(|found| found.count == 1)
        && let Some(next) = found.kvs.first()
    {
        engine.successors.note(name, next.key.clone(), revision(&deleted.value));
    }
    Ok(match deleted.value.succeeded {
        true => Verdict::Released,
        // Either an earlier request of this client deleted the key, or it was already gone.
        false if live.ending > 1 || deleted.again => Verdict::Unknown,
        false => Verdict::Lost,
    })
}

/// Deletes the key of a holder. The last one of a queue with a record deletes the record too: tokens grow with
/// the revisions of the server, so those of a later record are larger.
fn leave(engine: &Engine, name: &Name, live: &Live, created: i64) -> Txn {
    let mut own = vec![Compare::create_revision(&*live.key, CompareOp::Equal, created)];
    if let Some(lease) = live.lease.filter(|_| engine.keys.is_wire() && live.moved.is_empty()) {
        // Another program may have put it under another lease: then it is not ours to delete.
        own.push(Compare::lease(&*live.key, CompareOp::Equal, lease.id));
    }
    let mut ops = vec![TxnOp::delete(&*live.key)];
    if live.waited && live.mode == Mode::Exclusive && !engine.keys.is_wire() {
        // Clients take turns: this one may ask again at once, behind the one that is left.
        ops.push(any(engine.keys.lock(name)));
    }
    if live.has_record {
        let (first, end) = engine.keys.lock(name);
        let is_last = Compare::create_revision(first, CompareOp::Equal, created).with_range(end);
        let record = TxnOp::delete(engine.keys.phase(name));
        ops.push(TxnOp::txn(Txn::new().when([is_last]).and_then([record])));
    }
    Txn::new().when(own).and_then(ops)
}

/// Revokes a lease; in the background if no key depends on it.
async fn revoke_or_leave(engine: &Engine, lease: Lease, matters: bool) -> Result<()> {
    if !matters {
        engine.revoke_later(vec![lease]);
        return Ok(());
    }
    engine.revoke(lease.id, LIMIT).await
}

/// Deletes the keys of the holders if this is their token: of a writer, of all readers, or of a permit.
pub(crate) async fn force_release(engine: &Engine, name: &Name, wanted: Token) -> Result<Forced> {
    loop {
        let stored = crate::status::read(engine, name).await?;
        let Some((holding, current)) = stored.holders() else {
            let is_named = |entry: &&Entry| {
                !entry.slots.is_empty() && u64::try_from(entry.created) == Ok(wanted.get())
            };
            let Some(permit) = stored.permits.iter().find(is_named) else {
                return Ok(Forced::NotHeld);
            };
            let deleted = engine.txn_called(LIMIT, delete(&permit.key, wanted.get())).await?;
            let is_ended = deleted.value.succeeded || deleted.again;
            return Ok(if is_ended { Forced::Ended } else { Forced::NotHeld });
        };
        if current != wanted {
            return Ok(Forced::Other(current));
        }
        let mut is_ended = false;
        for entry in stored.queue.iter().take(holding) {
            let created = u64::try_from(entry.created).unwrap_or_default();
            let deleted = engine.txn_called(LIMIT, delete(&entry.key, created)).await?;
            is_ended |= deleted.value.succeeded || deleted.again;
        }
        if is_ended {
            return Ok(Forced::Ended);
        }
    }
}

/// Ends the lease of one attempt that holds, by removing its key.
pub(crate) async fn force_release_attempt(
    engine: &Engine,
    name: &Name,
    attempt: AttemptId,
) -> Result<Forced> {
    let stored = crate::status::read(engine, name).await?;
    let holding = stored.holders().map_or(0, |(holding, _)| holding);
    let permits = stored.permits.iter().filter(|entry| !entry.slots.is_empty());
    let mut held = stored.queue.iter().take(holding).chain(permits);
    let Some(entry) = held.find(|entry| entry.attempt == attempt) else {
        return Ok(Forced::NotHeld);
    };
    let created = u64::try_from(entry.created).unwrap_or_default();
    let deleted = engine.txn_called(LIMIT, delete(&entry.key, created)).await?;
    let is_ended = deleted.value.succeeded || deleted.again;
    Ok(if is_ended { Forced::Ended } else { Forced::NotHeld })
}

/// Ends an attempt in the background, without waiting.
pub(crate) fn abandon(engine: &Engine, attempt: AttemptId) {
    let Ok(live) = engine.attempts.end(attempt) else { return };
    engine.watcher.leave(attempt);
    engine.revoke_later(live.lease.into_iter().chain(live.moved).collect());
    engine.attempts.ended(attempt, Verdict::Unknown);
}
