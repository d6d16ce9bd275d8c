//! The `Backend` trait over a memory store.

use std::sync::OnceLock;

use leasehold_proto::{AttemptId, ClientId, Token};

use super::entry::Entry;
use super::record::Reach;
use super::store::MemoryStore;
use crate::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Changes, ConvertRequest, Converted, Ended,
    EventSink, LimitChange, LimitChanged, Mode, ReleaseRequest, Renewal, Renewed, StoredLimit,
    ValueSwap,
};
use crate::{Capability, Error, ErrorKind, Forced, LeaseKind, Name, Result, Status};

/// The connection of one client to a [`MemoryStore`].
#[derive(Debug)]
pub struct MemoryBackend {
    store: MemoryStore,
    capability: Capability,
    client: OnceLock<ClientId>,
}

impl MemoryStore {
    /// Creates a connection to this store, for one client.
    pub fn connect(&self) -> MemoryBackend {
        MemoryBackend::new(self.clone())
    }
}

impl MemoryBackend {
    fn new(store: MemoryStore) -> Self {
        let mut capability = Capability::new("memory", LeaseKind::Ttl);
        capability.ordered = true;
        capability.unfair = true;
        capability.push = true;
        capability.token_blocks = true;
        capability.rotate = true;
        capability.keep = true;
        capability.shared = true;
        capability.semaphores = true;
        capability.latches = true;
        capability.observe = true;
        capability.cached_leases = true;
        capability.list = true;
        capability.force_release = true;
        capability.force_release_attempt = true;
        Self { store, capability, client: OnceLock::new() }
    }

    fn ask(&self, request: &AcquireRequest) -> Result<Answer> {
        let (now, key) = (self.store.now(), (&request.name, request.mode));
        self.store
            .state()
            .with_record(now, key, |record, reach| record.acquire(now, request, reach))
    }

    fn end(&self, release: &ReleaseRequest) -> Result<Ended> {
        if release.then.as_ref().is_some_and(|request| request.name != release.name) {
            let message = "memory: a release can only acquire the same lock again";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let (now, key) = (self.store.now(), (&release.name, release.mode));
        let ended = self
            .store
            .state()
            .with_record(now, key, |record, reach| record.release(now, release, reach));
        self.continue_queue(&release.name);
        ended
    }

    /// Serves the waiters, or removes the dead waiters of a free lock, that the previous step left.
    /// Other clients can run between two steps.
    fn continue_queue(&self, name: &Name) {
        let step = || {
            let now = self.store.now();
            let mut state = self.store.state();
            state.with_record(now, (name, Mode::Exclusive), |record, reach| {
                record.continue_queue(now, name, reach)
            })
        };
        while step() {}
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

impl Backend for MemoryBackend {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn place(&self) -> String {
        self.store.place().to_owned()
    }

    fn attach(&self, client: ClientId, events: EventSink) {
        if self.client.set(client).is_ok() {
            self.store.state().attach(client, events);
        }
    }

    fn acquire(&self, request: AcquireRequest) -> BoxFuture<'_, Result<Answer>> {
        ready(self.ask(&request))
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        let now = self.store.now();
        let mut state = self.store.state();
        let renew = |lease: &Renewal| {
            if !state.records.contains_key(&lease.name) {
                return Ok(Renewed::Lost);
            }
            let renew = |record: &mut Entry, reach: Reach<'_>| record.renew(now, lease, reach);
            Ok(state.with_record(now, (&lease.name, lease.mode), renew))
        };
        ready(leases.iter().map(renew).collect())
    }

    fn release(&self, release: ReleaseRequest) -> BoxFuture<'_, Result<Ended>> {
        ready(self.end(&release))
    }

    fn convert(&self, request: ConvertRequest) -> BoxFuture<'_, Result<Converted>> {
        let now = self.store.now();
        let (mut state, name) = (self.store.state(), &request.next.name);
        if *name != request.end.name {
            let message = "memory: a lease can only be converted for the same lock";
            return ready(Err(Error::new(ErrorKind::Invalid, message)));
        }
        let key = (name, request.next.mode);
        ready(state.with_record(now, key, |record, reach| record.convert(now, &request, reach)))
    }

    fn limit<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Option<StoredLimit>>> {
        let state = self.store.state();
        ready(state.records.get(name).map_or(Ok(None), Entry::limit))
    }

    fn set_limit(&self, change: LimitChange) -> BoxFuture<'_, Result<LimitChanged>> {
        let (now, key) = (self.store.now(), (&change.name, Mode::Permit));
        let changed = self
            .store
            .state()
            .with_record(now, key, |record, reach| record.set_limit(now, &change, reach));
        self.continue_queue(&change.name);
        ready(changed)
    }

    fn value<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        let now = self.store.now();
        let state = self.store.state();
        ready(state.records.get(name).map_or(Ok(None), |entry| entry.value(now)))
    }

    fn swap_value(&self, swap: ValueSwap) -> BoxFuture<'_, Result<bool>> {
        let now = self.store.now();
        ready(self.store.state().swap_value(now, &swap))
    }

    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>> {
        let now = self.store.now();
        let state = self.store.state();
        ready(Ok(state.records.get(name).map_or_else(|| free(name), |r| r.status(now, name))))
    }

    fn watch(&self, name: &Name) -> Option<Changes> {
        Some(self.store.state().watch(name))
    }

    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        let now = self.store.now();
        let state = self.store.state();
        let listed = state
            .starting_with(prefix)
            .take(limit)
            .map(|(name, record)| record.status(now, name))
            .collect();
        ready(Ok(listed))
    }

    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>> {
        let now = self.store.now();
        let mut state = self.store.state();
        if !state.records.contains_key(name) {
            return ready(Ok(Forced::NotHeld));
        }
        let forced = state.with_record(now, (name, Mode::Exclusive), |record, reach| {
            record.force_release(now, name, token, reach)
        });
        drop(state);
        self.continue_queue(name);
        ready(Ok(forced))
    }

    fn force_release_attempt<'a>(
        &'a self,
        name: &'a Name,
        attempt: AttemptId,
        mode: Mode,
    ) -> BoxFuture<'a, Result<Forced>> {
        let now = self.store.now();
        let mut state = self.store.state();
        if !state.records.contains_key(name) {
            return ready(Ok(Forced::NotHeld));
        }
        let forced = state.with_record(now, (name, mode), |record, reach| {
            record.force_release_attempt(now, name, attempt, reach)
        });
        drop(state);
        self.continue_queue(name);
        ready(Ok(forced))
    }

    fn abandon(&self, release: &ReleaseRequest) {
        let release = ReleaseRequest { suspect: true, then: None, ..release.clone() };
        if let Err(error) = self.end(&release) {
            tracing::debug!(name = %release.name, %error, "abandoned without a successor");
        }
    }
}

impl Drop for MemoryBackend {
    fn drop(&mut self) {
        if let Some(client) = self.client.get() {
            self.store.state().detach(*client);
        }
    }
}

fn free(name: &Name) -> Status {
    Status { waiters: Some(Vec::new()), ..Status::free(name) }
}
