//! The `Backend` of locks that callers of flock(2) share.

use std::path::Path;
use std::sync::Arc;

use leasehold_core::backend::wire::{no_list, only_locks, only_release};
use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Ended, EventSink, ReleaseRequest, Renewal, Renewed,
};
use leasehold_core::clock::Clock;
use leasehold_core::doctor::Diagnosis;
use leasehold_core::{
    AttemptId, Capability, ClientId, Forced, LeaseKind, Name, Result, Status, Token,
};

use super::super::{blocking, cannot_revoke, renew};
use super::folder::Folder;
use super::status;
use super::store::FlockStore;

/// Locks that exclude `flock(1)` and other callers of flock(2) on the same files (`?wire=flock`).
///
/// The lock `NAME` is the file `NAME` in the directory, which is never written, renamed or removed. A lease lasts as long as
/// the file is open in this process, or in another one that has the [`descriptor`](Backend::descriptor): no time ends it.
/// There is no order among those who wait.
///
/// Calls run as those of [`FileBackend`](crate::FileBackend).
#[derive(Debug)]
pub struct FlockBackend {
    store: Arc<FlockStore>,
    capability: Capability,
}

impl FlockBackend {
    /// Opens a directory, which must exist. `suffix` follows the name of a lock in the name of its file. Blocks on the file
    /// system.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](leasehold_core::ErrorKind::Unsupported) on a network file system;
    /// [`ErrorKind::Foreign`](leasehold_core::ErrorKind::Foreign) if clients without the option use it;
    /// [`ErrorKind::Refused`](leasehold_core::ErrorKind::Refused) if it does not exist, cannot be written, or has the records
    /// of another user.
    pub fn open(path: &Path, suffix: &str, clock: Clock) -> Result<Self> {
        let mut capability = Capability::new("file", LeaseKind::Session);
        capability.push = true;
        only_locks(&mut capability);
        let folder = Folder::open(path, suffix).map_err(|error| error.during("connect", None))?;
        Ok(Self { store: Arc::new(FlockStore::new(folder, clock)), capability })
    }

    /// Returns what can harm locks in a directory. Changes nothing. Blocks on the file system.
    ///
    /// # Errors
    /// None at the moment: the result lists what could not be checked.
    pub fn diagnose(path: &Path, suffix: &str) -> Result<Diagnosis> {
        super::doctor::diagnose(path, suffix)
    }
}

impl Backend for FlockBackend {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn place(&self) -> String {
        format!("file:{}?wire=flock", self.store.folder.root.display())
    }

    fn attach(&self, _client: ClientId, events: EventSink) {
        self.store.attach(events);
    }

    fn acquire(&self, request: AcquireRequest) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(blocking(&self.store, move |store| {
            store.acquire(&request).map_err(|error| error.during("acquire", Some(&request.name)))
        }))
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(async move {
            let (leases, count) = (leases.to_vec(), leases.len());
            let all = blocking(&self.store, move |store| {
                let check = |lease| {
                    let held = renew::held(&store.attempts, lease)?;
                    Ok(held.map_or(Renewed::Lost, |_| Renewed::Renewed))
                };
                Ok(leases.iter().map(check).collect())
            });
            all.await.unwrap_or_else(|error| vec![Err(error); count])
        })
    }

    fn release(&self, release: ReleaseRequest) -> BoxFuture<'_, Result<Ended>> {
        Box::pin(async move {
            only_release(&release).map_err(|error| error.during("release", Some(&release.name)))?;
            blocking(&self.store, move |store| {
                let verdict = store.attempts.end(release.attempt, release.base, true);
                Ok(Ended::new(verdict, None))
            })
            .await
        })
    }

    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>> {
        let name = name.clone();
        Box::pin(blocking(&self.store, move |store| {
            status::status(store, &name).map_err(|error| error.during("status", Some(&name)))
        }))
    }

    fn list<'a>(&'a self, _prefix: &'a str, _limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        Box::pin(std::future::ready(Err(no_list().during("list", None))))
    }

    fn force_release<'a>(&'a self, name: &'a Name, _token: Token) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(async move {
            let status = self.status(name).await.ok();
            let holders = status.and_then(|status| status.holder).into_iter().collect();
            Err(cannot_revoke(holders).during("force-release", Some(name)))
        })
    }

    fn descriptor(&self, attempt: AttemptId) -> Option<std::os::fd::OwnedFd> {
        self.store.attempts.lease(attempt)?.duplicate().ok()
    }

    fn abandon(&self, release: &ReleaseRequest) {
        self.store.attempts.end(release.attempt, release.base, false);
    }
}
