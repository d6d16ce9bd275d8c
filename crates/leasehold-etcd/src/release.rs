//! Ending an attempt: its key goes, and its lease is kept for the next or goes too.

use std::time::Duration;

use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use leasehold_core::backend::{End, Ended, Forced, Verdict};
use leasehold_core::{AttemptId, Error, ErrorKind, Name, Result, Token};

use crate::acquire::token;
use crate::backend::{Engine, LIMIT};
use crate::error::Cause;
use crate::lease::Lease;

/// Ends an attempt.
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
            // A key that was put twice may come back when this one has been deleted.
            let suspect = end.suspect || live.open > 0 || live.resent;
            let verdict = match end.base {
                Some(base) => give_back(engine, end, base, live.ending > 1).await?,
                None => Verdict::Gone,
            };
            if let Some(lease) = live.lease {
                let healthy = verdict == Verdict::Released && !suspect;
                if !healthy || !engine.pool.put(live.asked, lease, live.alive) {
                    // With it goes what was put under it, and what may still be put is refused.
                    revoke_or_leave(engine, lease, end.base.is_none() || suspect).await?;
                }
            }
            engine.attempts.ended(end.attempt, verdict);
            verdict
        }
    };
    Ok(Ended { verdict, then: None })
}

/// Deletes the key if it is still that of the lease.
async fn give_back(engine: &Engine, end: &End, base: Token, before: bool) -> Result<Verdict> {
    let key = engine.keys.of(&end.name, end.attempt);
    let deleted = engine.txn_called(LIMIT, delete(&key, base.get())).await?;
    Ok(match deleted.value.succeeded() {
        true => Verdict::Released,
        // It went by an earlier one of our own, or before it.
        false if before || deleted.again => Verdict::Unknown,
        false => Verdict::Lost,
    })
}

/// Deletes a key if it is still the one that was created then.
pub(crate) fn delete(key: &[u8], created: u64) -> Txn {
    let created = i64::try_from(created).unwrap_or(i64::MAX);
    Txn::new()
        .when([Compare::create_revision(key, CompareOp::Equal, created)])
        .and_then([TxnOp::delete(key, None)])
}

/// Revokes a lease; in the background when nothing hangs on it.
async fn revoke_or_leave(engine: &Engine, lease: Lease, matters: bool) -> Result<()> {
    if !matters {
        engine.revoke_later(vec![lease]);
        return Ok(());
    }
    revoke(engine, lease.id, LIMIT).await
}

/// Revokes a lease, and is content if it has ended.
pub(crate) async fn revoke(engine: &Engine, lease: i64, limit: Duration) -> Result<()> {
    let revoke =
        |client: etcd_client::Client| async move { client.lease_client().revoke(lease).await };
    match engine.members.call(limit, revoke).await {
        Ok(_) => Ok(()),
        Err(failed) if failed.cause == Cause::NoLease => Ok(()),
        Err(failed) => Err(failed.error),
    }
}

/// Ends the lease that a token belongs to, if it is the first in its line.
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

/// What is done about an attempt without waiting.
pub(crate) fn abandon(engine: &Engine, attempt: AttemptId) {
    let Ok(live) = engine.attempts.end(attempt) else { return };
    engine.watcher.leave(attempt);
    if let Some(lease) = live.lease {
        engine.revoke_later(vec![lease]);
    }
    engine.attempts.ended(attempt, Verdict::Unknown);
}
