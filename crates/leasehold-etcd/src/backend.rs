//! The `Backend` trait over an ensemble of etcd.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, Txn, TxnResponse};
use leasehold_core::backend::{
    Answer, Ask, Backend, BoxFuture, Capability, End, Ended, EventSink, Forced, LeaseKind, Renewal,
    Renewed, Status,
};
use leasehold_core::clock::Clock;
use leasehold_core::{AttemptId, ClientId, Name, Result, Token};
use tokio::runtime::Handle;

use crate::attempts::Attempts;
use crate::error::strange;
use crate::keeper::Keeper;
use crate::key::Keys;
use crate::lease::{Lease, Pool, seconds};
use crate::members::{Called, Failed, Members};
use crate::watcher::Watcher;
use crate::{acquire, release, renew, status};

/// The longest that one call may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(5);
/// The shortest limit that a ttl may ask for: an ensemble that writes to disks is not faster.
const LEAST: Duration = Duration::from_millis(500);

/// One client's connection to an ensemble of etcd.
///
/// Each attempt has a key of its own below the lock's, under a lease of its own; the key of the
/// lowest create revision holds the lock, and that revision is its token. Waiters watch the key
/// before theirs. A lease lasts whole seconds: at least the ttl, and no less than the server
/// allows (2 s by default), so that a lock whose holder has died passes on that much later. What a
/// guard says of its own validity goes by the ttl alone.
pub struct EtcdBackend {
    engine: Engine,
    place: String,
    capability: Capability,
}

/// What all operations work with. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Engine {
    pub(crate) members: Members,
    pub(crate) keeper: Keeper,
    pub(crate) watcher: Watcher,
    pub(crate) attempts: Attempts,
    pub(crate) pool: Pool,
    pub(crate) keys: Arc<Keys>,
    pub(crate) clock: Clock,
    runtime: Handle,
}

/// How long a call for a lease of this ttl may take.
pub(crate) fn limit(ttl: Duration) -> Duration {
    (ttl / 3).clamp(LEAST, LIMIT)
}

impl Engine {
    /// Starts the streams' tasks in this runtime.
    pub(crate) fn start(members: Members, prefix: &str, clock: Clock, runtime: Handle) -> Self {
        let attempts = Attempts::new(clock.clone());
        Self {
            keeper: Keeper::start(&members, &clock),
            watcher: Watcher::start(members.clone(), attempts.clone(), clock.clone()),
            pool: Pool::new(clock.clone()),
            keys: Arc::new(Keys::new(prefix)),
            members,
            attempts,
            clock,
            runtime,
        }
    }

    /// Carries out a transaction, once or, where nobody answered, again.
    pub(crate) async fn txn(&self, limit: Duration, txn: Txn) -> Result<TxnResponse, Failed> {
        self.txn_called(limit, txn).await.map(|called| called.value)
    }

    /// The same, and whether it was sent again.
    pub(crate) async fn txn_called(
        &self,
        limit: Duration,
        txn: Txn,
    ) -> Result<Called<TxnResponse>, Failed> {
        let send = |client: Client| {
            let txn = txn.clone();
            async move { client.kv_client().txn(txn).await }
        };
        self.members.call(limit, send).await
    }

    /// The lease of an attempt, and whether it was granted just now; `None` when the attempt has
    /// been ended.
    pub(crate) async fn lease(&self, ask: &Ask, limit: Duration) -> Result<Option<(Lease, bool)>> {
        let asked = seconds(ask.ttl);
        let known = self.attempts.change(ask.attempt, |live| {
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
        let grant = |client: Client| async move { client.lease_client().grant(asked, None).await };
        let granted = self.members.call(limit, grant).await?.value;
        let lease = Lease { id: granted.id(), secs: granted.ttl() };
        if lease.time() < ask.ttl {
            return Err(strange(format!("a lease of {} s for {asked} s", lease.secs)));
        }
        if lease.time() > ask.ttl {
            let (ttl, lasts) = (ask.ttl, lease.time());
            tracing::debug!(
                ?ttl,
                ?lasts,
                "the lease of a holder that dies lasts longer than the ttl"
            );
        }
        let taken = self.attempts.change(ask.attempt, |live| match live.lease {
            // The same attempt has asked twice at once.
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

    /// An ask came to nothing, unless something may still come of it. Its lease is for others if
    /// it is `clean`: no key hangs on it, and none will.
    pub(crate) fn put_away(&self, attempt: AttemptId, clean: bool) {
        let Some(live) = self.attempts.forget(attempt) else { return };
        let Some(lease) = live.lease else { return };
        if live.resent || !clean || !self.pool.put(live.asked, lease, live.alive) {
            self.revoke_later(vec![lease]);
        }
    }

    /// Revokes leases that nothing depends on: they would end by themselves.
    pub(crate) fn revoke_later(&self, leases: Vec<Lease>) {
        let engine = self.clone();
        self.runtime.spawn(async move {
            for lease in leases {
                if let Err(error) = release::revoke(&engine, lease.id, LIMIT).await {
                    tracing::debug!(%error, "a lease is left to its end");
                    return;
                }
            }
        });
    }
}

impl EtcdBackend {
    pub(crate) fn new(engine: Engine, place: String) -> Self {
        let mut capability = Capability::new("etcd", LeaseKind::Ttl);
        capability.ordered = true;
        capability.push = true;
        capability.list = true;
        capability.force_release = true;
        capability.answers_within = Some(2 * LIMIT);
        Self { engine, place, capability }
    }
}

impl Backend for EtcdBackend {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn place(&self) -> String {
        self.place.clone()
    }

    fn attach(&self, _client: ClientId, events: EventSink) {
        self.engine.watcher.attach(events);
    }

    fn acquire(&self, ask: Ask) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(async move {
            let name = ask.name.clone();
            let answer = acquire::acquire(&self.engine, ask).await;
            answer.map_err(|error| error.during("acquire", Some(&name)))
        })
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(renew::renew(&self.engine, leases))
    }

    fn release(&self, end: End) -> BoxFuture<'_, Result<Ended>> {
        Box::pin(async move {
            let ended = release::release(&self.engine, &end).await;
            ended.map_err(|error| error.during("release", Some(&end.name)))
        })
    }

    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>> {
        Box::pin(async move {
            let status = status::status(&self.engine, name).await;
            status.map_err(|error| error.during("status", Some(name)))
        })
    }

    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        Box::pin(async move {
            let listed = status::list(&self.engine, prefix, limit).await;
            listed.map_err(|error| error.during("list", None))
        })
    }

    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(async move {
            let forced = release::force_release(&self.engine, name, token).await;
            forced.map_err(|error| error.during("force-release", Some(name)))
        })
    }

    fn abandon(&self, end: &End) {
        release::abandon(&self.engine, end.attempt);
    }
}

impl Drop for EtcdBackend {
    /// Those who waited here leave their lines, and nothing idle is left.
    fn drop(&mut self) {
        let mut leases = self.engine.attempts.waiting();
        leases.extend(self.engine.pool.drain());
        if !leases.is_empty() {
            self.engine.revoke_later(leases);
        }
    }
}

impl fmt::Debug for EtcdBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = &self.engine.members;
        f.debug_struct("EtcdBackend").field("members", members).finish_non_exhaustive()
    }
}
