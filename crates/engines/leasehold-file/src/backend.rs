//! The `Backend` trait for a directory of files.

mod acquire;
mod attempts;
mod convert;
mod directory;
mod doctor;
mod enter;
pub(crate) mod escape;
mod flock;
mod flock_line;
mod flock_open;
mod forget;
mod here;
mod latch;
mod latch_record;
mod lease;
mod lock_file;
mod observers;
mod order;
mod os_error;
mod permit_status;
mod permits;
mod readers;
pub(crate) mod record;
mod renew;
mod section;
mod semaphore_record;
mod status;
mod store;
pub(crate) mod stored_record;
pub(crate) mod waiter_queue;
mod watch;

use std::path::Path;
use std::sync::Arc;

use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Changes, ConvertRequest, Converted, Ended,
    EventSink, LimitChange, LimitChanged, Mode, ReleaseRequest, Renewal, Renewed, StoredLimit,
    ValueSwap,
};
use leasehold_core::clock::Clock;
use leasehold_core::doctor::Diagnosis;
use leasehold_core::{
    AttemptId, Capability, ClientId, Error, ErrorKind, Forced, Holder, LeaseKind, Name, Result,
    Status, Token,
};
use tokio::runtime::Handle;

use self::directory::Directory;
pub use self::flock::FlockBackend;
use self::store::Store;

/// Locks in a directory on this machine.
///
/// A lease lasts as long as the lock file is open in this process, or in another process that has
/// the [`descriptor`](Backend::descriptor). So a lease needs no renewal: a crash ends it
/// immediately, and a stopped process keeps it. `renew` only checks that the file still exists.
///
/// Waiters of all processes queue in the order of arrival by the wall clock. The first waiter is
/// notified when the lock becomes free. If the first waiter is stopped, the next one passes it when
/// the lock has been free for at most 0.8 s; each further stopped waiter adds as much. A try that
/// does not wait returns `Busy` while the queue is not empty.
///
/// The lock is a read-write lock: many processes may hold it to read. The order is phase-fair: while a
/// writer waits, later readers wait too, and all that wait when a writer leaves enter before the next.
///
/// Calls run on the runtime's blocking threads, or on the polling thread if there is no runtime.
/// They have no timeout: a grant waits until its record is on disk, even if the disk hangs.
#[derive(Debug)]
pub struct FileBackend {
    store: Arc<Store>,
    capability: Capability,
}

impl FileBackend {
    /// Opens a directory, relative to the current one, and creates it with its parents (mode 0700) if
    /// it does not exist. Blocks on the file system; checks that files can be written and locked.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] on a network file system, [`ErrorKind::Foreign`] for a directory
    /// with other content or of a newer version, [`ErrorKind::Refused`] or
    /// [`ErrorKind::Unavailable`] if it cannot be written. After an error nothing remains except the
    /// directories that were created.
    pub fn open(path: &Path, clock: Clock) -> Result<Self> {
        let mut capability = Capability::new("file", LeaseKind::Session);
        capability.ordered = true;
        capability.push = true;
        capability.shared = true;
        capability.semaphores = true;
        capability.latches = true;
        capability.observe = true;
        capability.list = true;
        let store = Arc::new(Store::new(Directory::open(path)?, clock));
        Ok(Self { store, capability })
    }

    /// Returns what can harm locks in a directory, which need not exist. Changes nothing. Blocks on the
    /// file system.
    ///
    /// # Errors
    /// None at the moment: the result lists what could not be checked.
    pub fn diagnose(path: &Path, clock: &Clock) -> Result<Diagnosis> {
        doctor::diagnose(path, clock)
    }

    /// Runs blocking work as [`blocking`] does.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        blocking(&self.store, work).await
    }
}

/// Runs blocking work on a blocking thread of the runtime, or directly if there is no runtime.
async fn blocking<S: Send + Sync + 'static, T: Send + 'static>(
    store: &Arc<S>,
    work: impl FnOnce(&S) -> Result<T> + Send + 'static,
) -> Result<T> {
    let Ok(runtime) = Handle::try_current() else { return work(store) };
    let store = store.clone();
    match runtime.spawn_blocking(move || work(&store)).await {
        Ok(done) => done,
        Err(error) => {
            Err(Error::new(ErrorKind::Closed, "the runtime has shut down").with_source(error))
        }
    }
}

/// Returns the error for a forced release.
fn cannot_revoke(holders: Vec<Holder>) -> Error {
    let named = holders.iter().map(|one| format!("process {} on {}", one.pid, one.host));
    let whom = match holders.is_empty() {
        false => named.collect::<Vec<_>>().join(" and "),
        true => "the process that holds it".to_owned(),
    };
    Error::new(
        ErrorKind::Unsupported,
        format!("a file lock ends with its process and cannot be revoked; end {whom}"),
    )
}

