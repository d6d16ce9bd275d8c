//! Several locks at once, for programs without an async runtime.

use std::time::Duration;

use leasehold_core::{CancellationToken, Deadline, LostLock, Name, Result, Token};

use super::Own;

/// Several locks that are acquired together or not at all, with the settings of [`crate::MultiLock`].
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// let client = leasehold::blocking::connect("memory:")?;
/// let both = client.lock_all(["account/1", "account/2"]);
/// let guard = both.acquire()?;
/// assert!(client.lock("account/1").try_acquire()?.is_none());
/// assert!(guard.token_of("account/2").is_some());
/// guard.release()?;
/// # client.close() }
/// ```
#[must_use = "a lock does nothing until it is acquired; a setter returns the changed lock"]
#[derive(Clone, Debug)]
pub struct MultiLock {
    lock: crate::MultiLock,
    runtime: Own,
}

/// The held locks of a [`MultiLock`]; see [`crate::MultiGuard`]. Dropping it waits as the drop of
/// a [`Guard`](super::Guard) does.
#[must_use = "a guard that is dropped releases its locks: bind it to a name such as `_guard` \
              (`let _ =` drops it at once)"]
#[derive(Debug)]
pub struct MultiGuard {
    /// `None` after the release.
    guard: Option<crate::MultiGuard>,
    runtime: Own,
}

impl MultiLock {
    pub(super) fn new(lock: crate::MultiLock, runtime: Own) -> Self {
        Self { lock, runtime }
    }

    pub(super) fn with(self, knobs: impl FnOnce(crate::MultiLock) -> crate::MultiLock) -> Self {
        Self { lock: knobs(self.lock), runtime: self.runtime }
    }

    /// Returns the names; see [`crate::MultiLock::names`].
    ///
    /// # Errors
    /// As there.
    pub fn names(&self) -> Result<&[Name]> {
        self.lock.names()
    }

    /// Acquires all locks, waiting until each is available; see [`crate::MultiLock::acquire`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn acquire(&self) -> Result<MultiGuard> {
        let guard = self.runtime.block_on(self.lock.acquire())??;
        Ok(self.guard(guard))
    }

    /// Acquires all locks, waiting at most `wait` in total; see
    /// [`crate::MultiLock::acquire_within`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn acquire_within(&self, wait: Duration) -> Result<MultiGuard> {
        let guard = self.runtime.block_on(self.lock.acquire_within(wait))??;
        Ok(self.guard(guard))
    }

    /// Tries to acquire all locks without waiting; see [`crate::MultiLock::try_acquire`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn try_acquire(&self) -> Result<Option<MultiGuard>> {
        let guard = self.runtime.block_on(self.lock.try_acquire())??;
        Ok(guard.map(|guard| self.guard(guard)))
    }

    /// Acquires all locks, runs `work` and releases them. A loss cannot interrupt blocking work:
    /// call [`MultiGuard::is_valid`] or [`MultiGuard::ensure`] where the work can stop.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) if a lease was lost before the work ended; others as
    /// [`acquire`](Self::acquire).
    pub fn run<T>(&self, work: impl FnOnce(&MultiGuard) -> T) -> Result<T> {
        let guard = self.acquire()?;
        let done = work(&guard);
        guard.release()?;
        Ok(done)
    }

    fn guard(&self, guard: crate::MultiGuard) -> MultiGuard {
        self.runtime.answered();
        MultiGuard { guard: Some(guard), runtime: self.runtime.clone() }
    }
}

impl MultiGuard {
    /// Returns the async guards of the single locks; see [`crate::MultiGuard::guards`].
    pub fn guards(&self) -> &[crate::Guard] {
        self.as_async().guards()
    }

    /// See [`crate::MultiGuard::names`].
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.as_async().names()
    }

    /// See [`crate::MultiGuard::tokens`].
    pub fn tokens(&self) -> impl Iterator<Item = (&Name, Token)> {
        self.as_async().tokens()
    }

    /// See [`crate::MultiGuard::token_of`].
    pub fn token_of(&self, name: impl AsRef<str>) -> Option<Token> {
        self.as_async().token_of(name)
    }

    /// See [`crate::MultiGuard::is_valid`].
    #[must_use = "a check without effect: `ensure` returns an error"]
    pub fn is_valid(&self) -> bool {
        self.as_async().is_valid()
    }

    /// See [`crate::MultiGuard::remaining`].
    pub fn remaining(&self) -> Duration {
        self.as_async().remaining()
    }

    /// See [`crate::MultiGuard::deadline`].
    pub fn deadline(&self) -> Option<Deadline> {
        self.as_async().deadline()
    }

    /// See [`crate::MultiGuard::ensure`].
    ///
    /// # Errors
    /// As there.
    pub fn ensure(&self, margin: Duration) -> Result<()> {
        self.as_async().ensure(margin)
    }

    /// Waits until the first lock is lost; see [`crate::MultiGuard::lost`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn lost(&self) -> Result<LostLock> {
        self.runtime.block_on(self.as_async().lost())
    }

    /// See [`crate::MultiGuard::cancellation_token`]. Blocking code can ask its `is_cancelled`.
    #[must_use = "the token does nothing unless the work looks at it"]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.as_async().cancellation_token()
    }

    /// See [`crate::MultiGuard::reenter`].
    ///
    /// # Errors
    /// As there.
    pub fn reenter(&self) -> Result<MultiGuard> {
        Ok(MultiGuard { guard: Some(self.as_async().reenter()?), runtime: self.runtime.clone() })
    }

    /// See [`crate::MultiGuard::lingers`].
    pub fn lingers(&self) -> bool {
        self.as_async().lingers()
    }

    /// Returns the async guard.
    pub fn as_async(&self) -> &crate::MultiGuard {
        match &self.guard {
            Some(guard) => guard,
            None => unreachable!("only release and drop take the guard, and they consume this one"),
        }
    }

    /// Releases all locks; see [`crate::MultiGuard::release`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task, where the
    /// release continues in the background.
    pub fn release(mut self) -> Result<()> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        self.runtime.block_on(guard.release())?
    }

    /// Releases all locks without waiting for their minimum hold; see
    /// [`crate::MultiGuard::release_early`].
    ///
    /// # Errors
    /// As [`release`](Self::release).
    pub fn release_early(mut self) -> Result<()> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        self.runtime.block_on(guard.release_early())?
    }
}

impl Drop for MultiGuard {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            self.runtime.release_dropped(guard.lingers(), guard.release());
        }
    }
}
