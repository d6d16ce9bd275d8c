//! A read-write lock by its name: many clients read, or one writes.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{AttemptId, Token};

use crate::asks::Asks;
use crate::backend::{Mode, Origin};
use crate::client::Client;
use crate::guard::Guard;
use crate::hold::Hold;
use crate::options::{CacheTime, Options, invalid};
use crate::rw_guard::{ReadGuard, WriteGuard};
use crate::{Error, Forced, Lock, Name, Result, Status, scope};

/// A read-write lock that is not held yet: many clients may read at a time, or one may write. It is
/// cheap to clone, and creating it does no I/O.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold_core::Result<()> {
/// # use std::sync::Arc;
/// # use leasehold_core::{Client, memory::MemoryStore};
/// # let client = Client::new(Arc::new(MemoryStore::new().connect()))?;
/// let reports = client.rw_lock("reports");
/// let one = reports.read().await?;
/// let other = reports.read().await?; // beside the first one, without a call to the store
/// assert_eq!(one.token(), other.token());
/// assert!(reports.try_write().await?.is_none());
/// one.release().await?;
/// other.release().await?;
///
/// let write = reports.write().await?;
/// let read = write.downgrade().await?; // no writer gets in between
/// read.release().await?;
/// # Ok(()) }
/// ```
///
/// The order is phase-fair (Brandenburg and Anderson, "Reader-Writer Synchronization for
/// Shared-Memory Multiprocessor Real-Time Systems", 2010): once a writer waits, later readers wait
/// too; when it releases, all readers that wait by then enter together, and then the next writer. So
/// a writer waits for at most one read phase for each writer before it, and readers for one writer. On
/// engines with [`ReadOrder::Fifo`](crate::ReadOrder) (ZooKeeper) the order is that of arrival, and readers
/// with no writer between them enter together.
///
/// Each reading client has one lease of its own, which its tasks share. All readers of a phase have
/// the same fencing token, and every later writer a larger one. A paused writer
/// can still write while others read: a reader calls [`Guard::announce`] before it reads.
///
/// [`Client::lock`](crate::Client::lock) of the same name is the writer of this lock.
///
/// The options are checked together when the lock is used, before anything is sent. A minimum hold
/// is for writers: an acquire to read with one is an error.
#[must_use = "a lock does nothing until it is acquired; a setter returns the changed lock"]
#[derive(Clone, Debug)]
pub struct RwLock {
    pub(crate) client: Client,
    name: Result<Name>,
    pub(crate) options: Options,
}

impl Client {
    /// Returns the read-write lock of this name. It does no I/O; an invalid name is an error at the
    /// first use.
    pub fn rw_lock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self.clone(), name.as_ref())
    }
}

impl RwLock {
    pub(crate) fn new(client: Client, name: &str) -> Self {
        Self { client, name: Name::new(name).map_err(Error::from), options: Options::default() }
    }

