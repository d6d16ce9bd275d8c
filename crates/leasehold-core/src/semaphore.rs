//! A semaphore by its name: up to a limit, many clients hold one of its numbered slots each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold_proto::semaphore::{Conflict, Demand, Limit};
use leasehold_proto::{AttemptId, Backoff, Deadline, Token};

use crate::asks::Asks;
use crate::backend::{LimitChange, LimitChanged, Mode, StoredLimit};
use crate::client::Client;
use crate::common_errors::no_answer;
use crate::guard::Guard;
use crate::hold::Hold;
use crate::options::{Options, invalid};
use crate::permit::Permit;
use crate::shared::jitter;
use crate::{Error, ErrorKind, Forced, Lock, Name, Result, Status, scope};

/// The first and longest pause before a change of the limit is sent again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// A semaphore: a name whose numbered slots may be held by as many permits at a time as its limit
/// says. It is cheap to clone, and creating it does no I/O.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold_core::Result<()> {
/// # use std::sync::Arc;
/// # use leasehold_core::{Client, memory::MemoryStore};
/// # let client = Client::new(Arc::new(MemoryStore::new().connect()))?;
/// let gpus = client.semaphore("gpu", 2);
/// let (one, two) = (gpus.acquire().await?, gpus.acquire().await?);
/// assert_eq!((one.slot(), two.slot()), (0, 1));
/// assert!(gpus.try_acquire().await?.is_none());
/// one.release().await?;
/// assert_eq!(gpus.acquire().await?.slot(), 0); // with a larger token than the permit before
/// # Ok(()) }
/// ```
///
/// The first request stores the limit. A client that expects another limit than the stored one gets
/// an error of kind [`ErrorKind::Invalid`]; [`set_limit`](Self::set_limit) changes it.
///
/// A permit has a lease, which the client renews, and a fencing token like a lock. If its holder
/// crashes, exactly its slots come back after its ttl. Waiters are served in order of arrival: a
/// request for many slots is never passed by one for fewer.
///
/// The options are checked together when the semaphore is used, before anything is sent. A minimum
/// hold is for locks: an acquire with one is an error. A name is either that of a lock or that of a
/// semaphore: the other kind is an error.
#[must_use = "a semaphore does nothing until it is acquired; a setter returns the changed semaphore"]
#[derive(Clone, Debug)]
pub struct Semaphore {
    pub(crate) client: Client,
    name: Result<Name>,
    /// The limit that this process expects, for all clones.
    limit: Arc<AtomicU32>,
    pub(crate) options: Options,
}

impl Client {
    /// Returns the semaphore of this name, whose limit is 1 to 10,000. It does no I/O; an invalid name
    /// or limit is an error at the first use.
    pub fn semaphore(&self, name: impl AsRef<str>, limit: u32) -> Semaphore {
        Semaphore {
            client: self.clone(),
            name: Name::new(name.as_ref()).map_err(Error::from),
            limit: Arc::new(AtomicU32::new(limit)),
            options: Options::default(),
        }
    }
}

