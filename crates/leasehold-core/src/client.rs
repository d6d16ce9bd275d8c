//! The client: one process's connection to a backend, and where its locks come from.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{AttemptId, ClientId};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::backend::{Backend, BoxFuture, Capability, EventSink, Status};
use crate::clock::Clock;
use crate::late::{LateEndings, Reopen};
use crate::lock::Lock;
use crate::renewal::{Job, Task};
use crate::shared::{Shared, Usage};
use crate::{Error, ErrorKind, Result};

/// A connection to a backend. Cheap to clone; all clones are the same client.
///
/// It owns one background task, whatever the number of locks, that renews them, tells losses and
/// ends what was abandoned. The task lives as long as a clone or a guard does, or until the
/// runtime ends that it was made on; guards whose lease needs renewal are lost then, and told so.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    jobs: mpsc::UnboundedSender<Job>,
}

/// Settings of a client; [`build`](Self::build) makes it.
pub struct ClientBuilder {
    backend: Arc<dyn Backend>,
    clock: Clock,
    patience: Duration,
    try_patience: Duration,
    reopen: Option<Box<Reopen>>,
}

impl ClientBuilder {
    /// A builder with the defaults: system clock, 10 s patience (2 s for one try), the current runtime.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            backend,
            clock: Clock::system(),
            patience: Duration::from_secs(10),
            try_patience: Duration::from_secs(2),
            reopen: None,
        }
    }

    /// The clock that validity is computed from. Default: the system's.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// How long an acquire goes on while the backend does not answer before it fails with
    /// [`ErrorKind::Unavailable`]. It counts for each from when it began, or from when answers
    /// failed to come, whichever was later; those who wait in line for the same lock do not wait
    /// for each other's patience to end. Default: 10 s.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How long [`Lock::try_acquire`] goes on while the backend does not answer before it fails with
    /// [`ErrorKind::Unavailable`]; no longer than [`patience`](Self::patience). Default: 2 s.
    pub fn try_patience(mut self, patience: Duration) -> Self {
        self.try_patience = patience;
        self
    }

    /// How a second connection to the same place is opened, for leases whose release the runtime of
    /// the client did not finish before it ended. It is used on a thread of its own, and the runtime's
    /// end waits for it for 1 s in all at most. Default: none; such leases are left to their ttl.
    /// `leasehold::connect` sets it where it is of use.
    pub fn reopen(
        mut self,
        reopen: impl Fn() -> BoxFuture<'static, Result<Arc<dyn Backend>>> + Send + Sync + 'static,
    ) -> Self {
        self.reopen = Some(Box::new(reopen));
        self
    }

    /// Makes the client and starts its background task on the current runtime.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when called outside a tokio runtime;
    /// [`ErrorKind::Unavailable`] when the system has no randomness to give.
    pub fn build(self) -> Result<Client> {
        let runtime = Handle::try_current().map_err(|_| no_runtime())?;
        let (client, task) = self.parts()?;
        runtime.spawn(task.run());
        Ok(client)
    }

    fn parts(self) -> Result<(Client, Task)> {
        let bits =
            getrandom::u64().map_err(|_| unavailable("the system has no randomness to give"))?;
        let client = ClientId::from_bits(bits);
        let (sink, events) = EventSink::channel();
        let late = LateEndings::new(self.reopen);
        let patience = (self.patience, self.try_patience.min(self.patience));
        let shared = Shared::new(self.backend, self.clock, client, patience, late);
        let shared = Arc::new(shared);
        shared.backend.attach(client, sink.counting(shared.lines.behind()));
        let (jobs, receiver) = mpsc::unbounded_channel();
        let task = Task::new(shared.clone(), receiver, events);
        Ok((Client(Arc::new(Inner { shared, jobs })), task))
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("ClientBuilder");
        out.field("backend", &self.backend).field("clock", &self.clock);
        out.field("patience", &self.patience).field("try_patience", &self.try_patience);
        out.finish_non_exhaustive()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usage = self.usage();
        f.debug_struct("Client").field("place", &self.place()).field("usage", &usage).finish()
    }
}

impl Client {
    /// A client of this backend with default settings.
    ///
    /// # Errors
    /// As [`ClientBuilder::build`].
    pub fn new(backend: Arc<dyn Backend>) -> Result<Self> {
        ClientBuilder::new(backend).build()
    }

    /// A client whose backend and background task live on a thread and runtime of their own, so
    /// that tasks of the program that block their runtime cannot starve renewal, and no runtime
    /// of the program's takes it along when it ends. The thread ends with the client and its
    /// guards.
    ///
    /// # Errors
    /// What `open` says; [`ErrorKind::Unavailable`] when the system has no thread to give.
    pub async fn on_own_thread<O, F>(open: O) -> Result<Self>
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
                let parts = async { ClientBuilder::new(open().await?).parts() }.await;
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

    /// The lock of this name. No I/O; a name that is not allowed is an error when it is used.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.clone(), name.as_ref())
    }

    /// The known locks whose names start with `prefix`, in order of their names, `limit` at most.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where the engine cannot list; otherwise what the backend says.
    pub async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<Status>> {
        let listed = self.shared().backend.list(prefix, limit).await;
        listed.map_err(|error| error.during("list", None))
    }

    /// What the engine can do.
    pub fn capability(&self) -> &Capability {
        &self.shared().capability
    }

    /// Where the locks are, without credentials.
    pub fn place(&self) -> String {
        self.shared().backend.place()
    }

    /// What a person should know of the store, as it was seen when it was connected: an even number of
    /// nodes, one that does not answer, a clock that is far off.
    pub fn warnings(&self) -> &[String] {
        self.shared().backend.warnings()
    }

    /// Ends waiting, and returns when everything that was abandoned has been ended at the backend.
    /// Make it the last line of a program: it waits for the releases of dropped guards.
    ///
    /// While the backend does not answer, each release is repeated until its ttl is over, and this waits
    /// for that. Where a program must end sooner, put it into a `tokio::time::timeout`.
    ///
    /// That includes minimum holds that linger after their guard was dropped. Guards stay valid
    /// and are still renewed; release them before, or drop them after. Acquiring fails with [`ErrorKind::Closed`] from now on.
    pub async fn close(&self) {
        self.shared().close();
        self.settle().await;
    }

    /// Returns when everything that was abandoned until now has been ended at the backend.
    pub async fn settle(&self) {
        let (done, settled) = oneshot::channel();
        if self.jobs().send(Job::Settle(done)).is_ok() {
            settled.await.ok();
        }
    }

    /// What the client holds and waits for at the moment.
    pub fn usage(&self) -> Usage {
        self.shared().usage()
    }

    pub(crate) fn open(&self) -> Result<()> {
        match self.shared().is_closed() {
            true => Err(crate::acquire::closed()),
            false => Ok(()),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    pub(crate) fn jobs(&self) -> &mpsc::UnboundedSender<Job> {
        &self.0.jobs
    }

    #[cfg(unix)]
    pub(crate) fn descriptor(&self, attempt: AttemptId) -> Option<std::os::fd::OwnedFd> {
        self.shared().backend.descriptor(attempt)
    }
}

fn no_runtime() -> Error {
    Error::new(
        ErrorKind::Invalid,
        "no tokio runtime here: connect inside one, or use the blocking client",
    )
    .during("connect", None)
}

fn unavailable(what: &str) -> Error {
    Error::new(ErrorKind::Unavailable, what).during("connect", None)
}
