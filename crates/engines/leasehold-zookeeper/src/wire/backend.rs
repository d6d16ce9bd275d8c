//! The `Backend` of a lock in another library's format: the engine with less to offer, and a mark for those without the
//! option.

use std::sync::Arc;

use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Changes, Ended, EventSink, Mode, ReleaseRequest,
    Renewal, Renewed,
};
use leasehold_core::{
    Capability, ClientId, Error, ErrorKind, Forced, LeaseKind, Name, Result, Status, Token,
};

use super::mark::Marks;
use crate::backend::ZooKeeperBackend;
use crate::release;

/// The connection of one client to locks in the format of another library (`?wire=`).
#[derive(Debug)]
pub struct WireBackend {
    engine: ZooKeeperBackend,
    marks: Arc<Marks>,
    capability: Capability,
}

impl WireBackend {
    pub(crate) fn new(engine: ZooKeeperBackend) -> Self {
        let of_engine = engine.capability();
        let mut capability = Capability::new(of_engine.engine, LeaseKind::Ttl);
        (capability.ordered, capability.push, capability.observe) = (true, true, true);
        capability.why_no_semaphores = Some("the option wire chooses a format of locks alone");
        capability.force_release = true;
        capability.longest_ttl = of_engine.longest_ttl;
        let marks = Arc::new(Marks::new(engine.store().clone()));
        Self { engine, marks, capability }
    }

    async fn ask(&self, request: AcquireRequest) -> Result<Answer> {
        if request.mode != Mode::Exclusive {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the option wire chooses a format of exclusive locks; use a store without it for readers and permits",
            ));
        }
        if let Err(error) = self.marks.refresh(&request.name).await {
            if error.kind().is_certain() {
                release::leave(self.engine.store(), &request.name, request.attempt).await;
            }
            return Err(error.during("acquire", Some(&request.name)));
        }
        self.engine.acquire(request).await
    }

    async fn renew_all(&self, leases: &[Renewal]) -> Vec<Result<Renewed>> {
        for lease in leases.iter().filter(|lease| self.marks.is_due(&lease.name)) {
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
