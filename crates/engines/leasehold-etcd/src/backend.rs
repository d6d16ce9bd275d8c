//! The `Backend` trait for an etcd cluster.

use std::fmt;

use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Ended, EventSink, ReleaseRequest, Renewal, Renewed,
};
use leasehold_core::{Capability, ClientId, Forced, LeaseKind, Name, Result, Status, Token};

use crate::engine::{Engine, LIMIT};
use crate::{acquire, release, renew, status};

/// One client's connection to an etcd cluster.
///
/// Each attempt has its own key below the lock's prefix, under its own lease. The key with the
/// lowest create revision holds the lock, and that revision is the token. Each waiter watches the
/// key before its own. A lease lasts whole seconds: at least the ttl, and at least the server's
/// minimum (2 s by default). So after a crash of the holder, the next waiter acquires that much
/// later. The guard's own validity depends only on the ttl.
pub struct EtcdBackend {
    engine: Engine,
    place: String,
    capability: Capability,
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

    fn acquire(&self, request: AcquireRequest) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(async move {
            let name = request.name.clone();
            let answer = acquire::acquire(&self.engine, request).await;
            answer.map_err(|error| error.during("acquire", Some(&name)))
        })
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(renew::renew(&self.engine, leases))
    }

    fn release(&self, release: ReleaseRequest) -> BoxFuture<'_, Result<Ended>> {
        Box::pin(async move {
            let ended = release::release(&self.engine, &release).await;
            ended.map_err(|error| error.during("release", Some(&release.name)))
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

    fn abandon(&self, release: &ReleaseRequest) {
        release::abandon(&self.engine, release.attempt);
    }
}

impl Drop for EtcdBackend {
    /// Revokes the leases of this client's waiters and its idle leases.
    fn drop(&mut self) {
        let mut leases = self.engine.attempts.waiting();
        leases.extend(self.engine.pool.drain());
        self.engine.revoke_later(leases);
    }
}

impl fmt::Debug for EtcdBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = &self.engine.members;
        f.debug_struct("EtcdBackend").field("members", members).finish_non_exhaustive()
    }
}
