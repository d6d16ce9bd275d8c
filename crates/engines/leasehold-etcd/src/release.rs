//! Releases an attempt: deletes its key, and keeps its lease for reuse or revokes it.

use leasehold_core::backend::{Ended, ReleaseRequest, Verdict};
use leasehold_core::{AttemptId, Error, ErrorKind, Forced, Name, Result, Token};

use crate::engine::{Engine, LIMIT};
use crate::lease::Lease;
use crate::transaction::{delete, token};

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
                Some(base) => give_back(engine, release, base, live.ending > 1).await?,
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
async fn give_back(
    engine: &Engine,
    release: &ReleaseRequest,
    base: Token,
    before: bool,
) -> Result<Verdict> {
    let key = engine.keys.of(&release.name, release.attempt);
    let deleted = engine.txn_called(LIMIT, delete(&key, base.get())).await?;
    Ok(match deleted.value.succeeded() {
        true => Verdict::Released,
        // Either an earlier request of this client deleted the key, or it was already gone.
        false if before || deleted.again => Verdict::Unknown,
        false => Verdict::Lost,
    })
}

/// Revokes a lease; in the background if no key depends on it.
async fn revoke_or_leave(engine: &Engine, lease: Lease, matters: bool) -> Result<()> {
    if !matters {
        engine.revoke_later(vec![lease]);
        return Ok(());
    }
    engine.revoke(lease.id, LIMIT).await
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
