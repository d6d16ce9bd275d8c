//! The state that the operations of a client share, and the calls that several of them need.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::AcquireRequest;
use leasehold_core::clock::Clock;
use leasehold_core::{AttemptId, Deadline, Result};
use leasehold_etcd_api::{Client, Txn, TxnResponse};
use tokio::runtime::Handle;

use crate::attempts::Attempts;
use crate::error::{Cause, strange};
use crate::kept_limits::KeptLimits;
use crate::key::Keys;
use crate::lease::{Lease, Pool, new_id, seconds};
use crate::lease_keeper::Keeper;
use crate::members::{Called, FailedCall, Members};
use crate::observe::Observed;
use crate::successor::Successors;
use crate::watcher::{Wait, Watcher};

/// The longest time that one call may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(5);
/// The shortest limit for a call, whatever the ttl: a cluster that writes to disks is not faster.
const LEAST: Duration = Duration::from_millis(500);

/// The state that all operations share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Engine {
    pub(crate) members: Members,
    pub(crate) keeper: Keeper,
    pub(crate) watcher: Watcher,
    pub(crate) observed: Observed,
    pub(crate) attempts: Attempts,
    pub(crate) pool: Pool,
    limits: KeptLimits,
    pub(crate) successors: Successors,
    pub(crate) keys: Arc<Keys>,
    pub(crate) clock: Clock,
    runtime: Handle,
}

/// Returns how long a call for a lease of this ttl may take.
pub(crate) fn limit(ttl: Duration) -> Duration {
    (ttl / 3).clamp(LEAST, LIMIT)
}

impl Engine {
    /// Starts the tasks of the streams in this runtime.
    pub(crate) fn start(members: Members, keys: Keys, clock: Clock, runtime: Handle) -> Self {
        let attempts = Attempts::new(clock.clone());
        Self {
            keeper: Keeper::start(&members, &clock),
            watcher: Watcher::start(members.clone(), attempts.clone(), clock.clone()),
            observed: Observed::default(),
            pool: Pool::new(clock.clone()),
            limits: KeptLimits::default(),
            successors: Successors::new(clock.clone()),
            keys: Arc::new(keys),
            members,
            attempts,
            clock,
            runtime,
        }
    }

    /// Executes a transaction, and sends it again if no member answered.
    pub(crate) async fn txn(&self, limit: Duration, txn: Txn) -> Result<TxnResponse, FailedCall> {
        self.txn_called(limit, txn).await.map(|called| called.value)
    }

    /// Executes a transaction as [`txn`](Self::txn) does, and returns whether it was sent again.
    pub(crate) async fn txn_called(
        &self,
        limit: Duration,
        txn: Txn,
    ) -> Result<Called<TxnResponse>, FailedCall> {
        let send = |client: Client| {
            let txn = txn.clone();
            async move { client.txn(txn).await }
        };
        self.members.call(limit, send).await
    }

    /// Returns the lease of an attempt, and whether it was granted by this call; `None` if the attempt
    /// has been released.
    pub(crate) async fn lease(
        &self,
        request: &AcquireRequest,
        limit: Duration,
    ) -> Result<Option<(Lease, bool)>> {
        let asked = seconds(request.ttl);
        let known = self.attempts.change(request.attempt, |live| {
            if live.lease.is_none()
                && let Some((lease, alive)) = self.pool.take(asked)
            {
                (live.lease, live.alive) = (Some(lease), alive);
            }
            live.lease
        });
        match known {
            None => return Ok(None),
            Some(Some(lease)) => return Ok(Some((lease, false))),
            Some(None) => {}
        }
        let sent = self.clock.now();
        let lease = self.grant(request.ttl, limit).await?;
        if lease.time() > request.ttl {
            let (ttl, lasts) = (request.ttl, lease.time());
            tracing::debug!(
                ?ttl,
                ?lasts,
                "after a crash of the holder, its lease lasts longer than the ttl"
            );
        }
        let taken = self.attempts.change(request.attempt, |live| match live.lease {
            // Two requests of the same attempt ran at once.
            Some(other) => (other, false),
            None => {
                (live.lease, live.alive) = (Some(lease), sent);
                (lease, true)
            }
        });
        if taken.is_none_or(|(taken, _)| taken != lease) && !self.pool.put(asked, lease, sent) {
            self.revoke_later(vec![lease]);
        }
        Ok(taken)
    }

