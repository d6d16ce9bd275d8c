//! Locks for programs without an async runtime: a thin layer over the async client.
//!
//! ```
//! # fn main() -> leasehold::Result<()> {
//! let client = leasehold::blocking::connect("memory:")?;
//! let guard = client.lock("nightly-report").acquire()?;
//! println!("token {}", guard.token());
//! guard.release()?;
//! client.close()?; // the last line: what was dropped is released before the process ends
//! # Ok(()) }
//! ```
//!
//! The client brings a runtime of its own, with one thread, where leases are renewed whatever the
//! program does. Inside an async runtime (also in its `spawn_blocking`) every call is refused with
//! [`ErrorKind::Invalid`]: use the async client there, or a thread of your own.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::{Forced, Status};
use leasehold_core::{Deadline, Error, ErrorKind, LossReason, OnLoss, Owner, Result, Token};
use tokio::runtime::{Handle, Runtime};

/// How long dropping a guard waits for its release.
const DROP_WAITS: Duration = Duration::from_secs(1);

/// Connects to the store that a URL names; see [`crate::connect`].
///
/// # Errors
/// As [`crate::connect`]; [`ErrorKind::Invalid`] inside an async runtime.
pub fn connect(url: &str) -> Result<Client> {
    let runtime = Own::new()?;
    let client = runtime.block_on(crate::connect(url))??;
    Ok(Client { client, runtime })
}

/// A connection to a backend, with a runtime of its own. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    client: crate::Client,
    runtime: Own,
}

/// A lock, not held yet; the knobs are those of [`crate::Lock`].
#[derive(Clone, Debug)]
pub struct Lock {
    lock: crate::Lock,
    runtime: Own,
}

/// A held lock; see [`crate::Guard`].
///
/// Dropping it releases the lock and waits for the answer, 1 s at most; then the release goes on in the
/// background, for as long as a handle of the client lives. Inside an async runtime the drop does not
/// wait. [`release`](Self::release) waits as long as the client's patience and also says whether the
/// lock was held until then.
#[must_use = "a guard that is dropped releases its lock: bind it to a name such as `_guard` \
              (`let _ =` drops it at once)"]
#[derive(Debug)]
pub struct Guard {
    /// `None` once it is released.
    guard: Option<crate::Guard>,
    runtime: Own,
}

impl Client {
    /// The lock of this name; see [`crate::Client::lock`].
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock { lock: self.client.lock(name), runtime: self.runtime.clone() }
    }

    /// The known locks whose names start with `prefix`; see [`crate::Client::list`].
    ///
    /// # Errors
    /// As there.
    pub fn list(&self, prefix: &str, limit: usize) -> Result<Vec<Status>> {
        self.runtime.block_on(self.client.list(prefix, limit))?
    }

    /// Ends what was abandoned, and refuses to acquire from now on; see [`crate::Client::close`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] inside an async runtime.
    pub fn close(&self) -> Result<()> {
        self.runtime.block_on(self.client.close())
    }
}

impl Lock {
    fn with(self, knobs: impl FnOnce(crate::Lock) -> crate::Lock) -> Self {
        Self { lock: knobs(self.lock), runtime: self.runtime }
    }

    /// See [`crate::Lock::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|lock| lock.ttl(ttl))
    }

    /// See [`crate::Lock::lease`].
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|lock| lock.lease(lease))
    }

    /// See [`crate::Lock::wait`].
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|lock| lock.wait(wait))
    }

    /// See [`crate::Lock::max_hold`].
    pub fn max_hold(self, max_hold: Duration) -> Self {
        self.with(|lock| lock.max_hold(max_hold))
    }

    /// See [`crate::Lock::min_hold`].
    pub fn min_hold(self, min_hold: Duration) -> Self {
        self.with(|lock| lock.min_hold(min_hold))
    }

    /// See [`crate::Lock::on_loss`].
    pub fn on_loss(self, on_loss: OnLoss) -> Self {
        self.with(|lock| lock.on_loss(on_loss))
    }

    /// See [`crate::Lock::metadata`].
    pub fn metadata(self, metadata: impl Into<String>) -> Self {
        self.with(|lock| lock.metadata(metadata))
    }

    /// See [`crate::Lock::fair`].
    pub fn fair(self, fair: bool) -> Self {
        self.with(|lock| lock.fair(fair))
    }

    /// Waits for the lock; see [`crate::Lock::acquire`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`] inside an async runtime.
    pub fn acquire(&self) -> Result<Guard> {
        let guard = self.runtime.block_on(self.lock.acquire())??;
        Ok(self.guard(guard))
    }

    /// Waits no longer than `wait`; see [`crate::Lock::acquire_within`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`] inside an async runtime.
    pub fn acquire_within(&self, wait: Duration) -> Result<Guard> {
        let guard = self.runtime.block_on(self.lock.acquire_within(wait))??;
        Ok(self.guard(guard))
    }

    /// Runs `work` under the lock, and releases the lock at the end. Work that blocks cannot be
    /// cut short: it looks at the guard ([`Guard::is_valid`], [`Guard::ensure`]) where it can stop.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] when the lease was lost before the work was done; others as
    /// [`acquire`](Self::acquire).
    pub fn run<T>(&self, work: impl FnOnce(&Guard) -> T) -> Result<T> {
        let guard = self.acquire()?;
        let done = work(&guard);
        guard.release()?;
        Ok(done)
    }

    /// Does not wait; see [`crate::Lock::try_acquire`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`] inside an async runtime.
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        let guard = self.runtime.block_on(self.lock.try_acquire())??;
        Ok(guard.map(|guard| self.guard(guard)))
    }

    /// Enters a lock that the owner may hold already; see [`crate::Lock::acquire_as`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`] inside an async runtime.
    pub fn acquire_as(&self, owner: &Owner) -> Result<Guard> {
        let guard = self.runtime.block_on(self.lock.acquire_as(owner))??;
        Ok(self.guard(guard))
    }

    /// Who holds the lock; see [`crate::Lock::status`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`] inside an async runtime.
    pub fn status(&self) -> Result<Status> {
        self.runtime.block_on(self.lock.status())?
    }

    /// Ends the lease of a token; see [`crate::Lock::force_release`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`] inside an async runtime.
    pub fn force_release(&self, token: Token) -> Result<Forced> {
        self.runtime.block_on(self.lock.force_release(token))?
    }

    fn guard(&self, guard: crate::Guard) -> Guard {
        Guard { guard: Some(guard), runtime: self.runtime.clone() }
    }
}

