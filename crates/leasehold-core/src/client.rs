//! The client: the connection of one process to a backend, and the source of its locks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{AttemptId, ClientId, Deadline};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::backend::{Backend, EventSink};
use crate::background_job::Job;
use crate::driver::Driver;
use crate::late_releases::LateReleases;
use crate::local_handoff::give_all_back;
use crate::lock::Lock;
use crate::options::check_cache;
use crate::renewal::Task;
use crate::settings::ClientSettings;
use crate::shared::{Shared, Usage};
use crate::{Capability, Error, ErrorKind, Result, Status};

/// A connection to a backend. It is cheap to clone, and all clones are the same client.
///
/// A client has one background task for any number of locks. The task renews leases, reports losses
/// and ends abandoned attempts. It lives as long as a clone or a guard, or until its runtime ends.
/// Guards whose lease needs renewal are then lost, and notified.
#[derive(Clone)]
pub struct Client(Arc<Driver>);

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usage = self.usage();
        f.debug_struct("Client").field("place", &self.place()).field("usage", &usage).finish()
    }
}

impl Client {
    /// Creates a client of this backend with default settings.
    ///
    /// # Errors
    /// As [`with_settings`](Self::with_settings).
    pub fn new(backend: Arc<dyn Backend>) -> Result<Self> {
        Self::with_settings(backend, ClientSettings::new())
    }

    /// Creates a client of this backend, and starts its background task on the current runtime.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if called outside a tokio runtime;
    /// [`ErrorKind::Unavailable`] if the system provides no randomness;
    /// [`ErrorKind::Unsupported`] if the settings have a cache time that the engine cannot keep to.
    pub fn with_settings(backend: Arc<dyn Backend>, settings: ClientSettings) -> Result<Self> {
        let runtime = Handle::try_current().map_err(|_| no_runtime())?;
        let (client, task) = parts(backend, settings)?;
        runtime.spawn(task.run());
        Ok(client)
    }

    /// Creates a client whose backend and background task run on their own thread and runtime.
    /// Tasks that block the program's runtime then cannot delay renewals, and the client survives
    /// the end of that runtime. The thread ends with the client and its guards.
    ///
    /// # Errors
    /// The error of `open`; [`ErrorKind::Unavailable`] if the system cannot start a thread.
    pub async fn on_own_thread<O, F>(open: O, settings: ClientSettings) -> Result<Self>
    where
        O: FnOnce() -> F + Send + 'static,
        F: Future<Output = Result<Arc<dyn Backend>>>,
    {
        let no_thread = |error| unavailable("cannot start the renewal thread").with_source(error);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(no_thread)?;
        let (sender, made) = oneshot::channel();
        let live = move || {
            runtime.block_on(async {
                let parts = async { parts(open().await?, settings) }.await;
                let (client, task) = match parts {
                    Ok((client, task)) => (Ok(client), Some(task)),
                    Err(error) => (Err(error), None),
                };
                if sender.send(client).is_ok()
                    && let Some(task) = task
                {
                    task.run().await;
                }
            });
        };
        let thread = std::thread::Builder::new().name("leasehold".into()).spawn(live);
        thread.map_err(no_thread)?;
        made.await.unwrap_or_else(|_| Err(unavailable("the renewal thread has ended")))
    }

    /// Returns the lock of this name. It does no I/O; an invalid name is an error at the first use.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.clone(), name.as_ref())
    }

    /// Returns at most `limit` known locks whose names start with `prefix`, ordered by name.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the engine cannot list; otherwise the error of the backend.
    pub async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<Status>> {
        let listed = self.shared().backend.list(prefix, limit).await;
        listed.map_err(|error| error.during("list", None))
    }

    /// Returns what the engine supports.
    pub fn capability(&self) -> &Capability {
        &self.shared().capability
    }

    /// Returns where the locks are, without credentials.
    pub fn place(&self) -> String {
        self.shared().backend.place()
    }

    /// Returns warnings about the store, as seen when the client connected: for example an even
    /// number of nodes, a node that does not answer, or a clock that is far off.
    pub fn warnings(&self) -> &[String] {
        self.shared().backend.warnings()
    }

    /// Stops all waits, and returns when the backend has ended all abandoned attempts. Make it the
    /// last line of a program: it waits for the releases of dropped guards.
    ///
    /// If the backend does not answer, the client repeats each release until its ttl has ended, and
    /// this call waits for that, but not for locks that are known to be lost. To limit the time,
    /// use `tokio::time::timeout`.
    ///
    /// It also waits for minimum holds of dropped guards. Existing guards stay valid and are still
    /// renewed; release or drop them before this call. From now on, acquiring fails with
    /// [`ErrorKind::Closed`].
    pub async fn close(&self) {
        self.shared().close();
        give_all_back(self.shared()).into_iter().for_each(|pending| self.0.end(Some(pending)));
        self.settle().await;
    }

    /// Returns when all attempts that were abandoned until now have ended at the backend. Like
    /// [`close`](Self::close), it does not wait for lost locks.
    pub async fn settle(&self) {
        let (done, settled) = oneshot::channel();
        if self.0.jobs.send(Job::Settle(done)).is_ok() {
            settled.await.ok();
        }
    }

    /// Returns what the client holds and waits for now.
    pub fn usage(&self) -> Usage {
        self.shared().usage()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// Returns the end of a wait that begins now; `None` for one without an end.
    pub(crate) fn deadline(&self, wait: Option<Duration>) -> Option<Deadline> {
        wait.map(|wait| Deadline::after(self.shared().clock.now(), wait))
    }

    pub(crate) fn driver(&self) -> &Arc<Driver> {
        &self.0
    }

    #[cfg(unix)]
    pub(crate) fn descriptor(&self, attempt: AttemptId) -> Option<std::os::fd::OwnedFd> {
        self.shared().backend.descriptor(attempt)
    }

    #[cfg(unix)]
    pub(crate) fn descriptors(&self, attempt: AttemptId) -> Vec<std::os::fd::OwnedFd> {
        self.shared().backend.descriptors(attempt)
    }
}

/// Creates a client and its background task, which the caller must run.
fn parts(backend: Arc<dyn Backend>, settings: ClientSettings) -> Result<(Client, Task)> {
    let bits = getrandom::u64()
        .map_err(|_| unavailable("the system provides no random bits (getrandom failed)"))?;
    let ClientSettings { clock, patience, try_patience, cache, reopen } = settings;
    if !cache.is_zero() && !backend.capability().cached_leases {
        return Err(backend.capability().no_cached_leases().during("connect", None));
    }
    check_cache(cache)?;
    let client = ClientId::from_bits(bits);
    let (sink, events) = EventSink::channel();
    let patience = (patience, try_patience.min(patience));
    let shared = Shared::new(backend, clock, client, patience, cache, LateReleases::new(reopen));
    let shared = Arc::new(shared);
    shared.backend.attach(client, sink.counting(shared.queues.behind()));
    let (jobs, receiver) = mpsc::unbounded_channel();
    let task = Task::new(shared.clone(), receiver, events);
    Ok((Client(Arc::new(Driver { shared, jobs })), task))
}

fn no_runtime() -> Error {
    Error::new(
        ErrorKind::Invalid,
        "no tokio runtime; connect inside a tokio runtime, or use the blocking client",
    )
    .during("connect", None)
}

fn unavailable(what: &str) -> Error {
    Error::new(ErrorKind::Unavailable, what).during("connect", None)
}