impl FileBackend {
    /// Removes the files of the free locks whose names start with `names`, and returns the number of
    /// these locks. For names that are never used again. Blocks on the file system.
    ///
    /// The files contain the last token. Without them, only the wall clock ensures that the next token
    /// is larger. So the files of a lock remain until the clock has passed its last token, and while
    /// a client waits for the lock.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] or [`ErrorKind::Unavailable`] if a file cannot be removed,
    /// [`ErrorKind::Foreign`] for a damaged record, which is kept. Files that were removed before an
    /// error are not restored.
    pub fn forget(&self, names: &str) -> Result<u64> {
        forget::forget(&self.store.directory, names, &self.store.clock)
    }
}

impl Backend for FileBackend {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn place(&self) -> String {
        format!("file:{}", self.store.directory.root().display())
    }

    fn attach(&self, _client: ClientId, events: EventSink) {
        self.store.attach(events);
    }

    fn acquire(&self, request: AcquireRequest) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(async move {
            self.blocking(move |store| {
                let demand = request.demand.filter(|_| request.mode == Mode::Permit);
                let acquire = || match demand {
                    Some(demand) => store.acquire_permit(&request, demand),
                    None => store.acquire(&request),
                };
                store
                    .after_latch(&request.name, acquire)
                    .map_err(|error| error.during("acquire", Some(&request.name)))
            })
            .await
        })
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(async move {
            let leases = leases.to_vec();
            let count = leases.len();
            let all = self.blocking(move |store| {
                Ok(leases.iter().map(|lease| renew::check(store, lease)).collect())
            });
            all.await.unwrap_or_else(|error| vec![Err(error); count])
        })
    }

    fn release(&self, release: ReleaseRequest) -> BoxFuture<'_, Result<Ended>> {
        Box::pin(async move {
            if release.keep.is_some() || release.then.is_some() {
                let what = if release.keep.is_some() { "keep" } else { "then" };
                return Err(unsupported(what).during("release", Some(&release.name)));
            }
            self.blocking(move |store| {
                let verdict = store.attempts.end(release.attempt, release.base, true);
                Ok(Ended::new(verdict, None))
            })
            .await
        })
    }

    fn convert(&self, request: ConvertRequest) -> BoxFuture<'_, Result<Converted>> {
        Box::pin(async move {
            if request.end.name != request.next.name {
                let message = "file: a lease can only be converted for the same lock";
                let error = Error::new(ErrorKind::Invalid, message);
                return Err(error.during("convert", Some(&request.end.name)));
            }
            self.blocking(move |store| {
                store
                    .convert(&request)
                    .map_err(|error| error.during("convert", Some(&request.next.name)))
            })
            .await
        })
    }

    fn limit<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Option<StoredLimit>>> {
        let name = name.clone();
        Box::pin(self.blocking(move |store| {
            store
                .after_latch(&name, || store.limit(&name))
                .map_err(|error| error.during("limit", Some(&name)))
        }))
    }

    fn set_limit(&self, change: LimitChange) -> BoxFuture<'_, Result<LimitChanged>> {
        Box::pin(self.blocking(move |store| {
            store
                .after_latch(&change.name, || store.set_limit(&change))
                .map_err(|error| error.during("set-limit", Some(&change.name)))
        }))
    }

    fn value<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        let name = name.clone();
        Box::pin(self.blocking(move |store| {
            store.value(&name).map_err(|error| error.during("status", Some(&name)))
        }))
    }

    fn swap_value(&self, swap: ValueSwap) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.blocking(move |store| {
            store.swap_value(&swap).map_err(|error| error.during("count-down", Some(&swap.name)))
        }))
    }

    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>> {
        let name = name.clone();
        Box::pin(self.blocking(move |store| {
            status::status(store, &name).map_err(|error| error.during("status", Some(&name)))
        }))
    }

    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        let prefix = prefix.to_owned();
        Box::pin(self.blocking(move |store| {
            status::list(store, &prefix, limit).map_err(|error| error.during("list", None))
        }))
    }

    fn force_release<'a>(&'a self, name: &'a Name, _token: Token) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(async move {
            let status = self.status(name).await.ok();
            let holders = status.map(|status| match (status.permits, status.readers.is_empty()) {
                (Some(permits), _) => {
                    permits.holders.into_iter().map(|permit| permit.holder).collect()
                }
                (None, true) => status.holder.into_iter().collect(),
                (None, false) => status.readers,
            });
            let error = cannot_revoke(holders.unwrap_or_default());
            Err(error.during("force-release", Some(name)))
        })
    }

    fn watch(&self, name: &Name) -> Option<Changes> {
        self.store.observe(name)
    }

    fn descriptor(&self, attempt: AttemptId) -> Option<std::os::fd::OwnedFd> {
        self.store.attempts.lease(attempt)?.duplicate().ok()
    }

    fn abandon(&self, release: &ReleaseRequest) {
        self.store.attempts.end(release.attempt, release.base, false);
    }
}

fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the file backend does not support {what}"))
}