    /// Grants a new lease that lasts at least `ttl`.
    pub(crate) async fn grant(&self, ttl: Duration, limit: Duration) -> Result<Lease> {
        self.grant_as(new_id(), ttl, limit).await.map(|(lease, _)| lease)
    }

    /// Grants a lease with this id that lasts at least `ttl`, unless there is one. Returns true for one that there was.
    pub(crate) async fn grant_as(
        &self,
        id: i64,
        ttl: Duration,
        limit: Duration,
    ) -> Result<(Lease, bool)> {
        let asked = seconds(ttl);
        let grant = |client: Client| async move { client.lease_grant(id, asked).await };
        let (secs, existed) = match self.members.call(limit, grant).await {
            Ok(granted) => (granted.value.ttl, false),
            Err(failed) if failed.cause == Cause::LeaseExists => (asked, true),
            Err(failed) => return Err(failed.error),
        };
        let lease = Lease { id, secs };
        match lease.time() < ttl {
            true => {
                Err(strange(format!("granted a lease of {} s instead of {asked} s", lease.secs)))
            }
            false => Ok((lease, existed)),
        }
    }

    /// Ends an attempt that was not granted, unless a request for it may still arrive. Other attempts
    /// may reuse its lease if it is `clean`: no key is attached to it, and none will be.
    /// Returns true if it did.
    pub(crate) fn put_away(&self, attempt: AttemptId, clean: bool) -> bool {
        let Some(live) = self.attempts.forget(attempt) else { return false };
        if let Some(lease) = live.lease
            && (live.resent || !clean || !self.pool.put(live.asked, lease, live.alive))
        {
            self.revoke_later(vec![lease]);
        }
        true
    }

    /// Watches the key that an attempt which asks again at once will stand behind, while its own key is put. So the
    /// watch begins before that key is deleted, and its report needs no read that confirms it.
    pub(crate) fn watch_in_advance(&self, request: &AcquireRequest) {
        if let Some((key, revision)) = self.successors.take(&request.name) {
            self.watcher.follow(request.attempt, &request.name, key, revision, Wait::Deletion);
        }
    }

    /// Revokes leases in the background. No lock depends on them, and they would expire anyway.
    pub(crate) fn revoke_later(&self, leases: Vec<Lease>) {
        if leases.is_empty() {
            return;
        }
        let engine = self.clone();
        self.runtime.spawn(async move {
            for lease in leases {
                if let Err(error) = engine.revoke(lease.id, LIMIT).await {
                    tracing::debug!(%error, "cannot revoke a lease; it will expire");
                    return;
                }
            }
        });
    }

    /// Revokes the leases of this client's waiters and its idle leases.
    pub(crate) fn close(&self) {
        let mut leases = self.attempts.waiting();
        leases.extend(self.pool.drain());
        self.revoke_later(leases);
    }

    /// Runs this in the background.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Extends the time of a limit that was used, in the background. If that fails, a later use does it.
    pub(crate) fn keep_limit(&self, lease: i64) {
        let now = self.clock.now();
        if !self.limits.is_due(lease, now) {
            return;
        }
        let engine = self.clone();
        self.runtime.spawn(async move {
            let until = Deadline::after(now, LIMIT);
            engine.clock.within(Some(until), engine.keeper.keep(lease)).await;
        });
    }

    /// Revokes a lease; an expired lease is not an error.
    pub(crate) async fn revoke(&self, lease: i64, limit: Duration) -> Result<()> {
        let revoke = |client: Client| async move { client.lease_revoke(lease).await };
        match self.members.call(limit, revoke).await {
            Ok(_) => Ok(()),
            Err(failed) if failed.cause == Cause::NoLease => Ok(()),
            Err(failed) => Err(failed.error),
        }
    }
}
