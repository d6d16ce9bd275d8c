//! The `Backend` trait for ZooKeeper.

use std::sync::Arc;

use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Changes, ConvertRequest, Converted, Ended,
    EventSink, LimitChange, LimitChanged, Mode, ReleaseRequest, Renewal, Renewed, StoredLimit,
    ValueSwap,
};
use leasehold_core::clock::Clock;
use leasehold_core::{
    AttemptId, Capability, ClientId, Error, ErrorKind, Forced, LeaseKind, Name, ReadOrder, Result,
    Status, Token,
};

use crate::address::Address;
use crate::observers::Observers;
use crate::session::Session;
use crate::store::Store;
use crate::{
    acquire, convert, latch, limit, release, renew, semaphore_status, session_keeper, status,
};

/// Locks in a ZooKeeper ensemble, with one session.
///
/// A lease lasts for its ttl, but without an answer from the ensemble at most for half of the
/// session timeout. If a process crashes, the servers delete its nodes when its session expires.
/// Waiters queue in the order of arrival, and each is notified when the one before it leaves; readers,
/// when the last writer before them leaves. The token is the id of the transaction that created the
/// holder's node; readers that hold together have one, which the lock's node records.
///
/// The node of a semaphore has its limit and the slots of its permits; the token of a permit is above each earlier one of
/// the semaphore.
///
/// Calls end within the session timeout.
#[derive(Debug)]
pub struct ZooKeeperBackend {
    store: Arc<Store>,
    capability: Capability,
    observers: Arc<Observers>,
}

impl ZooKeeperBackend {
    /// Starts the tasks in the current runtime.
    pub(crate) fn start(address: Address, clock: Clock, session: Session) -> Self {
        let mut capability = Capability::new("zookeeper", LeaseKind::Ttl);
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
        capability.longest_ttl = Some(session.term());
        let observers = Observers::new(address.clone(), clock.clone());
        let (states, number) = (session.states(), session.number);
        let store = Arc::new(Store::new(address, clock.clone(), session));
        let keeper = tokio::spawn(session_keeper::run(Arc::downgrade(&store), states, number));
        let janitor = release::run(Arc::downgrade(&store), clock, store.bell.clone());
        let janitor = tokio::spawn(janitor);
        store.keep([keeper.abort_handle(), janitor.abort_handle()]);
        Self { store, capability, observers }
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }
}

impl Backend for ZooKeeperBackend {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn place(&self) -> String {
        self.store.address.place.clone()
    }

    fn attach(&self, _client: ClientId, events: EventSink) {
        self.store.attach(events);
    }

    fn acquire(&self, request: AcquireRequest) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(async move {
            let answer = acquire::acquire(&self.store, &request).await;
            answer.map_err(|error| error.during("acquire", Some(&request.name)))
        })
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(async move {
            let answers = renew::renew(&self.store, leases).await.into_iter().zip(leases);
            let named = answers.map(|(answer, lease)| {
                answer.map_err(|error| error.during("renew", Some(&lease.name)))
            });
            named.collect()
        })
    }

    fn release(&self, release: ReleaseRequest) -> BoxFuture<'_, Result<Ended>> {
        Box::pin(async move {
            let ended = match (&release.keep, &release.then) {
                (Some(_), _) => Err(unsupported("keep")),
                (_, Some(_)) => Err(unsupported("then")),
                (None, None) => release::release(&self.store, &release).await,
            };
            match ended {
                Ok(verdict) => Ok(Ended::new(verdict, None)),
                Err(error) => Err(error.during("release", Some(&release.name))),
            }
        })
    }

    fn convert(&self, request: ConvertRequest) -> BoxFuture<'_, Result<Converted>> {
        Box::pin(async move {
            let converted = convert::convert(&self.store, &request).await;
            converted.map_err(|error| error.during("convert", Some(&request.next.name)))
        })
    }

    fn limit<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Option<StoredLimit>>> {
        Box::pin(async move {
            let limit = limit::limit(&self.store, name).await;
            limit.map_err(|error| error.during("limit", Some(name)))
        })
    }

    fn set_limit(&self, change: LimitChange) -> BoxFuture<'_, Result<LimitChanged>> {
        Box::pin(async move {
            let changed = limit::set_limit(&self.store, &change).await;
            changed.map_err(|error| error.during("set-limit", Some(&change.name)))
        })
    }

    fn value<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        Box::pin(async move {
            let value = latch::value(&self.store, name).await;
            value.map_err(|error| error.during("status", Some(name)))
        })
    }

    fn swap_value(&self, swap: ValueSwap) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            let swapped = latch::swap(&self.store, &swap).await;
            swapped.map_err(|error| error.during("count-down", Some(&swap.name)))
        })
    }

    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>> {
        Box::pin(async move {
            let status = status::status(&self.store, name).await;
            status.map_err(|error| error.during("status", Some(name)))
        })
    }

    fn watch(&self, name: &Name) -> Option<Changes> {
        self.observers.observe(name)
    }

    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        Box::pin(async move {
            let listed = status::list(&self.store, prefix, limit).await;
            listed.map_err(|error| error.during("list", None))
        })
    }

    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(async move {
            let forced = status::force_release(&self.store, name, token).await;
            forced.map_err(|error| error.during("force-release", Some(name)))
        })
    }

    fn force_release_attempt<'a>(
        &'a self,
        name: &'a Name,
        attempt: AttemptId,
        mode: Mode,
    ) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(async move {
            let forced = match mode {
                Mode::Permit => {
                    semaphore_status::force_release_attempt(&self.store, name, attempt).await
                }
                _ => status::force_release_reader(&self.store, name, attempt).await,
            };
            forced.map_err(|error| error.during("force-release", Some(name)))
        })
    }

    fn abandon(&self, release: &ReleaseRequest) {
        release::abandon(&self.store, release);
    }
}

fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the zookeeper backend does not support {what}"))
}
