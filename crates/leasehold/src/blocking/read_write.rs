//! Read-write locks for programs without an async runtime.

use std::time::Duration;

use leasehold_core::{AttemptId, Forced, Name, Result, Status, Token};

use super::Own;

/// A read-write lock that is not held yet, with the settings of [`crate::RwLock`].
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// let client = leasehold::blocking::connect("memory:")?;
/// let reports = client.rw_lock("reports");
/// let (one, other) = (reports.read()?, reports.read()?);
/// assert!(reports.try_write()?.is_none());
/// one.release()?;
/// other.release()?;
/// let read = reports.write()?.downgrade()?;
/// read.release()?;
/// # client.close() }
/// ```
#[must_use = "a lock does nothing until it is acquired; a setter returns the changed lock"]
#[derive(Clone, Debug)]
pub struct RwLock {
    lock: crate::RwLock,
    runtime: Own,
}

/// A lock that is held to read; see [`crate::ReadGuard`]. Dropping it waits as the drop of
/// a [`Guard`](super::Guard) does.
#[must_use = "a guard that is dropped releases its lock: bind it to a name such as `_guard` \
              (`let _ =` drops it at once)"]
#[derive(Debug)]
pub struct ReadGuard {
    /// `None` after the release.
    guard: Option<crate::ReadGuard>,
    runtime: Own,
}

/// A lock that is held to write; see [`crate::WriteGuard`]. Dropping it waits as the drop of
/// a [`Guard`](super::Guard) does.
#[must_use = "a guard that is dropped releases its lock: bind it to a name such as `_guard` \
              (`let _ =` drops it at once)"]
#[derive(Debug)]
pub struct WriteGuard {
    /// `None` after the release.
    guard: Option<crate::WriteGuard>,
    runtime: Own,
}

/// What [`ReadGuard::try_upgrade`] returns; see [`crate::Upgraded`].
#[must_use = "a guard that is dropped releases its lock"]
#[derive(Debug)]
#[non_exhaustive]
pub enum Upgraded {
    /// The reader writes now.
    Write(WriteGuard),
    /// Another task or client reads or waits. The reader continues to read.
    Refused(ReadGuard),
}

impl RwLock {
    pub(super) fn new(lock: crate::RwLock, runtime: Own) -> Self {
        Self { lock, runtime }
    }

    pub(super) fn with(self, knobs: impl FnOnce(crate::RwLock) -> crate::RwLock) -> Self {
        Self { lock: knobs(self.lock), runtime: self.runtime }
    }

