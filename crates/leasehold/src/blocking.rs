//! Locks for programs without an async runtime: a thin wrapper around the async client.
//!
//! ```
//! # fn main() -> leasehold::Result<()> {
//! let client = leasehold::blocking::connect("memory:")?;
//! let guard = client.lock("nightly-report").acquire()?;
//! println!("token {}", guard.token());
//! guard.release()?;
//! client.close()?; // call it last: it waits for the releases of dropped guards
//! # Ok(()) }
//! ```
//!
//! The client has its own runtime with one thread, which renews leases independently of the
//! program's threads. [`Client`], [`Lock`], [`Guard`], [`MultiLock`], [`MultiGuard`], [`RwLock`], [`Latch`]
//! and [`Election`] have every method of the async types, except
//! `Client::new`, `Client::with_settings` and `Client::on_own_thread`: [`connect`] and [`connect_with`] create a
//! client, always with its own thread. [`forget`], [`init`], [`doctor`], [`quorum`] and [`route`] have the
//! other async functions of the crate. These have no counterpart: `open` and `connect_on_own_thread`,
//! for which [`connect`] stands, and those of `fence::redis` and of `rows`, which use the async
//! connections of the crates `redis` and `sqlx`.
//!
//! Inside an async program, use it in `tokio::task::spawn_blocking` or `block_in_place`, or on a
//! thread:
//!
//! ```
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use leasehold::blocking;
//!
//! let report = tokio::task::spawn_blocking(|| {
//!     let client = blocking::connect("memory:")?;
//!     let report = client.lock("nightly-report").run(|_guard| "blocking work")?;
//!     client.close()?; // also on this thread: the client waits
//!     Ok::<_, leasehold::Error>(report)
//! });
//! assert_eq!(report.await??, "blocking work");
//! # Ok(()) }
//! ```
//!
//! Directly in an async task, a call that would wait returns [`ErrorKind::Invalid`], and a
//! dropped guard is released in the background. A task inside `tokio::task::unconstrained` is not
//! detected: there the call blocks the thread of the runtime.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::{
    AttemptId, CancellationToken, Capability, ClientSettings, Deadline, Error, ErrorKind, Forced,
    LossReason, Name, Owner, Result, Status, Token, Usage,
};
use tokio::runtime::{Handle, Runtime};

pub mod doctor;
mod election;
mod guards;
mod knobs;
mod latch;
mod multi;
pub mod quorum;
mod read_write;
pub mod route;
mod semaphore;
mod wait;

pub use election::{Election, Leaders, Term};
pub use latch::Latch;
pub use multi::{MultiGuard, MultiLock};
pub use read_write::{ReadGuard, RwLock, Upgraded, WriteGuard};
pub use semaphore::{Permit, Semaphore};

/// The time that the drop of a guard waits for its release.
const DROP_WAITS: Duration = Duration::from_secs(1);
/// For how long drops do not wait after a drop had no answer.
const SILENCE: Duration = Duration::from_secs(10);

/// Connects to the store of a URL; see [`crate::connect`].
///
/// # Errors
/// As [`crate::connect`]; [`ErrorKind::Invalid`] inside an async task.
pub fn connect(url: &str) -> Result<Client> {
    connect_with(url, ClientSettings::new())
}

/// Connects with other settings of the client; see [`crate::connect_with`].
///
/// # Errors
/// As [`connect`].
pub fn connect_with(url: &str, settings: ClientSettings) -> Result<Client> {
    let runtime = Own::new()?;
    let client = runtime.block_on(crate::connect_with(url, settings))??;
    Ok(Client { client, runtime })
}

/// Removes the records of the free locks whose names start with `names`, and returns their number;
/// see [`crate::forget`].
///
/// # Errors
/// As there; [`ErrorKind::Invalid`] inside an async task.
pub fn forget(url: &str, names: &str) -> Result<u64> {
    block_on(crate::forget(url, names))
}

/// Creates the tables that the store of a URL needs, if they are missing; see [`crate::init`].
///
/// # Errors
/// As there; [`ErrorKind::Invalid`] inside an async task.
pub fn init(url: &str) -> Result<bool> {
    block_on(crate::init(url))
}

