//! The `Backend` trait over a route to the servers.

use std::sync::{Arc, OnceLock};

use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Changes, ConvertRequest, Converted, Ended,
    EventSink, LimitChange, LimitChanged, Mode, ReleaseRequest, Renewal, Renewed, StoredLimit,
    ValueSwap,
};
use leasehold_core::clock::Clock;
use leasehold_core::{
    AttemptId, Capability, ClientId, Forced, LeaseKind, Name, Result, Status, Token,
};

use crate::call_limit::LIMITS;
use crate::error::strange;
use crate::key::Keys;
use crate::push::{self, Pushes};
use crate::replication::Replicas;
use crate::topology::Route;
use crate::waiters::Waiters;
use crate::watched::WatchedLocks;

/// The connection of one client to a Redis server, or to the masters of a cluster.
#[derive(Debug)]
pub struct RedisBackend {
    pub(crate) route: Route,
    pub(crate) replicas: Option<Replicas>,
    pub(crate) keys: Keys,
    place: String,
    pub(crate) clock: Clock,
    pub(crate) capability: Capability,
    pub(crate) waiters: Waiters,
    watched: WatchedLocks,
    pub(crate) client: OnceLock<ClientId>,
}

impl RedisBackend {
    pub(crate) fn new(
        route: Route,
        push: bool,
        replicas: Option<Replicas>,
        keys: Keys,
        place: String,
        clock: Clock,
    ) -> Self {
        let mut capability = Capability::new("redis", LeaseKind::Ttl);
        (capability.ordered, capability.push) = (push, push);
        (capability.unfair, capability.observe) = (push, push);
        capability.cached_leases = push;
        capability.token_blocks = true;
        capability.rotate = true;
        capability.keep = true;
        capability.shared = true;
        capability.semaphores = true;
        capability.latches = true;
        capability.list = true;
        capability.force_release = true;
        capability.force_release_attempt = true;
        // Each call may take the limit to be sent, and again to be answered; a second one, to the shared
        // scripts, takes no longer than what is left of that (`rest`). A grant that replicas do not have
        // is released too. Without replicas this is within the default patience: the client then needs no
        // timer.
        let calls = if replicas.is_some() { 5 } else { 2 };
        capability.answers_within = Some(calls * LIMITS.1);
        let (waiters, watched, client) = Default::default();
        Self { route, replicas, keys, place, clock, capability, waiters, watched, client }
    }
}

impl Backend for RedisBackend {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn place(&self) -> String {
        self.place.clone()
    }

    fn attach(&self, client: ClientId, events: EventSink) {
        if self.client.set(client).is_err() {
            return;
        }
        let pushes = Pushes {
            waiters: self.waiters.clone(),
            watched: self.watched.clone(),
            keys: self.keys.clone(),
            clock: self.clock.clone(),
            events,
        };
        self.route.subscribe(push::channel(client), Arc::new(pushes));
    }

    fn replicas(&self, attempt: AttemptId) -> Option<usize> {
        self.replicas.as_ref()?.of(attempt)
    }

    fn acquire(&self, request: AcquireRequest) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(self.ask(request))
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(self.renew_all(leases))
    }

    fn release(&self, release: ReleaseRequest) -> BoxFuture<'_, Result<Ended>> {
        Box::pin(self.end(release))
    }

    fn convert(&self, request: ConvertRequest) -> BoxFuture<'_, Result<Converted>> {
        Box::pin(self.convert_lease(request))
    }

    fn limit<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Option<StoredLimit>>> {
        Box::pin(self.stored_limit(name))
    }

    fn set_limit(&self, change: LimitChange) -> BoxFuture<'_, Result<LimitChanged>> {
        Box::pin(self.change_limit(change))
    }

    fn value<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        Box::pin(self.stored_value(name))
    }

    fn swap_value(&self, swap: ValueSwap) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.replace_value(swap))
    }

    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>> {
        Box::pin(async move {
            let statuses = self.statuses(std::slice::from_ref(name)).await?;
            statuses.into_iter().next().unwrap_or_else(|| Err(strange("no status")))
        })
    }

    fn watch(&self, name: &Name) -> Option<Changes> {
        if !self.capability.observe {
            return None;
        }
        self.watched.observe(&self.route, &self.clock, self.keys.all(name).into())
    }

    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        Box::pin(self.list_locks(prefix, limit))
    }

    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(self.end_lease(name, token))
    }

    fn force_release_attempt<'a>(
        &'a self,
        name: &'a Name,
        attempt: AttemptId,
        mode: Mode,
    ) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(async move {
            match mode {
                Mode::Permit => self.end_permit_of(name, attempt).await,
                _ => self.end_reader(name, attempt).await,
            }
        })
    }
}

#[cfg(test)]
#[path = "backend_tests.rs"]
mod tests;
