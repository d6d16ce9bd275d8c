//! Releases an attempt: deletes its key, and keeps its lease for reuse or revokes it.

use std::time::Duration;

use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use leasehold_core::backend::{End, Ended, Forced, Verdict};
use leasehold_core::{AttemptId, Error, ErrorKind, Name, Result, Token};

use crate::acquire::token;
use crate::backend::{Engine, LIMIT};
use crate::error::Cause;
use crate::lease::Lease;

/// Releases an attempt.
pub(crate) async fn release(engine: &Engine, end: &End) -> Result<Ended> {
    if end.keep.is_some() || end.then.is_some() {
        let what = if end.keep.is_some() { "keep" } else { "then" };
        let message = format!("etcd: {what} is not supported");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let verdict = match engine.attempts.end(end.attempt) {
        Err(verdict) => verdict,
        Ok(live) => {
            engine.watcher.leave(end.attempt);
            // If the put was sent twice, the second one may create the key again after this delete.
            let suspect = end.suspect || live.open > 0 || live.resent;
            let verdict = match end.base {
                Some(base) => give_back(engine, end, base, live.ending > 1).await?,
                None => Verdict::Gone,
            };
            engine.revoke_later(live.moved);
            if let Some(lease) = live.lease {
                let healthy = verdict == Verdict::Released && !suspect;
                if !healthy || !engine.pool.put(live.asked, lease, live.alive) {
                    // This deletes all keys under the lease, and the server refuses later puts under it.
                    revoke_or_leave(engine, lease, end.base.is_none() || suspect).await?;
                }
            }
            engine.attempts.ended(end.attempt, verdict);
            verdict
        }
    };
    Ok(Ended::new(verdict, None))
}

/// Deletes the key if it still belongs to the lease.
async fn give_back(engine: &Engine, end: &End, base: Token, before: bool) -> Result<Verdict> {
    let key = engine.keys.of(&end.name, end.attempt);
    let deleted = engine.txn_called(LIMIT, delete(&key, base.get())).await?;
    Ok(match deleted.value.succeeded() {
        true => Verdict::Released,
        // Either an earlier request of this client deleted the key, or it was already gone.
        false if before || deleted.again => Verdict::Unknown,
        false => Verdict::Lost,
    })
}

/// Returns the transaction that deletes a key if its create revision is still this one.
pub(crate) fn delete(key: &[u8], created: u64) -> Txn {
    let created = i64::try_from(created).unwrap_or(i64::MAX);
    Txn::new()
        .when([Compare::create_revision(key, CompareOp::Equal, created)])
        .and_then([TxnOp::delete(key, None)])
}

/// Revokes a lease; in the background if no key depends on it.
async fn revoke_or_leave(engine: &Engine, lease: Lease, matters: bool) -> Result<()> {
    if !matters {
        engine.revoke_later(vec![lease]);
        return Ok(());
    }
    revoke(engine, lease.id, LIMIT).await
}

/// Revokes a lease; an expired lease is not an error.
pub(crate) async fn revoke(engine: &Engine, lease: i64, limit: Duration) -> Result<()> {
    let revoke =
        |client: etcd_client::Client| async move { client.lease_client().revoke(lease).await };
    match engine.members.call(limit, revoke).await {
        Ok(_) => Ok(()),
        Err(failed) if failed.cause == Cause::NoLease => Ok(()),
        Err(failed) => Err(failed.error),
    }
}

/// Revokes the lease of a token if its key is the first in the queue.
pub(crate) async fn force_release(engine: &Engine, name: &Name, wanted: Token) -> Result<Forced> {
    loop {
        let Some((key, created)) = crate::status::first(engine, name).await? else {
            return Ok(Forced::NotHeld);
        };
        let current = token(created)?;
        if current != wanted {
            return Ok(Forced::Other(current));
        }
        let deleted = engine.txn_called(LIMIT, delete(&key, current.get())).await?;
        if deleted.value.succeeded() || deleted.again {
            return Ok(Forced::Ended);
        }
    }
}

/// Ends an attempt in the background, without waiting.
pub(crate) fn abandon(engine: &Engine, attempt: AttemptId) {
    let Ok(live) = engine.attempts.end(attempt) else { return };
    engine.watcher.leave(attempt);
    engine.revoke_later(live.lease.into_iter().chain(live.moved).collect());
    engine.attempts.ended(attempt, Verdict::Unknown);
}