/// A client of a backend, with its own runtime. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    client: crate::Client,
    runtime: Own,
}

/// A lock that is not held yet, with the settings of [`crate::Lock`].
#[must_use = "a lock does nothing until it is acquired; a setter returns the changed lock"]
#[derive(Clone, Debug)]
pub struct Lock {
    lock: crate::Lock,
    runtime: Own,
}

/// A held lock; see [`crate::Guard`].
///
/// Dropping the guard releases the lock and waits up to 1 s for the answer; after that the release
/// continues in the background, as long as a clone of the client exists. If a drop had no answer in
/// that time, drops of the same client do not wait for the next 10 s, or until the client acquires
/// a lock again. A drop also does not wait inside an async task, or while the client keeps the lock
/// for its minimum hold: in these cases, end the program with [`Client::close`]. Two kinds of
/// guards may wait even in async code: a guard in a task that its runtime drops at shutdown, and a
/// guard inside `unconstrained`. [`release`](Self::release) waits up to the client's timeout, and
/// also returns whether the lock was held until then.
#[must_use = "a guard that is dropped releases its lock: bind it to a name such as `_guard` \
              (`let _ =` drops it at once)"]
#[derive(Debug)]
pub struct Guard {
    /// `None` after the release.
    guard: Option<crate::Guard>,
    runtime: Own,
}

impl Client {
    /// Returns the lock of this name, without I/O; see [`crate::Client::lock`].
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock { lock: self.client.lock(name), runtime: self.runtime.clone() }
    }

    /// Returns a lock of all these names, without I/O; see [`crate::Client::lock_all`].
    pub fn lock_all(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> MultiLock {
        MultiLock::new(self.client.lock_all(names), self.runtime.clone())
    }

    /// Returns the read-write lock of this name, without I/O; see [`crate::Client::rw_lock`].
    pub fn rw_lock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self.client.rw_lock(name), self.runtime.clone())
    }

    /// Returns the semaphore of this name, without I/O; see [`crate::Client::semaphore`].
    pub fn semaphore(&self, name: impl AsRef<str>, limit: u32) -> Semaphore {
        Semaphore::new(self.client.semaphore(name, limit), self.runtime.clone())
    }

    /// Returns the latch of this name, without I/O; see [`crate::Client::latch`].
    pub fn latch(&self, name: impl AsRef<str>, parties: u32) -> Latch {
        Latch::new(self.client.latch(name, parties), self.runtime.clone())
    }

    /// Returns the election of this name, without I/O; see [`crate::Client::election`].
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self.client.election(name), self.runtime.clone())
    }

    /// Lists the known locks whose names start with `prefix`; see [`crate::Client::list`].
    ///
    /// # Errors
    /// As there.
    pub fn list(&self, prefix: &str, limit: usize) -> Result<Vec<Status>> {
        self.runtime.block_on(self.client.list(prefix, limit))?
    }

    /// Returns what the engine supports; see [`crate::Client::capability`].
    pub fn capability(&self) -> &Capability {
        self.client.capability()
    }

    /// Returns where the locks are; see [`crate::Client::place`].
    pub fn place(&self) -> String {
        self.client.place()
    }

    /// Returns warnings about the store; see [`crate::Client::warnings`].
    pub fn warnings(&self) -> &[String] {
        self.client.warnings()
    }

    /// Returns what the client holds and waits for; see [`crate::Client::usage`].
    pub fn usage(&self) -> Usage {
        self.client.usage()
    }

    /// Waits until all abandoned requests and releases have ended; see [`crate::Client::settle`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] inside an async task.
    pub fn settle(&self) -> Result<()> {
        self.runtime.block_on(self.client.settle())
    }

    /// Releases the locks of dropped guards, and refuses to acquire from now on; see
    /// [`crate::Client::close`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] inside an async task.
    pub fn close(&self) -> Result<()> {
        self.runtime.block_on(self.client.close())
    }
}

impl Lock {
    fn with(self, knobs: impl FnOnce(crate::Lock) -> crate::Lock) -> Self {
        Self { lock: knobs(self.lock), runtime: self.runtime }
    }

