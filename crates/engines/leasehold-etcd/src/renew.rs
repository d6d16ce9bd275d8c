//! Renews leases in batches: keeps each lease alive and checks that its key exists. A renewal for
//! longer than the lease is an extension.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::backend::{Renewal, Renewed};
use leasehold_core::{Deadline, Error, ErrorKind, Result};
use leasehold_etcd_api::{GetOptions, Txn, TxnOp};

use crate::engine::{Engine, limit};
use crate::error::leader_changed;
use crate::extend::{Moving, extend, under_way};
use crate::lease::Lease;
use crate::lease_keeper::Kept;
use crate::transaction::term;

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
    let own: Vec<Option<(Vec<u8>, i64)>> =
        part.iter().map(|renewal| own_key(engine, renewal)).collect();
    let plans = part.iter().zip(&own).map(|(renewal, own)| match own {
        Some(_) => plan(engine, renewal),
        None => Plan::Lost,
    });
    let plans: Vec<Plan> = plans.collect();
    let gets: Vec<TxnOp> = own
        .iter()
        .flatten()
        .map(|(key, _)| TxnOp::get(&**key, Some(GetOptions::new().with_keys_only())))
        .collect();
    if gets.is_empty() {
        return part.iter().map(|_| Ok(Renewed::Lost)).collect();
    }
    let keep = part.iter().zip(plans).map(|(renewal, plan)| keep(engine, renewal, plan, until));
    let (kept, looked) = tokio::join!(join_all(keep), engine.txn(limit, Txn::new().and_then(gets)));
    let looked = match looked {
        Ok(looked) => looked,
        Err(failed) => return part.iter().map(|_| Err(failed.error.clone())).collect(),
    };
    let mut ops = 0..;
    let each = part.iter().zip(kept).zip(own);
    each.map(|((renewal, kept), own)| {
        let Some((_, created)) = own else { return Ok(Renewed::Lost) };
        let Some(found) = ops.next().and_then(|op| looked.range(op)) else {
            return Err(crate::error::strange("keys are missing"));
        };
        let Some(kv) = found.kvs.first().filter(|kv| kv.create_revision == created) else {
            return Ok(Renewed::Lost);
        };
        let is_bound = |kept: i64| {
            !engine.keys.is_wire()
                || kv.lease == kept
                || engine.attempts.owns(renewal.attempt, kv.lease)
        };
        match kept? {
            Done::Lost => Ok(Renewed::Lost),
            // Another program has put it under another lease.
            Done::Kept { lease, .. } if !is_bound(lease) => Ok(Renewed::Lost),
            Done::Extended => Ok(Renewed::Renewed),
            // A deposed leader may keep a lease alive that the new leader considers expired. The read went
            // through the leader of its term: if both terms are equal, it was still the leader.
            Done::Kept { term: kept, .. } if kept != term(&looked) => Err(leader_changed()),
            Done::Kept { .. } => {
                engine.attempts.change(renewal.attempt, |live| live.alive = sent);
                Ok(Renewed::Renewed)
            }
        }
    })
    .collect()
}

/// Returns the key of the lease and its create revision; `None` if the attempt has no lease of this token.
fn own_key(engine: &Engine, renewal: &Renewal) -> Option<(Vec<u8>, i64)> {
    let own = engine.attempts.change(renewal.attempt, |live| {
        let created = live.created.filter(|_| live.token == Some(renewal.base))?;
        Some((live.key.clone(), created))
    });
    own.flatten()
}

/// How one lease is renewed.
enum Plan {
    /// An attempt that was released or never granted has no lease.
    Lost,
    Keep(Lease),
    Extend(Moving),
    /// The key is being moved to another lease.
    Busy,
}

/// What became of one lease.
enum Done {
    Lost,
    /// The leader of this term has kept this lease alive.
    Kept {
        term: u64,
        lease: i64,
    },
    Extended,
}

fn plan(engine: &Engine, renewal: &Renewal) -> Plan {
    let plan = engine.attempts.change(renewal.attempt, |live| match live.lease {
        None => Plan::Lost,
        Some(_) if live.moving => Plan::Busy,
        Some(lease) if lease.time() >= renewal.ttl && live.moved.is_empty() => Plan::Keep(lease),
        Some(_) => {
            live.moving = true;
            Plan::Extend(Moving::new(engine.attempts.clone(), renewal.attempt))
        }
    });
    plan.unwrap_or(Plan::Lost)
}

async fn keep(engine: &Engine, renewal: &Renewal, plan: Plan, until: Deadline) -> Result<Done> {
    let lease = match plan {
        Plan::Lost => return Ok(Done::Lost),
        Plan::Busy => return Err(under_way()),
        Plan::Extend(moving) => {
            return Ok(match extend(engine, renewal, moving, until).await? {
                Renewed::Renewed => Done::Extended,
                _ => Done::Lost,
            });
        }
        Plan::Keep(lease) => lease,
    };
    match engine.clock.within(Some(until), engine.keeper.keep(lease.id)).await {
        Some(Ok(Kept::Alive { term, .. })) => Ok(Done::Kept { term, lease: lease.id }),
        Some(Ok(Kept::Gone)) => Ok(Done::Lost),
        Some(Err(error)) => Err(error),
        None => Err(Error::new(ErrorKind::Unavailable, "the server did not answer in time")),
    }
}