impl Guard {
    /// See [`crate::Guard::token`].
    pub fn token(&self) -> Token {
        self.as_async().token()
    }

    /// See [`crate::Guard::is_valid`].
    pub fn is_valid(&self) -> bool {
        self.as_async().is_valid()
    }

    /// See [`crate::Guard::remaining`].
    pub fn remaining(&self) -> Duration {
        self.as_async().remaining()
    }

    /// See [`crate::Guard::deadline`].
    pub fn deadline(&self) -> Option<Deadline> {
        self.as_async().deadline()
    }

    /// See [`crate::Guard::ensure`].
    ///
    /// # Errors
    /// As there.
    pub fn ensure(&self, margin: Duration) -> Result<()> {
        self.as_async().ensure(margin)
    }

    /// Waits until the lock is lost; see [`crate::Guard::lost`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] inside an async runtime.
    pub fn lost(&self) -> Result<LossReason> {
        self.runtime.block_on(self.as_async().lost())
    }

    /// See [`crate::Guard::reenter`].
    ///
    /// # Errors
    /// As there.
    pub fn reenter(&self) -> Result<Guard> {
        Ok(Guard { guard: Some(self.as_async().reenter()?), runtime: self.runtime.clone() })
    }

    /// The async guard, for what is not repeated here.
    pub fn as_async(&self) -> &crate::Guard {
        match &self.guard {
            Some(guard) => guard,
            None => unreachable!("only release and drop take the guard, and they consume this one"),
        }
    }

    /// Gives the lock back; see [`crate::Guard::release`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`] inside an async runtime, where the release then goes on
    /// in the background.
    pub fn release(mut self) -> Result<()> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        self.runtime.block_on(guard.release())?
    }

    /// Gives the lock back without its minimum hold; see [`crate::Guard::release_early`].
    ///
    /// # Errors
    /// As [`release`](Self::release).
    pub fn release_early(mut self) -> Result<()> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        self.runtime.block_on(guard.release_early())?
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(guard) = self.guard.take() else { return };
        // Without a runtime to wait on, dropping the future releases in the background.
        let release = async { tokio::time::timeout(DROP_WAITS, guard.release()).await };
        self.runtime.block_on(release).ok();
    }
}

/// The runtime that a blocking client brings along; ends without waiting when the last one goes.
#[derive(Clone, Debug)]
struct Own(Arc<Background>);

impl Own {
    fn new() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("leasehold")
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| {
            Error::new(ErrorKind::Unavailable, "cannot start a runtime").with_source(error)
        })?;
        Ok(Self(Arc::new(Background(Some(runtime)))))
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        // Also not while the thread ends, when it cannot tell any more.
        let outside = Handle::try_current().is_err_and(|error| error.is_missing_context());
        match &self.0.0 {
            Some(runtime) if outside => Ok(runtime.block_on(future)),
            _ => Err(Error::new(
                ErrorKind::Invalid,
                "a blocking call inside an async runtime (spawn_blocking included); \
                 use the async client there, or a thread of your own",
            )),
        }
    }
}

/// Dropping a runtime inside another one panics; shutting it down in the background does not.
#[derive(Debug)]
struct Background(Option<Runtime>);

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