    /// See [`crate::RwLock::lease`].
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|lock| lock.lease(lease))
    }

    /// See [`crate::RwLock::cache`].
    pub fn cache(self, cache: Duration) -> Self {
        self.with(|lock| lock.cache(cache))
    }

    /// Returns the name, if it is valid; see [`crate::RwLock::name`].
    ///
    /// # Errors
    /// As there.
    pub fn name(&self) -> Result<&Name> {
        self.lock.name()
    }

    /// Acquires the lock to read, waiting until it is available; see [`crate::RwLock::read`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn read(&self) -> Result<ReadGuard> {
        Ok(ReadGuard::new(self.runtime.block_on(self.lock.read())??, &self.runtime))
    }

    /// Acquires the lock to read, waiting at most `wait`; see [`crate::RwLock::read_within`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn read_within(&self, wait: Duration) -> Result<ReadGuard> {
        Ok(ReadGuard::new(self.runtime.block_on(self.lock.read_within(wait))??, &self.runtime))
    }

    /// Tries to acquire the lock to read without waiting; see [`crate::RwLock::try_read`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn try_read(&self) -> Result<Option<ReadGuard>> {
        let guard = self.runtime.block_on(self.lock.try_read())??;
        Ok(guard.map(|guard| ReadGuard::new(guard, &self.runtime)))
    }

    /// Acquires the lock to write, waiting until it is available; see [`crate::RwLock::write`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn write(&self) -> Result<WriteGuard> {
        Ok(WriteGuard::new(self.runtime.block_on(self.lock.write())??, &self.runtime))
    }

    /// Acquires the lock to write, waiting at most `wait`; see [`crate::RwLock::write_within`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn write_within(&self, wait: Duration) -> Result<WriteGuard> {
        Ok(WriteGuard::new(self.runtime.block_on(self.lock.write_within(wait))??, &self.runtime))
    }

    /// Tries to acquire the lock to write without waiting; see [`crate::RwLock::try_write`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn try_write(&self) -> Result<Option<WriteGuard>> {
        let guard = self.runtime.block_on(self.lock.try_write())??;
        Ok(guard.map(|guard| WriteGuard::new(guard, &self.runtime)))
    }

    /// Acquires the lock to read, runs `work` and releases the lock. A loss cannot interrupt blocking
    /// work: call [`ReadGuard::is_valid`] or [`ReadGuard::ensure`] where the work can stop.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the lease was lost before the work ended; others as
    /// [`read`](Self::read).
    pub fn run_read<T>(&self, work: impl FnOnce(&ReadGuard) -> T) -> Result<T> {
        let guard = self.read()?;
        let done = work(&guard);
        guard.release()?;
        Ok(done)
    }

    /// Acquires the lock to write, runs `work` and releases the lock; see
    /// [`run_read`](Self::run_read).
    ///
    /// # Errors
    /// As [`run_read`](Self::run_read).
    pub fn run_write<T>(&self, work: impl FnOnce(&WriteGuard) -> T) -> Result<T> {
        let guard = self.write()?;
        let done = work(&guard);
        guard.release()?;
        Ok(done)
    }

    /// Returns the lock's holders and waiters; see [`crate::RwLock::status`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn status(&self) -> Result<Status> {
        self.runtime.block_on(self.lock.status())?
    }

    /// Revokes the leases of a token; see [`crate::RwLock::force_release`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn force_release(&self, token: Token) -> Result<Forced> {
        self.runtime.block_on(self.lock.force_release(token))?
    }

    /// Ends the lease of one attempt; see [`crate::RwLock::force_release_attempt`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn force_release_attempt(&self, attempt: AttemptId) -> Result<Forced> {
        self.runtime.block_on(self.lock.force_release_attempt(attempt))?
    }
}

super::guards::guards!(ReadGuard, WriteGuard);

impl ReadGuard {
    /// Makes this reader a writer if no other task or client reads or waits; see
    /// [`crate::ReadGuard::try_upgrade`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task, where the
    /// lock is released in the background.
    pub fn try_upgrade(mut self) -> Result<Upgraded> {
        let Some(guard) = self.guard.take() else { unreachable!("the guard was not taken") };
        let upgraded = self.runtime.block_on(guard.try_upgrade())??;
        Ok(match upgraded {
            crate::Upgraded::Write(write) => Upgraded::Write(WriteGuard::new(write, &self.runtime)),
            crate::Upgraded::Refused(read) => Upgraded::Refused(Self::new(read, &self.runtime)),
            other => unreachable!("{other:?} is not known here"),
        })
    }

    /// Releases the lock; see [`crate::Guard::release`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task, where the
    /// release continues in the background.
    pub fn release(mut self) -> Result<()> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        self.runtime.block_on(guard.release())?
    }
}

impl WriteGuard {
    /// Makes this writer a reader, with no writer in between; see [`crate::WriteGuard::downgrade`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task, where the
    /// lock is released in the background.
    pub fn downgrade(mut self) -> Result<ReadGuard> {
        let Some(guard) = self.guard.take() else { unreachable!("the guard was not taken") };
        let read = self.runtime.block_on(guard.downgrade())??;
        Ok(ReadGuard::new(read, &self.runtime))
    }

    /// Releases the lock; see [`crate::Guard::release`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task, where the
    /// release continues in the background.
    pub fn release(mut self) -> Result<()> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        self.runtime.block_on(guard.release())?
    }
}
