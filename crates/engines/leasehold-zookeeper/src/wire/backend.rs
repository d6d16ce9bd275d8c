//! The `Backend` of a lock in another library's format: the engine with less to offer, and a mark for those without the
//! option.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::wire::{only_exclusive, only_locks};
use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Changes, Covered, Ended, EventSink, Mark,
    ReleaseRequest, Renewal, Renewed,
};
use leasehold_core::{
    Capability, ClientId, Error, ErrorKind, Forced, LeaseKind, Name, Result, Status, Token,
};

use super::mark::Marks;
use crate::backend::ZooKeeperBackend;
use crate::error::same_nodes;
use crate::format::Format;
use crate::release;

/// How often a client looks for the moment at which no client with `also` holds the lock, so that it can mark the name.
const SOON: Duration = Duration::from_millis(250);

/// The connection of one client to locks in the format of another library (`?wire=`).
#[derive(Debug)]
pub struct WireBackend {
    engine: ZooKeeperBackend,
    marks: Arc<Marks>,
    /// The client holds the lock of clients without the option too, so it leaves no mark.
    is_beside: bool,
    capability: Capability,
}

impl WireBackend {
    pub(crate) fn new(engine: ZooKeeperBackend) -> Self {
        let of_engine = engine.capability();
        let mut capability = Capability::new(of_engine.engine, LeaseKind::Ttl);
        (capability.ordered, capability.push, capability.observe) = (true, true, true);
        only_locks(&mut capability);
        capability.force_release = true;
        capability.longest_ttl = of_engine.longest_ttl;
        let marks = Arc::new(Marks::new(engine.store().clone()));
        Self { engine, marks, is_beside: false, capability }
    }

    /// Makes it the part of a client with the option `also`, which leaves no marks of its own.
    #[must_use]
    pub fn beside_native(self) -> Self {
        Self { is_beside: true, ..self }
    }

    /// Marks the name, if that is due. Returns the answer to an acquire that cannot go on.
    async fn mark(&self, request: &AcquireRequest) -> Result<Option<Answer>> {
        if self.is_beside {
            return match self.engine.store().format() {
                Format::Kazoo if self.marks.is_native(&request.name) => {
                    Err(same_nodes(request.name.as_str()))
                }
                _ => Ok(None),
            };
        }
        Ok(match self.marks.refresh(&request.name).await? {
            true => None,
            false => Some(Answer::Busy { ask_again: Some(SOON) }),
        })
    }

    async fn ask(&self, request: AcquireRequest) -> Result<Answer> {
        only_exclusive(&request)?;
        let stopped = match self.mark(&request).await {
            Ok(None) => return self.engine.acquire(request).await,
            Ok(Some(answer)) => Ok(answer),
            Err(error) => Err(error.during("acquire", Some(&request.name))),
        };
        if stopped.as_ref().map_or_else(|error| error.kind().is_certain(), |_| true) {
            release::leave(self.engine.store(), &request.name, request.attempt).await;
        }
        stopped
    }

    async fn renew_all(&self, leases: &[Renewal]) -> Vec<Result<Renewed>> {
        let is_due = |lease: &&Renewal| !self.is_beside && self.marks.is_due(&lease.name);
        for lease in leases.iter().filter(is_due) {
            let (marks, name) = (self.marks.clone(), lease.name.clone());
            // The lease is held whether or not others are refused for longer.
            tokio::spawn(async move {
                if let Err(error) = marks.refresh(&name).await {
                    tracing::debug!(%name, %error, "cannot renew the mark of the lock");
                }
            });
        }
        self.engine.renew(leases).await
    }
}

impl Backend for WireBackend {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn place(&self) -> String {
        self.engine.place()
    }

    fn attach(&self, client: ClientId, events: EventSink) {
        self.engine.attach(client, events);
    }

    fn acquire(&self, request: AcquireRequest) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(self.ask(request))
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(self.renew_all(leases))
    }

    fn release(&self, release: ReleaseRequest) -> BoxFuture<'_, Result<Ended>> {
        self.engine.release(release)
    }

    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>> {
        self.engine.status(name)
    }

    fn watch(&self, name: &Name) -> Option<Changes> {
        self.engine.watch(name)
    }

    fn list<'a>(&'a self, _prefix: &'a str, _limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        let what = "the nodes of another library's locks cannot be told from other nodes; name the lock: leasehold \
                    status NAME";
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Unsupported, what))))
    }

    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>> {
        self.engine.force_release(name, token)
    }

    fn abandon(&self, release: &ReleaseRequest) {
        self.engine.abandon(release);
    }
}

impl Mark for WireBackend {
    fn is_native(&self, name: &Name) -> bool {
        self.engine.store().format() == Format::Curator && self.marks.is_native(name)
    }

    fn cover<'a>(
        &'a self,
        name: &'a Name,
        ttl: Duration,
        held: bool,
    ) -> BoxFuture<'a, Result<Covered>> {
        Box::pin(async move {
            match self.is_native(name) {
                true => Ok(Covered::Marked),
                false => self.marks.cover(name, ttl, held).await,
            }
        })
    }
}