    /// See [`crate::Lock::cache`].
    pub fn cache(self, cache: Duration) -> Self {
        self.with(|lock| lock.cache(cache))
    }

    /// See [`crate::Lock::lease`].
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|lock| lock.lease(lease))
    }

    /// Returns the name, if it is valid; see [`crate::Lock::name`].
    ///
    /// # Errors
    /// As there.
    pub fn name(&self) -> Result<&Name> {
        self.lock.name()
    }

    /// Acquires the lock, waiting until it is available; see [`crate::Lock::acquire`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`] inside an async task.
    pub fn acquire(&self) -> Result<Guard> {
        let guard = self.runtime.block_on(self.lock.acquire())??;
        Ok(self.guard(guard))
    }

    /// Acquires the lock, waiting at most `wait`; see [`crate::Lock::acquire_within`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`] inside an async task.
    pub fn acquire_within(&self, wait: Duration) -> Result<Guard> {
        let guard = self.runtime.block_on(self.lock.acquire_within(wait))??;
        Ok(self.guard(guard))
    }

    /// Acquires the lock, runs `work` and releases the lock. A loss cannot interrupt blocking work:
    /// call [`Guard::is_valid`] or [`Guard::ensure`] where the work can stop.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if the lease was lost before the work ended; others as
    /// [`acquire`](Self::acquire).
    pub fn run<T>(&self, work: impl FnOnce(&Guard) -> T) -> Result<T> {
        let guard = self.acquire()?;
        let done = work(&guard);
        guard.release()?;
        Ok(done)
    }

    /// Tries to acquire the lock without waiting; see [`crate::Lock::try_acquire`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`] inside an async task.
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        let guard = self.runtime.block_on(self.lock.try_acquire())??;
        Ok(guard.map(|guard| self.guard(guard)))
    }

    /// Acquires a lock that the owner may already hold; see [`crate::Lock::acquire_as`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`] inside an async task.
    pub fn acquire_as(&self, owner: &Owner) -> Result<Guard> {
        let guard = self.runtime.block_on(self.lock.acquire_as(owner))??;
        Ok(self.guard(guard))
    }

    /// Returns the lock's holder and waiters; see [`crate::Lock::status`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`] inside an async task.
    pub fn status(&self) -> Result<Status> {
        self.runtime.block_on(self.lock.status())?
    }

    /// Revokes the lease of a token; see [`crate::Lock::force_release`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`] inside an async task.
    pub fn force_release(&self, token: Token) -> Result<Forced> {
        self.runtime.block_on(self.lock.force_release(token))?
    }

    /// Ends the lease of one attempt; see [`crate::Lock::force_release_attempt`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`] inside an async task.
    pub fn force_release_attempt(&self, attempt: AttemptId) -> Result<Forced> {
        self.runtime.block_on(self.lock.force_release_attempt(attempt))?
    }

    fn guard(&self, guard: crate::Guard) -> Guard {
        self.runtime.answered();
        Guard { guard: Some(guard), runtime: self.runtime.clone() }
    }
}

impl Guard {
    /// See [`crate::Guard::name`].
    pub fn name(&self) -> &Name {
        self.as_async().name()
    }

    /// See [`crate::Guard::attempt`].
    pub fn attempt(&self) -> AttemptId {
        self.as_async().attempt()
    }

    /// See [`crate::Guard::token`].
    pub fn token(&self) -> Token {
        self.as_async().token()
    }

    /// See [`crate::Guard::is_valid`].
    #[must_use = "a check without effect: `ensure` returns an error"]
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

    /// Extends a fixed lease; see [`crate::Guard::extend`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`] inside an async task.
    pub fn extend(&self, duration: Duration) -> Result<()> {
        self.runtime.block_on(self.as_async().extend(duration))?
    }

    /// Gets the whole ttl now; see [`crate::Guard::confirm`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`] inside an async task.
    pub fn confirm(&self) -> Result<()> {
        self.runtime.block_on(self.as_async().confirm())?
    }

    /// Waits until the lock is lost; see [`crate::Guard::lost`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] inside an async task.
    pub fn lost(&self) -> Result<LossReason> {
        self.runtime.block_on(self.as_async().lost())
    }

