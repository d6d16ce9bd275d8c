//! Reads and replaces the value of a latch: one key, under a lease of its ttl.

use leasehold_core::backend::{ValueSwap, is_no_latch};
use leasehold_core::{Name, Result};
use leasehold_etcd_api::{Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp};

use crate::engine::{Engine, LIMIT};
use crate::lease::Lease;
use crate::transaction::{any, kv_at, none};

/// Returns the value; `None` if there is none, or if it has expired.
pub(crate) async fn value(engine: &Engine, name: &Name) -> Result<Option<Vec<u8>>> {
    let keys = &engine.keys;
    let gets =
        [TxnOp::get(keys.latch(name), None), any(keys.lock(name)), any(keys.semaphore(name))];
    let read = engine.txn(LIMIT, Txn::new().and_then(gets)).await?;
    match kv_at(&read, 0, 0) {
        Some(kv) => Ok(Some(kv.value.clone())),
        None if [1, 2].iter().any(|op| kv_at(&read, *op, 0).is_some()) => Err(is_no_latch()),
        None => Ok(None),
    }
}

/// Replaces the value if it is still the one that the client has read.
///
/// Each value has a new lease. Without an answer, that lease is left to expire: the value may be under it.
pub(crate) async fn swap(engine: &Engine, swap: &ValueSwap) -> Result<bool> {
    let lease = engine.grant(swap.ttl, LIMIT).await?;
    let swapped = replace(engine, swap, lease).await;
    let unused = match &swapped {
        Ok(swapped) => !swapped,
        Err(error) => error.kind().is_certain(),
    };
    if unused {
        engine.revoke_later(vec![lease]);
    }
    swapped
}

async fn replace(engine: &Engine, swap: &ValueSwap, lease: Lease) -> Result<bool> {
    let (keys, key) = (&engine.keys, engine.keys.latch(&swap.name));
    let is_seen = match &swap.seen {
        Some(seen) => Compare::value(&*key, CompareOp::Equal, &**seen),
        None => Compare::create_revision(&*key, CompareOp::Equal, 0),
    };
    let put = PutOptions::new().with_lease(lease.id).with_prev_key();
    let mut when = vec![is_seen];
    if swap.seen.is_none() {
        when.extend([none(keys.lock(&swap.name)), none(keys.semaphore(&swap.name))]);
    }
    let txn =
        Txn::new().when(when).and_then([TxnOp::put(&*key, &*swap.next, Some(put))]).or_else([
            TxnOp::get(&*key, Some(GetOptions::new().with_keys_only())),
            any(keys.lock(&swap.name)),
            any(keys.semaphore(&swap.name)),
        ]);
    let answer = engine.txn(LIMIT, txn).await?;
    if !answer.succeeded {
        return match kv_at(&answer, 0, 0) {
            // An earlier copy of this request was executed.
            Some(kv) if kv.lease == lease.id => Ok(true),
            None if [1, 2].iter().any(|op| kv_at(&answer, *op, 0).is_some()) => Err(is_no_latch()),
            _ => Ok(false),
        };
    }
    if let Some(earlier) = answer.put(0).and_then(|put| put.prev_kv.as_ref()) {
        let earlier = Lease { id: earlier.lease, secs: 0 };
        engine.revoke_later(Some(earlier).into_iter().filter(|lease| lease.id != 0).collect());
    }
    Ok(true)
}