    /// Sets a fixed lease, which is not renewed; see [`Lock::lease`](crate::Lock::lease).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = Some(lease);
        self
    }

    /// Sets for how long the client caches a lease, that of a writer or that of its readers, after the last
    /// task of this process has released it; see [`Lock::cache`](crate::Lock::cache). The next task that wants
    /// the same mode takes it without a call. A reader has the token of the phase, as all its readers have.
    ///
    /// A cached read lease is given back as soon as another client waits to write; other readers read beside it.
    /// A `try_write` of another client finds the lock taken, and ends no caching.
    pub fn cache(mut self, cache: Duration) -> Self {
        self.options.cache = CacheTime::new(cache);
        self
    }

    /// Returns the name, if it is valid.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it is not.
    pub fn name(&self) -> Result<&Name> {
        self.name.as_ref().map_err(Clone::clone)
    }

    /// Acquires the lock to read, waiting until no client writes, but at most as long as
    /// [`wait`](Self::wait). If a task of this client reads already and no writer is known to wait, the
    /// call joins it at once, without a call to the store. The client is notified of a writer by a message of
    /// the store, and at its next renewal at the latest. A read with a fixed lease or a maximum hold
    /// joins no lease that runs already, since less time than it asks for may be left.
    ///
    /// Dropping the future leaves the queue. A lease that was granted meanwhile is released in the
    /// background; at worst it ends after one ttl.
    ///
    /// # Errors
    /// As [`Lock::acquire`](crate::Lock::acquire), and `Unsupported` if the engine has no read-write
    /// locks.
    pub async fn read(&self) -> Result<ReadGuard> {
        self.read_for(self.options.wait).await
    }

    /// Acquires the lock to read, waiting at most `wait`. Zero tries once, as
    /// [`try_read`](Self::try_read) does.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) if the lock was not available in that
    /// time.
    pub async fn read_within(&self, wait: Duration) -> Result<ReadGuard> {
        self.read_for(Some(wait)).await
    }

    /// Acquires the lock to read if no client writes or waits to write; otherwise returns `None`.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`](crate::Lock::try_acquire), and `Unsupported` as [`read`](Self::read).
    pub async fn try_read(&self) -> Result<Option<ReadGuard>> {
        self.check(Mode::Shared)?;
        let hold = self.asks(Mode::Shared).try_acquire().await?;
        Ok(hold.map(|hold| ReadGuard::new(self.guard(hold), self.origin())))
    }

    /// Acquires the lock to write, waiting until no other client reads or writes, but at most as long
    /// as [`wait`](Self::wait).
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn write(&self) -> Result<WriteGuard> {
        self.write_for(self.options.wait).await
    }

    /// Acquires the lock to write, waiting at most `wait`. Zero tries once, as
    /// [`try_write`](Self::try_write) does.
    ///
    /// # Errors
    /// As [`read_within`](Self::read_within).
    pub async fn write_within(&self, wait: Duration) -> Result<WriteGuard> {
        self.write_for(Some(wait)).await
    }

    /// Acquires the lock to write if no client reads or writes; otherwise returns `None`.
    ///
    /// # Errors
    /// As [`try_read`](Self::try_read).
    pub async fn try_write(&self) -> Result<Option<WriteGuard>> {
        self.check(Mode::Exclusive)?;
        let hold = self.asks(Mode::Exclusive).try_acquire().await?;
        Ok(hold.map(|hold| WriteGuard::new(self.guard(hold), self.origin())))
    }

    /// Acquires the lock to read, runs `work`, and releases the lock at the end; see
    /// [`Lock::run`](crate::Lock::run).
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the lease was lost before the work was done; others as
    /// [`read`](Self::read).
    pub async fn run_read<F, W, T>(&self, work: F) -> Result<T>
    where
        F: FnOnce(ReadGuard) -> W,
        W: Future<Output = T>,
    {
        scope::run(self.read().await?, work).await
    }

    /// Acquires the lock to write, runs `work`, and releases the lock at the end; see
    /// [`Lock::run`](crate::Lock::run).
    ///
    /// # Errors
    /// As [`run_read`](Self::run_read).
    pub async fn run_write<F, W, T>(&self, work: F) -> Result<T>
    where
        F: FnOnce(WriteGuard) -> W,
        W: Future<Output = T>,
    {
        scope::run(self.write().await?, work).await
    }

    /// Returns the holders of the lock, since when and for how long they hold, and the waiters.
    ///
    /// # Errors
    /// As [`Lock::status`](crate::Lock::status).
    pub async fn status(&self) -> Result<Status> {
        self.writer()?.status().await
    }

    /// Ends the lease that `token` belongs to: that of the writer, or those of all readers of the
    /// phase. See [`Lock::force_release`](crate::Lock::force_release).
    ///
    /// # Errors
    /// As there.
    pub async fn force_release(&self, token: Token) -> Result<Forced> {
        self.writer()?.force_release(token).await
    }

    /// Ends the lease of one reader, or the writer by its attempt. See
    /// [`Lock::force_release_attempt`](crate::Lock::force_release_attempt).
    ///
    /// # Errors
    /// As there.
    pub async fn force_release_attempt(&self, attempt: AttemptId) -> Result<Forced> {
        self.writer()?.force_release_attempt(attempt).await
    }

    async fn read_for(&self, wait: Option<Duration>) -> Result<ReadGuard> {
        self.check(Mode::Shared)?;
        let hold = self.asks(Mode::Shared).acquire(wait).await?;
        Ok(ReadGuard::new(self.guard(hold), self.origin()))
    }

    async fn write_for(&self, wait: Option<Duration>) -> Result<WriteGuard> {
        self.check(Mode::Exclusive)?;
        let hold = self.asks(Mode::Exclusive).acquire(wait).await?;
        Ok(WriteGuard::new(self.guard(hold), self.origin()))
    }

    /// Refuses what the engine cannot do, before anything is sent.
    fn check(&self, mode: Mode) -> Result<()> {
        let capability = self.client.capability();
        let error = if !capability.shared {
            Some(capability.no_read_write_locks())
        } else if mode == Mode::Shared && !self.options.min_hold.is_zero() {
            let min_hold = self.options.min_hold;
            Some(invalid(format!("min_hold: {min_hold:?} with a read; only a writer can have one")))
        } else {
            None
        };
        error.map_or(Ok(()), |error| Err(error.during("acquire", self.name.as_ref().ok())))
    }

    fn writer(&self) -> Result<Lock> {
        Ok(Lock::with_options(self.client.clone(), self.name()?.clone(), self.options.clone()))
    }

    fn guard(&self, hold: Arc<Hold>) -> Guard {
        Guard::new(self.client.clone(), hold)
    }

    fn origin(&self) -> Arc<Origin> {
        self.options.origin.as_ref().unwrap_or(&self.client.shared().origin).clone()
    }

    fn asks(&self, mode: Mode) -> Asks<'_> {
        let Self { client, name, options } = self;
        Asks { driver: client.driver(), name, options, mode, demand: None }
    }
}
