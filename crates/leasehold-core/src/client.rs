//! The client: one process's connection to a backend, and where its locks come from.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{AttemptId, ClientId};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::backend::{Backend, Capability, EventSink, Status};
use crate::clock::Clock;
use crate::lock::Lock;
use crate::renewal::{Job, Task};
use crate::shared::{Shared, Usage};
use crate::{Error, ErrorKind, Result};

/// A connection to a backend. Cheap to clone; all clones are the same client.
///
/// It owns one background task, whatever the number of locks, that renews them, tells losses and
/// ends what was abandoned. The task lives as long as a clone or a guard does, or until the
/// runtime ends that it was made on; guards whose lease needs renewal are lost then, and told so.
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    jobs: mpsc::UnboundedSender<Job>,
}

/// Settings of a client; [`build`](Self::build) makes it.
#[derive(Debug)]
pub struct ClientBuilder {
    backend: Arc<dyn Backend>,
    clock: Clock,
    patience: Duration,
    own_thread: bool,
}

impl ClientBuilder {
    /// A builder with the defaults: system clock, 10 s patience, the current runtime.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            backend,
            clock: Clock::system(),
            patience: Duration::from_secs(10),
            own_thread: false,
        }
    }

    /// The clock that validity is computed from. Default: the system's.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// How long an acquire goes on without hearing anything from the backend before it fails with
    /// [`ErrorKind::Unavailable`]. Default: 10 s.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Gives the background task a thread and runtime of its own, so that tasks of the program
    /// that block their runtime cannot starve renewal. Default: false, the current runtime.
    pub fn own_thread(mut self, own_thread: bool) -> Self {
        self.own_thread = own_thread;
        self
    }

    /// Makes the client and starts its background task.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when called outside a tokio runtime without
    /// [`own_thread`](Self::own_thread); [`ErrorKind::Unavailable`] when the system has no
    /// randomness or no thread to give.
    pub fn build(self) -> Result<Client> {
        let unavailable =
            |what: &str| Error::new(ErrorKind::Unavailable, what).during("connect", None);
        let bits =
            getrandom::u64().map_err(|_| unavailable("the system has no randomness to give"))?;
        let client = ClientId::from_bits(bits);
        let runtime = if self.own_thread {
            None
        } else {
            Some(Handle::try_current().map_err(|_| no_runtime())?)
        };
        let (sink, events) = EventSink::channel();
        self.backend.attach(client, sink);
        let shared = Arc::new(Shared::new(self.backend, self.clock, client, self.patience));
        let (jobs, receiver) = mpsc::unbounded_channel();
        let task = Task::new(shared.clone(), receiver, events);
        match runtime {
            Some(runtime) => drop(runtime.spawn(task.run())),
            None => spawn_thread(task).map_err(|error| {
                unavailable("cannot start the renewal thread").with_source(error)
            })?,
        }
        Ok(Client(Arc::new(Inner { shared, jobs })))
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

    /// The lock of this name. No I/O; a name that is not allowed is an error when it is used.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.clone(), name.as_ref())
    }

    /// The known locks whose names start with `prefix`, in order of their names, `limit` at most.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where the engine cannot list; otherwise what the backend says.
    pub async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<Status>> {
        self.open()?;
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

    /// Ends waiting, and returns when everything that was abandoned has been ended at the backend.
    ///
    /// Guards stay valid and are still renewed; release them before, or drop them after. Acquiring
    /// fails with [`ErrorKind::Closed`] from now on.
    pub async fn close(&self) {
        self.shared().closed.cancel();
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
        match self.shared().closed.is_cancelled() {
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
        "no tokio runtime here: connect inside one, ask for own_thread, or use the blocking client",
    )
    .during("connect", None)
}

fn spawn_thread(task: Task) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new()
        .name("leasehold-renewal".into())
        .spawn(move || runtime.block_on(task.run()))
        .map(drop)
}
