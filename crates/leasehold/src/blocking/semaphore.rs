//! Semaphores for programs without an async runtime.

use std::time::Duration;

use leasehold_core::{AttemptId, Forced, Name, Result, Status, Token};

use super::Own;

/// A semaphore that is not held yet, with the settings of [`crate::Semaphore`].
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// let client = leasehold::blocking::connect("memory:")?;
/// let gpus = client.semaphore("gpu", 2);
/// let (one, two) = (gpus.acquire()?, gpus.acquire()?);
/// assert_eq!((one.slot(), two.slot()), (0, 1));
/// assert!(gpus.try_acquire()?.is_none());
/// one.release()?;
/// two.release()?;
/// # client.close() }
/// ```
#[must_use = "a semaphore does nothing until it is acquired; a setter returns the changed semaphore"]
#[derive(Clone, Debug)]
pub struct Semaphore {
    semaphore: crate::Semaphore,
    runtime: Own,
}

/// One or more slots that are held; see [`crate::Permit`]. Dropping it waits as the drop of
/// a [`Guard`](super::Guard) does.
#[must_use = "a permit that is dropped gives its slots back: bind it to a name such as `_permit` \
              (`let _ =` drops it at once)"]
#[derive(Debug)]
pub struct Permit {
    /// `None` after the release.
    guard: Option<crate::Permit>,
    runtime: Own,
}

impl Semaphore {
    pub(super) fn new(semaphore: crate::Semaphore, runtime: Own) -> Self {
        Self { semaphore, runtime }
    }

    pub(super) fn with(self, knobs: impl FnOnce(crate::Semaphore) -> crate::Semaphore) -> Self {
        Self { semaphore: knobs(self.semaphore), runtime: self.runtime }
    }

    /// See [`crate::Semaphore::lease`].
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|semaphore| semaphore.lease(lease))
    }

    /// Returns the name, if it is valid; see [`crate::Semaphore::name`].
    ///
    /// # Errors
    /// As there.
    pub fn name(&self) -> Result<&Name> {
        self.semaphore.name()
    }

    /// Acquires one slot, waiting until it is available; see [`crate::Semaphore::acquire`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn acquire(&self) -> Result<Permit> {
        self.permit(self.semaphore.acquire())
    }

    /// Acquires several slots together; see [`crate::Semaphore::acquire_many`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn acquire_many(&self, slots: u32) -> Result<Permit> {
        self.permit(self.semaphore.acquire_many(slots))
    }

    /// Acquires one slot, waiting at most `wait`; see [`crate::Semaphore::acquire_within`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn acquire_within(&self, wait: Duration) -> Result<Permit> {
        self.permit(self.semaphore.acquire_within(wait))
    }

    /// Acquires several slots together, waiting at most `wait`; see
    /// [`crate::Semaphore::acquire_many_within`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn acquire_many_within(&self, slots: u32, wait: Duration) -> Result<Permit> {
        self.permit(self.semaphore.acquire_many_within(slots, wait))
    }

    /// Tries to acquire one slot without waiting; see [`crate::Semaphore::try_acquire`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn try_acquire(&self) -> Result<Option<Permit>> {
        self.try_acquire_many(1)
    }

    /// Tries to acquire several slots without waiting; see [`crate::Semaphore::try_acquire_many`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn try_acquire_many(&self, slots: u32) -> Result<Option<Permit>> {
        let permit = self.runtime.block_on(self.semaphore.try_acquire_many(slots))??;
        Ok(permit.map(|permit| Permit::new(permit, &self.runtime)))
    }

    /// Acquires one slot, runs `work` and gives the slot back; see
    /// [`RwLock::run_read`](super::RwLock::run_read).
    ///
    /// # Errors
    /// As there.
    pub fn run<T>(&self, work: impl FnOnce(&Permit) -> T) -> Result<T> {
        let permit = self.acquire()?;
        let done = work(&permit);
        permit.release()?;
        Ok(done)
    }

    /// Returns the stored limit; see [`crate::Semaphore::limit`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn limit(&self) -> Result<Option<u32>> {
        self.runtime.block_on(self.semaphore.limit())?
    }

    /// Changes the stored limit; see [`crate::Semaphore::set_limit`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn set_limit(&self, limit: u32) -> Result<()> {
        self.runtime.block_on(self.semaphore.set_limit(limit))?
    }

    /// Returns the limit, the permits and the waiters; see [`crate::Semaphore::status`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn status(&self) -> Result<Status> {
        self.runtime.block_on(self.semaphore.status())?
    }

    /// Ends the permit of a token; see [`crate::Semaphore::force_release`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn force_release(&self, token: Token) -> Result<Forced> {
        self.runtime.block_on(self.semaphore.force_release(token))?
    }

    /// Ends the lease of one attempt; see [`crate::Semaphore::force_release_attempt`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn force_release_attempt(&self, attempt: AttemptId) -> Result<Forced> {
        self.runtime.block_on(self.semaphore.force_release_attempt(attempt))?
    }

    fn permit(&self, acquired: impl Future<Output = Result<crate::Permit>>) -> Result<Permit> {
        Ok(Permit::new(self.runtime.block_on(acquired)??, &self.runtime))
    }
}

super::guards::guards!(Permit);

impl Permit {
    /// See [`crate::Permit::slot`].
    pub fn slot(&self) -> u32 {
        self.as_async().slot()
    }

    /// See [`crate::Permit::slots`].
    pub fn slots(&self) -> &[u32] {
        self.as_async().slots()
    }

    /// Gives the slots back; see [`crate::Guard::release`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task, where the
    /// release continues in the background.
    pub fn release(mut self) -> Result<()> {
        let Some(permit) = self.guard.take() else { return Ok(()) };
        self.runtime.block_on(permit.release())?
    }
}
