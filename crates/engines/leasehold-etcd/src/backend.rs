//! The `Backend` trait for an etcd cluster.

use std::fmt;

use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Changes, ConvertRequest, Converted, Ended,
    EventSink, LimitChange, LimitChanged, Mode, ReleaseRequest, Renewal, Renewed, StoredLimit,
    ValueSwap,
};
use leasehold_core::{
    AttemptId, Capability, ClientId, Forced, LeaseKind, Name, ReadOrder, Result, Status, Token,
};

use crate::engine::{Engine, LIMIT};
use crate::{acquire, convert, latch, limit, release, renew, status};

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
        capability.shared = true;
        capability.read_order = ReadOrder::Fifo;
        capability.semaphores = true;
        capability.latches = true;
        capability.observe = true;
        capability.list = true;
        capability.force_release = true;
        capability.force_release_attempt = true;
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

    fn convert(&self, request: ConvertRequest) -> BoxFuture<'_, Result<Converted>> {
        Box::pin(async move {
            let converted = convert::convert(&self.engine, &request).await;
            converted.map_err(|error| error.during("convert", Some(&request.next.name)))
        })
    }

    fn limit<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Option<StoredLimit>>> {
        Box::pin(async move {
            let limit = limit::limit(&self.engine, name).await;
            limit.map_err(|error| error.during("limit", Some(name)))
        })
    }

    fn set_limit(&self, change: LimitChange) -> BoxFuture<'_, Result<LimitChanged>> {
        Box::pin(async move {
            let changed = limit::set_limit(&self.engine, &change).await;
            changed.map_err(|error| error.during("set-limit", Some(&change.name)))
        })
    }

    fn value<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        Box::pin(async move {
            let value = latch::value(&self.engine, name).await;
            value.map_err(|error| error.during("status", Some(name)))
        })
    }

    fn swap_value(&self, swap: ValueSwap) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            let swapped = latch::swap(&self.engine, &swap).await;
            swapped.map_err(|error| error.during("count-down", Some(&swap.name)))
        })
    }

    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>> {
        Box::pin(async move {
            let status = status::status(&self.engine, name).await;
            status.map_err(|error| error.during("status", Some(name)))
        })
    }

    fn watch(&self, name: &Name) -> Option<Changes> {
        let engine = &self.engine;
        engine.observed.observe(&engine.members, &engine.clock, engine.keys.all(name), name)
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

    fn force_release_attempt<'a>(
        &'a self,
        name: &'a Name,
        attempt: AttemptId,
        _mode: Mode,
    ) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(async move {
            let forced = release::force_release_attempt(&self.engine, name, attempt).await;
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
        self.engine.close();
    }
}

impl fmt::Debug for EtcdBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = &self.engine.members;
        f.debug_struct("EtcdBackend").field("members", members).finish_non_exhaustive()
    }
}
