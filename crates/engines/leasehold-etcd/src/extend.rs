//! Extends the lease of a held lock. The time of an etcd lease is fixed when it is granted, so the key
//! moves to a new, longer lease. Its create revision, which is the token, does not change.

use leasehold_core::backend::{Renewal, Renewed};
use leasehold_core::{AttemptId, Deadline, Error, ErrorKind, Result};
use leasehold_etcd_api::{Compare, CompareOp, KeyValue, PutOptions, Txn, TxnOp};

use crate::attempts::{Attempts, Live};
use crate::engine::Engine;
use crate::lease::seconds;
use crate::transaction::kv_at;

/// The right to move the key of an attempt: one move at a time. A shorter extension that began earlier
/// could otherwise follow a longer one whose end the guard relies on.
pub(crate) struct Moving {
    attempts: Attempts,
    attempt: AttemptId,
}

impl Moving {
    /// The caller has set the flag of the attempt.
    pub(crate) fn new(attempts: Attempts, attempt: AttemptId) -> Self {
        Self { attempts, attempt }
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.attempts.change(self.attempt, |live| live.moving = false);
    }
}

/// Moves the key of a held lock to a new lease that lasts at least the ttl of the renewal.
///
/// The transaction compares the revision of the key's last change. So a copy of it that arrives late
/// changes nothing, neither after another move nor after the release.
pub(crate) async fn extend(
    engine: &Engine,
    renewal: &Renewal,
    moving: Moving,
    until: Deadline,
) -> Result<Renewed> {
    let left = || until.remaining(engine.clock.now());
    let own = |live: &mut Live| Some((live.key.clone(), live.created?));
    let Some((key, created)) = engine.attempts.change(renewal.attempt, own).flatten() else {
        return Ok(Renewed::Lost);
    };
    let is_bound =
        |kv: &KeyValue| !engine.keys.is_wire() || engine.attempts.owns(renewal.attempt, kv.lease);
    let ours = |kv: &KeyValue| kv.create_revision == created && is_bound(kv);
    let read = engine.txn(left(), Txn::new().and_then([TxnOp::get(&*key, None)])).await?;
    let Some(kv) = kv_at(&read, 0, 0).filter(ours) else { return Ok(Renewed::Lost) };
    let sent = engine.clock.now();
    let lease = engine.grant(renewal.ttl, left()).await?;
    if engine.attempts.change(renewal.attempt, |live| live.moved.push(lease)).is_none() {
        engine.revoke_later(vec![lease]);
        return Ok(Renewed::Lost); // It has been released.
    }
    let put = PutOptions::new().with_lease(lease.id);
    let txn = Txn::new()
        .when([Compare::mod_revision(&*key, CompareOp::Equal, kv.mod_revision)])
        .and_then([TxnOp::put(&*key, &*kv.value, Some(put))])
        .or_else([TxnOp::get(&*key, None)]);
    // Without an answer, the key is under one of the leases in `moved`; none of them is revoked.
    let answer = engine.txn(left(), txn).await?;
    let now = if answer.succeeded {
        Some(lease.id)
    } else {
        kv_at(&answer, 0, 0).filter(ours).map(|kv| kv.lease)
    };
    drop(moving);
    match now {
        // A first copy of the request may have moved it, and a second one failed.
        Some(id) if id == lease.id => {
            let free = engine.attempts.change(renewal.attempt, |live| {
                let mut free = std::mem::take(&mut live.moved);
                free.retain(|moved| *moved != lease);
                free.extend(live.lease.replace(lease));
                (live.alive, live.asked) = (sent, seconds(renewal.ttl));
                free
            });
            engine.revoke_later(free.unwrap_or_else(|| vec![lease]));
            Ok(Renewed::Renewed)
        }
        other => {
            engine
                .attempts
                .change(renewal.attempt, |live| live.moved.retain(|moved| *moved != lease));
            engine.revoke_later(vec![lease]);
            match other {
                Some(_) => Err(changed()),
                None => Ok(Renewed::Lost),
            }
        }
    }
}

/// Returns the error for two extensions of one lease at the same time.
pub(crate) fn under_way() -> Error {
    Error::new(ErrorKind::Unavailable, "another extension of this lease is in progress; try again")
}

fn changed() -> Error {
    let what = "an earlier extension, whose answer was lost, arrived at the same time; try again";
    Error::new(ErrorKind::Unavailable, what)
}
