//! A lock by its name: its options, and the ways to acquire it.

use std::time::Duration;

use leasehold_proto::{AttemptId, Token};

use crate::asks::Asks;
use crate::backend::Mode;
use crate::client::Client;
use crate::guard::Guard;
use crate::options::{CacheTime, Options};
use crate::owner::Owner;
use crate::{Error, Forced, Name, Result, State, Status, scope};

/// A lock that is not held yet. It is cheap to clone, and creating it does no I/O.
///
/// The options are checked together when the lock is used, before anything is sent. An invalid
/// value or combination is an error of kind [`ErrorKind::Invalid`](crate::ErrorKind::Invalid).
#[must_use = "a lock does nothing until it is acquired; a setter returns the changed lock"]
#[derive(Clone, Debug)]
pub struct Lock {
    pub(crate) client: Client,
    name: Result<Name>,
    pub(crate) options: Options,
}

impl Lock {
    pub(crate) fn new(client: Client, name: &str) -> Self {
        Self { client, name: Name::new(name).map_err(Error::from), options: Options::default() }
    }

    /// Returns the lock of a checked name with these options.
    pub(crate) fn with_options(client: Client, name: Name, options: Options) -> Self {
        Self { client, name: Ok(name), options }
    }

    /// Sets a fixed lease, which is not renewed: the guard ends this long after the lock was
    /// requested, unless [`Guard::extend`] moves its end. 10 ms to 24 h, default none. Excludes
    /// [`ttl`](Self::ttl) and [`renew_after`](Self::renew_after); at most
    /// [`max_hold`](Self::max_hold).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = Some(lease);
        self
    }

    /// Sets for how long the client caches the lease: when the last task of this process releases the
    /// lock and no other client waits, the client keeps the lease for up to this time. The next task
    /// takes it without a call, with the next token. Zero, which caches nothing, or 1 ms to 24 h (at
    /// most 0.4 % less is used). Default: that of [`ClientSettings::cache`](crate::ClientSettings::cache),
    /// which is zero.
    ///
    /// When another client begins to wait, the store notifies this client, which hands the lease over at
    /// once: the other one waits for one push and one release more than for a free lock. If this
    /// process has crashed, is paused, or the message is lost, the other one waits for the rest of the
    /// ttl. A `try_acquire` of another client finds the lock taken, and does not end the caching.
    ///
    /// A cached lease is not renewed, and is given back when a third of its ttl is left, when the
    /// connection breaks, and when the client is closed or dropped. At most 10,000 leases are cached,
    /// those used last. Do not use it for a lock that several clients want in turn, or with `try_acquire`
    /// in several clients. Excludes [`lease`](Self::lease).
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

    /// Acquires the lock, waiting until it is available, but at most as long as
    /// [`wait`](Self::wait).
    ///
    /// Dropping the future leaves the queue. A lease that was granted meanwhile is released in the
    /// background; at worst it ends after one ttl.
    ///
    /// # Errors
    /// `Invalid`, `Timeout`, `Unavailable`, `Refused`, `Foreign`, `Closed`: see [`ErrorKind`](crate::ErrorKind).
    pub async fn acquire(&self) -> Result<Guard> {
        self.acquire_for(self.options.wait).await
    }

    /// Acquires the lock, waiting at most `wait`. Zero tries once, as
    /// [`try_acquire`](Self::try_acquire) does.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) if the lock is not available in that time. If the backend fails, the
    /// error may come a little earlier, when no time is left for another request. Others as
    /// [`acquire`](Self::acquire). The error names the holder if a request to the backend finds it
    /// within 100 ms; the call may take that much longer.
    pub async fn acquire_within(&self, wait: Duration) -> Result<Guard> {
        self.acquire_for(Some(wait)).await
    }

    /// Acquires the lock if it is free; returns `None` if it is held. It does not wait for a
    /// holder.
    ///
    /// It waits for the answer of the backend, at most 2 s
    /// ([`ClientSettings::try_patience`](crate::ClientSettings::try_patience)).
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), without `Timeout`. [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if the backend
    /// did not answer in that time: this call does not hold the lock, and a grant that arrives
    /// later is released in the background; at worst it ends after one ttl.
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        let hold = self.asks().try_acquire().await?;
        Ok(hold.map(|hold| Guard::new(self.client.clone(), hold)))
    }

    /// Acquires the lock for an owner. If the owner holds it already through this client, the new
    /// guard shares that lease and its token. The lease ends with the last guard.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_as(&self, owner: &Owner) -> Result<Guard> {
        let until = self.client.deadline(self.options.wait);
        let name = self.name().map_err(|error| error.during("acquire", None))?;
        let shared = self.client.shared();
        let hold = owner.acquire(shared, name, until, self.asks().hold_until(until)).await;
        match hold {
            Err(error) => Err(self.asks().name_holder(error, self.options.wait).await),
            Ok(hold) => Ok(Guard::new(self.client.clone(), hold)),
        }
    }

    /// Acquires the lock, runs `work`, and releases the lock at the end.
    ///
    /// If the lease is lost, the future of the work is dropped at its next await point (with
    /// [`OnLoss::Notify`](crate::OnLoss::Notify) it continues). The guard that `work` gets shares the lease: keep no copy
    /// of it beyond the work, or the lock stays held.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the lease was lost before the work was done; others as
    /// [`acquire`](Self::acquire).
    pub async fn run<F, W, T>(&self, work: F) -> Result<T>
    where
        F: FnOnce(Guard) -> W,
        W: Future<Output = T>,
    {
        scope::run(self.acquire().await?, work).await
    }

    /// Returns the holder of the lock, since when and for how long it holds, and the waiters.
    ///
    /// # Errors
    /// `Invalid`, `Unavailable`, `Refused`, `Foreign`: see [`ErrorKind`](crate::ErrorKind).
    pub async fn status(&self) -> Result<Status> {
        let name = self.name()?;
        let status = self.client.shared().backend.status(name).await;
        status.map_err(|error| error.during("status", Some(name)))
    }

    /// Ends the lease that `token` belongs to, if it is still the current lease.
    ///
    /// It does not stop the work of the old holder. On Redis, etcd and memory, and on PostgreSQL if
    /// the client listens, the holder's client is notified immediately, and its guard becomes
    /// invalid. On other engines, or if that message is lost, the client detects the loss at its
    /// next renewal: after at most a third of the ttl. Until then two guards are valid. Only a
    /// check of tokens at the resource prevents a late write.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if a lease ends only with its process; others as
    /// [`status`](Self::status).
    pub async fn force_release(&self, token: Token) -> Result<Forced> {
        let name = self.name()?;
        let forced = self.client.shared().backend.force_release(name, token).await;
        forced.map_err(|error| error.during("force-release", Some(name)))
    }

    /// Ends the lease of one attempt, if it still holds: one of several readers, one permit of a semaphore, or the
    /// holder of a lock. The others keep theirs. The attempt is that of [`Holder`](crate::Holder) in the
    /// [`status`](Self::status); tasks of one client that read together share one.
    ///
    /// The client of the attempt learns of it as with [`force_release`](Self::force_release).
    ///
    /// # Errors
    /// As [`force_release`](Self::force_release).
    pub async fn force_release_attempt(&self, attempt: AttemptId) -> Result<Forced> {
        let forced = self.end_attempt(attempt).await;
        forced.map_err(|error| error.during("force-release", self.name.as_ref().ok()))
    }

    async fn end_attempt(&self, attempt: AttemptId) -> Result<Forced> {
        let (name, backend) = (self.name()?, &self.client.shared().backend);
        let status = backend.status(name).await?;
        let mut waiters = status.waiters.iter().flatten();
        if waiters.any(|waiter| waiter.holder.attempt == attempt) {
            return Ok(Forced::NotHeld);
        }
        let mode = match (status.state, status.holder, status.token) {
            (State::Shared, ..) => Mode::Shared,
            (State::Permits, ..) => Mode::Permit,
            (State::Held, Some(holder), Some(token)) if holder.attempt == attempt => {
                let forced = backend.force_release(name, token).await?;
                // Another lease may have begun since the status.
                return Ok(if forced == Forced::Ended { forced } else { Forced::NotHeld });
            }
            _ => return Ok(Forced::NotHeld),
        };
        backend.force_release_attempt(name, attempt, mode).await
    }

    async fn acquire_for(&self, wait: Option<Duration>) -> Result<Guard> {
        let hold = self.asks().acquire(wait).await?;
        Ok(Guard::new(self.client.clone(), hold))
    }

    /// Returns what an acquire of this lock asks for.
    pub(crate) fn asks(&self) -> Asks<'_> {
        let Self { client, name, options } = self;
        Asks { driver: client.driver(), name, options, mode: Mode::Exclusive, demand: None }
    }
}