impl Semaphore {
    /// Sets a fixed lease, which is not renewed; see [`Lock::lease`](crate::Lock::lease).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = Some(lease);
        self
    }

    /// Returns the name, if it is valid.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it is not.
    pub fn name(&self) -> Result<&Name> {
        self.name.as_ref().map_err(Clone::clone)
    }

    /// Acquires one slot, waiting until it is this caller's turn, but at most as long as
    /// [`wait`](Self::wait).
    ///
    /// Dropping the future leaves the queue. A permit that was granted meanwhile is released in the
    /// background; at worst it ends after one ttl.
    ///
    /// # Errors
    /// As [`Lock::acquire`](crate::Lock::acquire). `Invalid` also if another limit is stored, or if the
    /// name is that of a lock; `Unsupported` if the engine has no semaphores.
    pub async fn acquire(&self) -> Result<Permit> {
        self.acquire_for(1, self.options.wait).await
    }

    /// Acquires several slots together: 1 to 1,024, and at most the limit. The permit has one token and
    /// one lease, and gives all its slots back together.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). `Invalid` also if the limit is lowered below this number while
    /// the caller waits.
    pub async fn acquire_many(&self, slots: u32) -> Result<Permit> {
        self.acquire_for(slots, self.options.wait).await
    }

    /// Acquires one slot, waiting at most `wait`. Zero tries once, as
    /// [`try_acquire`](Self::try_acquire) does.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) if no slot
    /// was available in that time.
    pub async fn acquire_within(&self, wait: Duration) -> Result<Permit> {
        self.acquire_for(1, Some(wait)).await
    }

    /// Acquires several slots together, waiting at most `wait`.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many) and [`acquire_within`](Self::acquire_within).
    pub async fn acquire_many_within(&self, slots: u32, wait: Duration) -> Result<Permit> {
        self.acquire_for(slots, Some(wait)).await
    }

    /// Acquires one slot if one is free and no other caller waits; otherwise returns `None`.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), without `Timeout`; see
    /// [`Lock::try_acquire`](crate::Lock::try_acquire).
    pub async fn try_acquire(&self) -> Result<Option<Permit>> {
        self.try_acquire_many(1).await
    }

    /// Acquires several slots together if as many are free and no other caller waits; otherwise returns `None`.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many), without `Timeout`.
    pub async fn try_acquire_many(&self, slots: u32) -> Result<Option<Permit>> {
        let hold = self.asks(self.demand(slots)?).try_acquire().await?;
        Ok(hold.map(|hold| self.permit(hold)))
    }

    /// Acquires one slot, runs `work`, and gives the slot back at the end; see
    /// [`Lock::run`](crate::Lock::run).
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the lease was lost before the work was done; others as
    /// [`acquire`](Self::acquire).
    pub async fn run<F, W, T>(&self, work: F) -> Result<T>
    where
        F: FnOnce(Permit) -> W,
        W: Future<Output = T>,
    {
        scope::run(self.acquire().await?, work).await
    }

    /// Returns the stored limit; `None` if no client has used the semaphore yet.
    ///
    /// # Errors
    /// `Unsupported` if the engine has no semaphores, `Invalid` if the name is that of a lock; others as
    /// [`status`](Self::status).
    pub async fn limit(&self) -> Result<Option<u32>> {
        let stored = self.stored_limit().await.map_err(|error| self.during("limit", error))?;
        Ok(stored.map(|stored| stored.limit.get()))
    }

    /// Changes the stored limit: 1 to 10,000. This semaphore and its clones expect it from then on;
    /// other clients that expect the previous limit get an error at their next acquire.
    ///
    /// A higher limit lets waiters in at once. After a lower one, permits that are held stay valid, and
    /// no permit is granted until enough slots are back. Waiters for more slots than it allows get an
    /// error.
    ///
    /// If the call is repeated, or its request arrives late, it undoes no later change.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if another client changed the limit at the same time: its change stays.
    /// [`ErrorKind::Unavailable`] if it is not known whether the limit has changed. Others as
    /// [`limit`](Self::limit).
    pub async fn set_limit(&self, limit: u32) -> Result<()> {
        self.change_limit(limit).await.map_err(|error| self.during("set-limit", error))
    }

    /// Returns the limit, the permits and the waiters: see [`Status::permits`].
    ///
    /// # Errors
    /// As [`Lock::status`](crate::Lock::status).
    pub async fn status(&self) -> Result<Status> {
        self.named()?.status().await
    }

    /// Ends the permit that has this token. See [`Lock::force_release`](crate::Lock::force_release).
    ///
    /// # Errors
    /// As there.
    pub async fn force_release(&self, token: Token) -> Result<Forced> {
        self.named()?.force_release(token).await
    }

    /// Ends the lease of one permit by its attempt. See
    /// [`Lock::force_release_attempt`](crate::Lock::force_release_attempt).
    ///
    /// # Errors
    /// As there.
    pub async fn force_release_attempt(&self, attempt: AttemptId) -> Result<Forced> {
        self.named()?.force_release_attempt(attempt).await
    }

    async fn acquire_for(&self, slots: u32, wait: Option<Duration>) -> Result<Permit> {
        let hold = self.asks(self.demand(slots)?).acquire(wait).await?;
        Ok(self.permit(hold))
    }

    /// Returns what to ask for, or the error for what is not allowed: nothing is sent then.
    fn demand(&self, slots: u32) -> Result<Demand> {
        let min_hold = self.options.min_hold;
        let demand = if !self.client.capability().semaphores {
            Err(self.client.capability().no_semaphores())
        } else if !min_hold.is_zero() {
            let message = format!("min_hold: {min_hold:?} with a permit; only a lock can have one");
            Err(invalid(message))
        } else {
            let limit = self.limit.load(Ordering::Relaxed);
            Demand::new(slots, limit).map_err(|error| invalid(error.to_string()))
        };
        demand.map_err(|error| self.during("acquire", error))
    }

    async fn change_limit(&self, limit: u32) -> Result<()> {
        let new = Limit::new(limit).map_err(|error| invalid(error.to_string()))?;
        let stored = self.stored_limit().await?;
        let version = stored.map_or(0, |stored| stored.version);
        let change = LimitChange::new(self.name()?.clone(), version, new);
        let shared = self.client.shared();
        let until = Deadline::after(shared.clock.now(), shared.patience);
        let mut pauses = Backoff::new(PAUSES.0, PAUSES.1);
        loop {
            let now = shared.clock.now();
            let changing = shared.backend.set_limit(change.clone());
            let error = match shared.called(now, until, None, changing).await {
                Some(Ok(LimitChanged::Changed(_))) => {
                    self.limit.store(limit, Ordering::Relaxed);
                    return Ok(());
                }
                Some(Ok(LimitChanged::Conflict(conflict))) => return Err(changed_before(conflict)),
                Some(Err(error)) if error.kind().is_certain() => return Err(error),
                Some(Err(error)) => error,
                None => no_answer(),
            };
            let (now, pause) = (shared.clock.now(), pauses.next(jitter()));
            if until.remaining(now) <= pause {
                return Err(error);
            }
            shared.clock.sleep(pause).await;
        }
    }

    async fn stored_limit(&self) -> Result<Option<StoredLimit>> {
        let (shared, name) = (self.client.shared(), self.name()?);
        if !shared.capability.semaphores {
            return Err(shared.capability.no_semaphores());
        }
        let now = shared.clock.now();
        let limit = Deadline::after(now, shared.patience);
        let read = shared.called(now, limit, None, shared.backend.limit(name)).await;
        read.unwrap_or_else(|| Err(no_answer()))
    }

    fn during(&self, operation: &'static str, error: Error) -> Error {
        error.during(operation, self.name.as_ref().ok())
    }

    fn named(&self) -> Result<Lock> {
        Ok(Lock::with_options(self.client.clone(), self.name()?.clone(), self.options.clone()))
    }

    fn permit(&self, hold: Arc<Hold>) -> Permit {
        let slots = self.client.shared().permit_waiters.take_slots(hold.attempt);
        Permit::new(Guard::new(self.client.clone(), hold), slots)
    }

    fn asks(&self, demand: Demand) -> Asks<'_> {
        let Self { client, name, options, .. } = self;
        Asks { driver: client.driver(), name, options, mode: Mode::Permit, demand: Some(demand) }
    }
}

fn changed_before(conflict: Conflict) -> Error {
    let now = conflict.limit.map_or("no limit".to_owned(), |limit| limit.to_string());
    Error::new(
        ErrorKind::Conflict,
        format!(
            "another client changed the limit at the same time, and it is {now} now; look at it, and \
             set it again if it must be another one"
        ),
    )
}