    /// See [`crate::Guard::cancellation_token`]. Blocking code can ask its `is_cancelled`.
    #[must_use = "the token does nothing unless the work looks at it"]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.as_async().cancellation_token()
    }

    /// See [`crate::Guard::descriptor`].
    #[cfg(unix)]
    pub fn descriptor(&self) -> Option<std::os::fd::OwnedFd> {
        self.as_async().descriptor()
    }

    /// See [`crate::Guard::descriptors`].
    #[cfg(unix)]
    pub fn descriptors(&self) -> Vec<std::os::fd::OwnedFd> {
        self.as_async().descriptors()
    }

    /// See [`crate::Guard::replicas`].
    pub fn replicas(&self) -> Option<usize> {
        self.as_async().replicas()
    }

    /// See [`crate::Guard::lingers`].
    pub fn lingers(&self) -> bool {
        self.as_async().lingers()
    }

    /// See [`crate::Guard::reenter`].
    ///
    /// # Errors
    /// As there.
    pub fn reenter(&self) -> Result<Guard> {
        Ok(Guard { guard: Some(self.as_async().reenter()?), runtime: self.runtime.clone() })
    }

    /// Returns the async guard, for the methods that this type does not have.
    pub fn as_async(&self) -> &crate::Guard {
        match &self.guard {
            Some(guard) => guard,
            None => unreachable!("only release and drop take the guard, and they consume this one"),
        }
    }

    /// Releases the lock; see [`crate::Guard::release`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`] inside an async task, where the release continues in the
    /// background.
    pub fn release(mut self) -> Result<()> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        self.runtime.block_on(guard.release())?
    }

    /// Releases the lock without waiting for its minimum hold; see [`crate::Guard::release_early`].
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
        if let Some(guard) = self.guard.take() {
            self.runtime.release_dropped(guard.lingers(), guard.release());
        }
    }
}

/// Runs one call on a runtime of its own.
fn block_on<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    Own::new()?.block_on(call)?
}

/// The runtime of a blocking client. Dropping the last clone shuts it down without waiting.
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
        Ok(Self(Arc::new(Background { runtime: Some(runtime), silent_until: Mutex::default() })))
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        // While the thread ends, the handle is not accessible: refuse then too.
        let may_wait = match Handle::try_current() {
            Ok(_) => !wait::in_async_task(),
            Err(error) => error.is_missing_context(),
        };
        match &self.0.runtime {
            Some(runtime) if may_wait => Ok(wait::block_on(runtime, future)),
            _ => Err(Error::new(
                ErrorKind::Invalid,
                "this is a blocking call inside an async task; use the async client there, \
                 or make the call in spawn_blocking",
            )),
        }
    }

    /// Records that the backend answers: drops wait again.
    fn answered(&self) {
        self.0.silent_until().take();
    }

    /// Runs the release of a dropped guard, and waits for it where that is right. Dropping the
    /// future releases in the background.
    fn release_dropped(&self, lingers: bool, release: impl Future<Output = Result<()>>) {
        if lingers || self.0.is_silent() {
            return;
        }
        // Without a runtime to wait on, dropping the future does as well.
        let release = async { tokio::time::timeout(DROP_WAITS, release).await };
        if let Ok(waited) = self.block_on(release) {
            let clock = Clock::system();
            let silent = waited.is_err().then(|| Deadline::after(clock.now(), SILENCE));
            *self.0.silent_until() = silent;
        }
    }
}

/// What the handles of a blocking client share.
#[derive(Debug)]
struct Background {
    runtime: Option<Runtime>,
    /// Until then drops do not wait, because an earlier drop timed out.
    silent_until: Mutex<Option<Deadline>>,
}

impl Background {
    fn silent_until(&self) -> MutexGuard<'_, Option<Deadline>> {
        self.silent_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_silent(&self) -> bool {
        self.silent_until().is_some_and(|until| !until.has_passed(Clock::system().now()))
    }
}

impl Drop for Background {
    /// Dropping a runtime inside another one panics; shutting it down in the background does not.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
