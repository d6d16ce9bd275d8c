//! A lock by its name: its options, and the ways to acquire it.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{Deadline, Token};
use tracing::Instrument;

use crate::acquire::{self, Patience};
use crate::client::Client;
use crate::common_errors::lost;
use crate::guard::Guard;
use crate::hold::Hold;
use crate::options::Options;
use crate::owner::Owner;
use crate::{Error, ErrorKind, Forced, Name, OnLoss, Result, Status, timeout_error};

/// The message if the holder is not known.
const TAKEN: &str = "the lock is taken";

/// A lock that is not held yet. It is cheap to clone, and creating it does no I/O.
///
/// The options are checked together when the lock is used, before anything is sent. An invalid
/// value or combination is an error of kind [`ErrorKind::Invalid`].
#[must_use = "a lock does nothing until it is acquired; a setter returns the changed lock"]
#[derive(Clone, Debug)]
pub struct Lock {
    client: Client,
    name: Result<Name>,
    options: Options,
}

impl Lock {
    pub(crate) fn new(client: Client, name: &str) -> Self {
        Self { client, name: Name::new(name), options: Options::default() }
    }

    /// Sets how long the lease lasts without renewal: how soon others can acquire the lock after a
    /// crash. The client renews it every third of the ttl while the guard lives. 10 ms to 24 h,
    /// default 30 s. On engines whose leases end with the session it only sets how often the client
    /// checks health. If the engine can promise less
    /// ([`Capability::longest_ttl`](crate::Capability)), it is shortened to that.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// Sets a fixed lease, which is not renewed: the guard ends this long after the lock was asked
    /// for, unless [`Guard::extend`] moves its end. 10 ms to 24 h, default none. Excludes [`ttl`](Self::ttl) and
    /// [`renew_after`](Self::renew_after); at most [`max_hold`](Self::max_hold).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = Some(lease);
        self
    }

    /// Sets the time from one renewal to the next. It is at least 200 ms (a fiftieth of a ttl below
    /// 10 s), and ends before the loss would be reported. Default: a third of the ttl. Each renewal
    /// is sent up to a tenth earlier, at random.
    pub fn renew_after(mut self, after: Duration) -> Self {
        self.options.renew_after = Some(after);
        self
    }

    /// Sets how long [`acquire`](Self::acquire) waits at most. Default: for ever.
    /// [`acquire_within`](Self::acquire_within) overrides it, and
    /// [`try_acquire`](Self::try_acquire) does not wait for the lock.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = Some(wait);
        self
    }

    /// Sets the longest hold: the guard ends this long after it was granted, even if it is renewed
    /// or the program forgets it. 10 ms to 365 d, default none; at least the lease and the minimum
    /// hold.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// Sets the minimum hold: the lock stays taken for at least this long after it was acquired, so
    /// that a short job does not run twice on machines whose clocks differ. Up to 24 h, default 0.
    /// If the engine cannot keep the lock without the client ([`Guard::lingers`]), the release
    /// waits; after a dropped guard it waits in the background. If the runtime ends before, the
    /// lock ends with its ttl or session.
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.options.min_hold = min_hold;
        self
    }

    /// Sets what a loss does besides making the guard invalid. Default: [`OnLoss::Cancel`].
    pub fn on_loss(mut self, on_loss: OnLoss) -> Self {
        self.options.on_loss = on_loss;
        self
    }

    /// Sets a text that `status` shows beside host and process id; at most 1 KiB, default none.
    pub fn metadata(mut self, metadata: impl Into<String>) -> Self {
        let origin = self.client.shared().origin.with_metadata(metadata.into());
        self.options.origin = Some(Arc::new(origin));
        self
    }

    /// Sets whether this acquire waits behind the clients that wait already. Default: true. With
    /// `false`, it may overtake them if it finds a lease, an offer or a minimum hold that has ended by
    /// its time; a release still hands the lock to the first waiter. Tasks of this process may pass a
    /// lease to each other for 1 s instead of 20 ms while other clients wait. This gives more
    /// throughput, and longer waits for others. On engines without
    /// [`unfair`](crate::Capability::unfair) no client overtakes another.
    pub fn fair(mut self, fair: bool) -> Self {
        self.options.fair = fair;
        self
    }

    /// Returns the name, if it is valid.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it is not.
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
    /// `Invalid`, `Timeout`, `Unavailable`, `Refused`, `Foreign`, `Closed`: see [`ErrorKind`].
    pub async fn acquire(&self) -> Result<Guard> {
        self.acquire_for(self.options.wait).await
    }

    /// Acquires the lock, waiting at most `wait`. Zero tries once, as
    /// [`try_acquire`](Self::try_acquire) does.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if the lock is not available in that time, or shortly before if the
    /// backend fails and no time is left to ask it again. Others as [`acquire`](Self::acquire). The
    /// error names the holder if one look at the backend finds it within 100 ms; the call may take
    /// that much longer.
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
    /// As [`acquire`](Self::acquire), without `Timeout`. [`ErrorKind::Unavailable`] if the backend
    /// did not answer in that time: this call does not hold the lock, and a grant that arrives
    /// later is released in the background; at worst it ends after one ttl.
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        let hold = self.hold(Patience::None).await?;
        Ok(hold.map(|hold| Guard::new(self.client.clone(), hold)))
    }

    /// Acquires the lock for an owner. If the owner holds it already through this client, the new
    /// guard shares that lease and its token. The lease ends with the last guard.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_as(&self, owner: &Owner) -> Result<Guard> {
        let until = self.deadline(self.options.wait);
        let name = self.name().map_err(|error| error.during("acquire", None))?;
        let shared = self.client.shared();
        let hold = owner.acquire(shared, name, until, self.hold_until(until)).await;
        match hold {
            Err(error) => Err(self.name_holder(error, self.options.wait).await),
            Ok(hold) => Ok(Guard::new(self.client.clone(), hold)),
        }
    }

    /// Acquires the lock, runs `work`, and releases the lock at the end.
    ///
    /// If the lease is lost, the future of the work is dropped at its next await point (with
    /// [`OnLoss::Notify`] it continues). The guard that `work` gets shares the lease: keep no copy
    /// of it beyond the work, or the lock stays held.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if the lease was lost before the work was done; others as
    /// [`acquire`](Self::acquire).
    pub async fn run<F, W, T>(&self, work: F) -> Result<T>
    where
        F: FnOnce(Guard) -> W,
        W: Future<Output = T>,
    {
        let guard = self.acquire().await?;
        let inner = guard.reenter()?;
        let stops = guard.stops_work();
        let stopped = async {
            match stops {
                true => guard.lost().await,
                false => std::future::pending().await,
            }
        };
        let done = tokio::select! {
            biased;
            reason = stopped => Err(reason),
            done = work(inner) => Ok(done),
        };
        let during_run = |error: Error| error.during("run", self.name.as_ref().ok());
        match done {
            // The guard is dropped: clean-up must not delay this error.
            Err(reason) => Err(during_run(lost(reason))),
            Ok(done) => match guard.release().await {
                Err(error) if stops && error.kind() == ErrorKind::Lost => Err(during_run(error)),
                _ => Ok(done), // The background task finishes the release.
            },
        }
    }

    /// Returns the holder of the lock, since when and for how long it holds, and the waiters.
    ///
    /// # Errors
    /// `Invalid`, `Unavailable`, `Refused`, `Foreign`: see [`ErrorKind`].
    pub async fn status(&self) -> Result<Status> {
        let name = self.name()?;
        let status = self.client.shared().backend.status(name).await;
        status.map_err(|error| error.during("status", Some(name)))
    }

    /// Ends the lease that `token` belongs to, if it is still the current lease.
    ///
    /// It does not stop the work of the old holder. On Redis, etcd and memory, and on PostgreSQL if
    /// the client listens, the holder's client is notified at once, and its guard is invalid from
    /// then on. On other engines, or if that message is lost, the client detects the loss at its
    /// next renewal: after at most a third of the ttl. Until then two guards are valid. Only a
    /// check of tokens at the resource rules that out.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if a lease ends only with its process; others as
    /// [`status`](Self::status).
    pub async fn force_release(&self, token: Token) -> Result<Forced> {
        let name = self.name()?;
        let forced = self.client.shared().backend.force_release(name, token).await;
        forced.map_err(|error| error.during("force-release", Some(name)))
    }

    fn deadline(&self, wait: Option<Duration>) -> Option<Deadline> {
        wait.map(|wait| Deadline::after(self.client.shared().clock.now(), wait))
    }

    async fn acquire_until(&self, until: Option<Deadline>) -> Result<Guard> {
        let hold = self.hold_until(until).await?;
        Ok(Guard::new(self.client.clone(), hold))
    }

    async fn hold_until(&self, until: Option<Deadline>) -> Result<Arc<Hold>> {
        let hold = self.hold(Patience::Until(until)).await?;
        hold.ok_or_else(|| Error::new(ErrorKind::Timeout, TAKEN))
    }

    async fn acquire_for(&self, wait: Option<Duration>) -> Result<Guard> {
        let acquired = match wait {
            Some(wait) if wait.is_zero() => self.try_once().await,
            _ => self.acquire_until(self.deadline(wait)).await,
        };
        match acquired {
            Err(error) => Err(self.name_holder(error, wait).await),
            acquired => acquired,
        }
    }

    async fn try_once(&self) -> Result<Guard> {
        let guard = self.try_acquire().await?;
        guard.ok_or_else(|| {
            self.client.shared().meters.timed_out.increment(1);
            Error::new(ErrorKind::Timeout, TAKEN)
        })
    }

    /// Adds the holder of the lock to the error of a wait that has timed out.
    async fn name_holder(&self, error: Error, wait: Option<Duration>) -> Error {
        let Ok(name) = &self.name else { return error };
        let error = timeout_error::name_holder(self.client.shared(), name, error, wait).await;
        error.during("acquire", Some(name))
    }

    async fn hold(&self, patience: Patience) -> Result<Option<Arc<Hold>>> {
        let name = self.name().map_err(|error| error.during("acquire", None))?;
        self.client.open().map_err(|error| error.during("acquire", Some(name)))?;
        let span = tracing::debug_span!(
            "leasehold.acquire",
            name = name.as_str(),
            engine = self.client.capability().engine
        );
        let acquired = acquire::acquire(self.client.driver(), name, &self.options, patience);
        let acquired = match span.is_disabled() {
            true => acquired.await,
            false => Box::pin(acquired.instrument(span)).await,
        };
        acquired.map_err(|error| error.during("acquire", Some(name)))
    }
}
