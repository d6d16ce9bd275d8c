//! The `Backend` trait for a directory of files.

mod attempts;
mod directory;
mod escape;
mod examine;
mod forget;
mod line;
mod lockfile;
mod oserror;
mod record;
mod status;
mod store;
mod take;
mod watch;

use std::path::Path;
use std::sync::Arc;

use leasehold_core::backend::{
    Answer, Ask, Backend, BoxFuture, Capability, End, Ended, EventSink, Forced, LeaseKind, Mode,
    Renewal, Renewed, Status,
};
use leasehold_core::clock::Clock;
use leasehold_core::doctor::Examined;
use leasehold_core::{AttemptId, ClientId, Error, ErrorKind, Name, Result, Token};
use tokio::runtime::Handle;

use self::directory::Directory;
use self::oserror::failed;
use self::store::Store;

/// Locks in a directory on this machine.
///
/// A lease lasts as long as this process has the lock file open, or another one to which
/// [`descriptor`](Backend::descriptor) was handed: no renewal is needed, a crash ends it at once,
/// a stopped process keeps it. `renew` only checks that nobody has removed the file.
///
/// Waiters stand in line, across processes, in order of arrival by the wall clock; the first in
/// line is woken when the lock gets free. One that is stopped while it is first holds the others
/// up: with the lock free, the waiter behind it passes it after 0.8 s at most, and so on for each
/// that is stopped. A try that does not wait is `Busy` while anybody stands in line.
///
/// Calls do their work on the runtime's threads for blocking work, or where they are polled when
/// there is no runtime. They take as long as the disk does: a grant waits until its record is on
/// disk, and nothing cuts short a disk that hangs.
#[derive(Debug)]
pub struct FileBackend {
    store: Arc<Store>,
    capability: Capability,
}

impl FileBackend {
    /// Opens a directory, relative to the current one, and makes it (mode 0700, parents too) when
    /// it is not there. Blocks on the file system; proves that files can be written and locked.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] on a network file system, [`ErrorKind::Foreign`] for a directory
    /// of something else or of a newer version, [`ErrorKind::Refused`] or
    /// [`ErrorKind::Unavailable`] when it cannot be written. Nothing is left behind, except
    /// directories that were made on the way.
    pub fn open(path: &Path, clock: Clock) -> Result<Self> {
        let mut capability = Capability::new("file", LeaseKind::Session);
        capability.ordered = true;
        capability.push = true;
        capability.list = true;
        let store = Arc::new(Store::new(Directory::open(path)?, clock));
        Ok(Self { store, capability })
    }

    /// Says what can hurt locks in a directory, which need not be there yet; changes nothing. Blocks
    /// on the file system.
    ///
    /// # Errors
    /// None at the moment: what cannot be looked at is said in the answer.
    pub fn examine(path: &Path, clock: &Clock) -> Result<Examined> {
        examine::examine(path, clock)
    }

    /// Runs blocking work where it holds nobody up.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let Ok(runtime) = Handle::try_current() else { return work(&self.store) };
        let store = self.store.clone();
        match runtime.spawn_blocking(move || work(&store)).await {
            Ok(done) => done,
            Err(error) => {
                Err(Error::new(ErrorKind::Closed, "the runtime has ended").with_source(error))
            }
        }
    }
}

impl FileBackend {
    /// Removes the files of the free locks whose names start with `names`, and says of how many.
    /// Blocks on the file system.
    ///
    /// The files hold the last token; without them the wall clock alone keeps the next token above it.
    /// So a lock stays until the clock has passed its last token, and as long as a waiter is in line.
    /// For names that are never used again; very long names are left out.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] or [`ErrorKind::Unavailable`] when a file cannot be removed,
    /// [`ErrorKind::Foreign`] for a damaged record, which stays; what was removed before stays so.
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

    fn acquire(&self, ask: Ask) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(async move {
            if ask.mode != Mode::Exclusive {
                return Err(unsupported("shared mode").during("acquire", Some(&ask.name)));
            }
            self.blocking(move |store| {
                store.acquire(&ask).map_err(|error| error.during("acquire", Some(&ask.name)))
            })
            .await
        })
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(async move {
            let leases = leases.to_vec();
            let count = leases.len();
            let all =
                self.blocking(move |store| Ok(leases.iter().map(|r| check(store, r)).collect()));
            all.await.unwrap_or_else(|error| vec![Err(error); count])
        })
    }

    fn release(&self, end: End) -> BoxFuture<'_, Result<Ended>> {
        Box::pin(async move {
            if end.keep.is_some() || end.then.is_some() {
                let what = if end.keep.is_some() { "keep" } else { "then" };
                return Err(unsupported(what).during("release", Some(&end.name)));
            }
            self.blocking(move |store| {
                let verdict = store.attempts.end(end.attempt, end.base, true);
                Ok(Ended { verdict, then: None })
            })
            .await
        })
    }

    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>> {
        let name = name.clone();
        Box::pin(self.blocking(move |store| {
            status::status(&store.directory, &store.here, &name)
                .map_err(|error| error.during("status", Some(&name)))
        }))
    }

    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        let prefix = prefix.to_owned();
        Box::pin(self.blocking(move |store| {
            status::list(&store.directory, &store.here, &prefix, limit)
                .map_err(|error| error.during("list", None))
        }))
    }

    fn force_release<'a>(&'a self, name: &'a Name, _token: Token) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(async move {
            let whom = match self.status(name).await.ok().and_then(|status| status.holder) {
                Some(holder) => format!("process {} on {}", holder.pid, holder.host),
                None => "the process that holds it".to_owned(),
            };
            Err(Error::new(
                ErrorKind::Unsupported,
                format!("a file lock ends with its process and cannot be taken away; end {whom}"),
            )
            .during("force-release", Some(name)))
        })
    }

    fn descriptor(&self, attempt: AttemptId) -> Option<std::os::fd::OwnedFd> {
        self.store.attempts.lease(attempt)?.duplicate().ok()
    }

    fn abandon(&self, end: &End) {
        self.store.attempts.end(end.attempt, end.base, false);
    }
}

fn check(store: &Store, renewal: &Renewal) -> Result<Renewed> {
    let Some(lease) = store.attempts.lease(renewal.attempt) else { return Ok(Renewed::Lost) };
    if lease.token() != renewal.base {
        return Ok(Renewed::Lost);
    }
    let path = store.directory.files(&renewal.name).lock;
    match lease.is_healthy() {
        Ok(true) => Ok(Renewed::Renewed),
        Ok(false) => Ok(Renewed::Lost),
        Err(error) => Err(failed("look at", &path, error).during("renew", Some(&renewal.name))),
    }
}

fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the file backend has no {what}"))
}
