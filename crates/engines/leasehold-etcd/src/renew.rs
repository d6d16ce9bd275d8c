//! Renews leases in batches: keeps each lease alive and checks that its key exists.

use std::time::Duration;

use etcd_client::{GetOptions, Txn, TxnOp};
use futures_util::future::join_all;
use leasehold_core::backend::{Renewal, Renewed};
use leasehold_core::{Deadline, Error, ErrorKind, Result};

use crate::acquire::{created_at, term};
use crate::backend::{Engine, limit};
use crate::error::leader_changed;
use crate::keeper::Kept;

/// The number of keys that one request reads: servers allow 128 operations by default.
const LOOK: usize = 100;

/// Renews a batch; returns the answers in the order of the leases.
pub(crate) async fn renew(engine: &Engine, leases: &[Renewal]) -> Vec<Result<Renewed>> {
    let shortest = leases.iter().map(|lease| lease.ttl).min().unwrap_or_default();
    let limit = limit(shortest);
    let parts = leases.chunks(LOOK).map(|part| renew_part(engine, part, limit));
    join_all(parts).await.into_iter().flatten().collect()
}

async fn renew_part(engine: &Engine, part: &[Renewal], limit: Duration) -> Vec<Result<Renewed>> {
    let until = Deadline::after(engine.clock.now(), limit);
    let sent = engine.clock.now();
    let keys = part.iter().map(|renewal| engine.keys.of(&renewal.name, renewal.attempt));
    let gets: Vec<TxnOp> =
        keys.map(|key| TxnOp::get(key, Some(GetOptions::new().with_keys_only()))).collect();
    let keep = part.iter().map(|renewal| keep(engine, renewal, until));
    let (kept, looked) = tokio::join!(join_all(keep), engine.txn(limit, Txn::new().and_then(gets)));
    let looked = match looked {
        Ok(looked) => looked,
        Err(failed) => return part.iter().map(|_| Err(failed.error.clone())).collect(),
    };
    let found = looked.op_responses().len();
    if found != part.len() {
        let error = || Err(crate::error::strange("keys are missing"));
        return part.iter().map(|_| error()).collect();
    }
    let each = part.iter().zip(kept).enumerate();
    each.map(|(place, (renewal, kept))| {
        let base = i64::try_from(renewal.base.get()).ok();
        if created_at(&looked, place, 0) != base {
            return Ok(Renewed::Lost);
        }
        match kept? {
            None => Ok(Renewed::Lost),
            // A deposed leader may keep a lease alive that the new leader considers expired. The read went
            // through the leader of its term: if both terms are equal, it was still the leader.
            Some(term_kept) if term_kept != term(&looked) => Err(leader_changed()),
            Some(_) => {
                engine.attempts.change(renewal.attempt, |live| live.alive = sent);
                Ok(Renewed::Renewed)
            }
        }
    })
    .collect()
}

/// Keeps one lease alive. Returns the leader's term, or `None` if the lease has expired.
async fn keep(engine: &Engine, renewal: &Renewal, until: Deadline) -> Result<Option<u64>> {
    // An attempt that was released or never granted has no lease.
    let lease = engine.attempts.change(renewal.attempt, |live| live.lease).flatten();
    let Some(lease) = lease.filter(|lease| lease.time() >= renewal.ttl) else { return Ok(None) };
    let keep = engine.clock.within(Some(until), engine.keeper.keep(lease.id));
    match keep.await {
        Some(Ok(Kept::Alive { term, .. })) => Ok(Some(term)),
        Some(Ok(Kept::Gone)) => Ok(None),
        Some(Err(error)) => Err(error),
        None => Err(Error::new(ErrorKind::Unavailable, "the server did not answer in time")),
    }
}
