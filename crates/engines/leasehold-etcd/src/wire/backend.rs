//! The `Backend` of locks in the format of `concurrency.Mutex`.

use std::fmt;
use std::time::Duration;

use leasehold_core::backend::wire::{only_exclusive, only_locks};
use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Changes, Covered, Ended, EventSink, Mark,
    ReleaseRequest, Renewal, Renewed,
};
use leasehold_core::{
    Capability, ClientId, Error, ErrorKind, Forced, LeaseKind, Name, Result, Status, Token,
};

use super::mark::Marker;
use super::{Format, status};
use crate::engine::{Engine, LIMIT};
use crate::key::Keys;
use crate::{acquire, release, renew};

/// How often a client looks for the moment at which no client with `also` holds the lock, so that it can mark the name.
const SOON: Duration = Duration::from_millis(250);

/// One client's connection to locks in the format of Go's `concurrency.Mutex` (`?wire=concurrency`).
///
/// Each attempt has a lease of its own, and the key `NAME/LEASE` under it. With the lease of a session, two attempts of
/// one process would have the same key, and both would hold the lock. The key with the lowest create revision below
/// `NAME/` holds the lock, whichever program wrote it, and that revision is the token.
pub struct WireBackend {
    engine: Engine,
    marker: Marker,
    /// The client holds the lock of clients without the option too, so it leaves no mark.
    is_beside: bool,
    place: String,
    capability: Capability,
}

impl WireBackend {
    /// The engine has the keys of the format; `native` are those of clients without the option.
    pub(crate) fn new(engine: Engine, native: Keys, format: Format, place: String) -> Self {
        let mut capability = Capability::new("etcd", LeaseKind::Ttl);
        capability.ordered = true;
        capability.push = true;
        capability.observe = true;
        only_locks(&mut capability);
        capability.force_release = true;
        capability.nested_names = true;
        // The mark of the name takes up to one limit more.
        capability.answers_within = Some(3 * LIMIT);
        let marker = Marker::new(engine.clone(), native, format);
        Self { engine, marker, is_beside: false, place, capability }
    }

    /// Makes it the part of a client with the option `also`, which leaves no marks of its own.
    #[must_use]
    pub fn beside_native(mut self) -> Self {
        self.is_beside = true;
        self
    }

    async fn ask(&self, request: AcquireRequest) -> Result<Answer> {
        only_exclusive(&request)?;
        let AcquireRequest { name, attempt, ttl, .. } = &request;
        if self.marker.is_covered_by(name) {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "lock {name}: the keys of clients without the option wire begin with this name, so they would be in \
                     its queue; choose another prefix after the hosts, or another name"
                ),
            ));
        }
        let has_key = self.engine.attempts.change(*attempt, |live| live.created.is_some());
        match has_key {
            // Its key in the queue must not be left behind by an error.
            _ if self.is_beside => {}
            Some(true) => self.marker.renew(name, *ttl),
            _ if self.marker.is_due(name, *ttl) && !self.marker.mark(name, *ttl).await? => {
                return Ok(Answer::Busy { ask_again: Some(SOON) });
            }
            _ => {}
        }
        acquire::acquire(&self.engine, request).await
    }
}

impl Backend for WireBackend {
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
            self.ask(request).await.map_err(|error| error.during("acquire", Some(&name)))
        })
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        for lease in leases.iter().filter(|_| !self.is_beside) {
            self.marker.renew(&lease.name, lease.ttl);
        }
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

    fn watch(&self, name: &Name) -> Option<Changes> {
        let engine = &self.engine;
        engine.observed.observe(&engine.members, &engine.clock, engine.keys.all(name), name)
    }

    fn list<'a>(&'a self, _prefix: &'a str, _limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        let what = "the keys of another library's locks cannot be told from other keys; name the lock: leasehold \
                    status NAME";
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Unsupported, what))))
    }

    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(async move {
            let forced = status::force_release(&self.engine, name, token).await;
            forced.map_err(|error| error.during("force-release", Some(name)))
        })
    }

    fn abandon(&self, release: &ReleaseRequest) {
        release::abandon(&self.engine, release.attempt);
    }
}

impl Mark for WireBackend {
    fn cover<'a>(
        &'a self,
        name: &'a Name,
        ttl: Duration,
        held: bool,
    ) -> BoxFuture<'a, Result<Covered>> {
        Box::pin(self.marker.cover(name, ttl, held))
    }
}

impl Drop for WireBackend {
    /// Revokes the leases of this client's waiters and its idle leases.
    fn drop(&mut self) {
        self.engine.close();
    }
}

impl fmt::Debug for WireBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = &self.engine.members;
        f.debug_struct("WireBackend").field("members", members).finish_non_exhaustive()
    }
}
