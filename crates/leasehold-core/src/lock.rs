//! A lock by its name: the knobs, and the ways to acquire it.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{Deadline, Token};
use tracing::Instrument;

use crate::acquire::{self, Patience};
use crate::backend::{Forced, Status};
use crate::client::Client;
use crate::ending::lost;
use crate::guard::Guard;
use crate::options::Options;
use crate::owner::Owner;
use crate::{Error, ErrorKind, Name, OnLoss, Result, taken};

/// Said of a lock whose holder is not named.
const TAKEN: &str = "the lock is taken";

/// A lock, not held yet. Cheap to clone; making one does no I/O.
///
/// The knobs are checked, together, when the lock is used and before anything is sent; a wrong
/// value or combination is an error of kind [`ErrorKind::Invalid`].
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

    /// How long the lease lasts when it is not renewed: how soon others get in after a crash.
    /// It is renewed at a third of it for as long as the guard lives. 10 ms to 24 h, default 30 s.
    /// On engines whose leases end with the session it only sets how often health is checked; where
    /// the engine can promise less ([`Capability::longest_ttl`](crate::backend::Capability)), it is
    /// shortened to that.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// A fixed lease instead of a renewed one: the guard ends this long after it was asked for.
    /// 10 ms to 24 h, default none. Excludes [`ttl`](Self::ttl) and
    /// [`renew_after`](Self::renew_after); at most [`max_hold`](Self::max_hold).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = Some(lease);
        self
    }

    /// Time from one renewal to the next. At least 200 ms (a fiftieth of a ttl below 10 s), and before
    /// the loss would be told.
    /// Default: a third of the ttl. Each is sent up to a tenth earlier, at random.
    pub fn renew_after(mut self, after: Duration) -> Self {
        self.options.renew_after = Some(after);
        self
    }

    /// How long [`acquire`](Self::acquire) waits at the most. Default: for ever.
    /// [`acquire_within`](Self::acquire_within) overrides it, [`try_acquire`](Self::try_acquire)
    /// does not wait for the lock.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = Some(wait);
        self
    }

    /// The guard ends this long after it was granted, however often it was renewed, even if the
    /// program forgets it. 10 ms to 365 d, default none; at least the lease and the minimum hold.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// The lock stays taken for at least this long after it was acquired, so that a short job on
    /// machines whose clocks differ does not run twice. Up to 24 h, default 0. Where the engine
    /// cannot keep it without us, the release lingers; a guard that is dropped does so in the
    /// background, and only for as long as its runtime lives.
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.options.min_hold = min_hold;
        self
    }

    /// What a loss does besides making the guard invalid. Default: [`OnLoss::Cancel`].
    pub fn on_loss(mut self, on_loss: OnLoss) -> Self {
        self.options.on_loss = on_loss;
        self
    }

    /// A text that `status` shows beside host and process id; at most 1 KiB, default none.
    pub fn metadata(mut self, metadata: impl Into<String>) -> Self {
        let origin = self.client.shared().origin.with_metadata(metadata.into());
        self.options.origin = Some(Arc::new(origin));
        self
    }

    /// Whether this acquire takes its place behind those who wait already. Default: true.
    /// `false` may pass them when the lock happens to be free, and lets a lease go from task to task
    /// of this process for a second instead of 20 ms while others outside wait for it: more
    /// throughput, longer waits for others. Engines without
    /// [`unfair`](crate::backend::Capability::unfair) never let anybody pass.
    pub fn fair(mut self, fair: bool) -> Self {
        self.options.fair = fair;
        self
    }

    /// The name, if it is allowed.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a name that is not.
    pub fn name(&self) -> Result<&Name> {
        self.name.as_ref().map_err(Clone::clone)
    }

    /// Acquires the lock, waiting for it as long as [`wait`](Self::wait) says.
    ///
    /// Dropping the future leaves the queue; what may have been granted meanwhile is given back
    /// in the background, at worst after one ttl.
    ///
    /// # Errors
    /// `Invalid`, `Timeout`, `Unavailable`, `Refused`, `Foreign`, `Closed`: see [`ErrorKind`].
    pub async fn acquire(&self) -> Result<Guard> {
        self.acquire_for(self.options.wait).await
    }

    /// Acquires the lock, waiting no longer than `wait`; zero tries once, as
    /// [`try_acquire`](Self::try_acquire) does.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] when the time is up, and shortly before where the backend fails and there
    /// is no time to ask it again; others as [`acquire`](Self::acquire). The error names the holder, if
    /// one look at the backend finds it within 100 ms; the call may take that much longer.
    pub async fn acquire_within(&self, wait: Duration) -> Result<Guard> {
        self.acquire_for(Some(wait)).await
    }

    /// Acquires the lock if it is free; `None` if it is held. It does not wait for a holder.
    ///
    /// It waits for the backend's answer, 2 s at most
    /// ([`ClientBuilder::try_patience`](crate::ClientBuilder::try_patience)).
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), without `Timeout`. [`ErrorKind::Unavailable`] when the backend did
    /// not answer in that time: the lock is not held by this call, and a grant that arrives later is
    /// given back in the background, at worst after one ttl.
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        self.guarded(Patience::None).await
    }

    /// Acquires the lock for an owner. If the owner holds it already, through this client, the
    /// new guard shares that lease and its token; the lease ends with the last of them.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_as(&self, owner: &Owner) -> Result<Guard> {
        let until = self.deadline(self.options.wait);
        match owner.acquire(self, until).await {
            Err(error) => Err(self.name_holder(error, self.options.wait).await),
            acquired => acquired,
        }
    }

    /// Runs `work` under the lock, and releases the lock at the end.
    ///
    /// When the lease is lost, the work's future is dropped at its next await point (with
    /// [`OnLoss::Notify`] it goes on). The guard that the work is given shares the lease: keep no
    /// copy of it beyond the work, or the lock stays held for as long.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] when the lease was lost before the work was done; others as
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
            // The guard is dropped: what is left to do must not keep the caller from hearing this.
            Err(reason) => Err(during_run(lost(reason))),
            Ok(done) => match guard.release().await {
                Err(error) if stops && error.kind() == ErrorKind::Lost => Err(during_run(error)),
                _ => Ok(done), // What the release left over is seen to in the background.
            },
        }
    }

    /// Who holds the lock, since when, for how long, and who waits.
    ///
    /// # Errors
    /// `Invalid`, `Unavailable`, `Refused`, `Foreign`: see [`ErrorKind`].
    pub async fn status(&self) -> Result<Status> {
        let name = self.name()?;
        let status = self.client.shared().backend.status(name).await;
        status.map_err(|error| error.during("status", Some(name)))
    }

    /// Ends the lease that `token` belongs to, if it is still the current one.
    ///
    /// The old holder's work is not stopped. Its client is told at once on Redis, on etcd, in memory, and
    /// on PostgreSQL if it listens; its guard is invalid from then on. On other engines, and if that
    /// message is lost, the client detects the loss at its next renewal: after a third of the ttl at
    /// most, and until then two guards are valid. Only a check of tokens at the resource rules that out.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where a lease ends only with its process; others as
    /// [`status`](Self::status).
    pub async fn force_release(&self, token: Token) -> Result<Forced> {
        let name = self.name()?;
        let forced = self.client.shared().backend.force_release(name, token).await;
        forced.map_err(|error| error.during("force-release", Some(name)))
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn deadline(&self, wait: Option<Duration>) -> Option<Deadline> {
        wait.map(|wait| Deadline::after(self.client.shared().clock.now(), wait))
    }

    pub(crate) async fn acquire_until(&self, until: Option<Deadline>) -> Result<Guard> {
        let guard = self.guarded(Patience::Until(until)).await?;
        guard.ok_or_else(|| Error::new(ErrorKind::Timeout, TAKEN))
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

    /// The error of a wait that has timed out says who holds the lock.
    async fn name_holder(&self, error: Error, wait: Option<Duration>) -> Error {
        let Ok(name) = &self.name else { return error };
        let error = taken::name_holder(self.client.shared(), name, error, wait).await;
        error.during("acquire", Some(name))
    }

    async fn guarded(&self, patience: Patience) -> Result<Option<Guard>> {
        let name = self.name().map_err(|error| error.during("acquire", None))?;
        self.client.open().map_err(|error| error.during("acquire", Some(name)))?;
        let span = tracing::debug_span!(
            "leasehold.acquire",
            name = name.as_str(),
            engine = self.client.capability().engine
        );
        let acquired = acquire::acquire(&self.client, name, &self.options, patience);
        let acquired = match span.is_disabled() {
            true => acquired.await,
            false => Box::pin(acquired.instrument(span)).await,
        };
        let hold = acquired.map_err(|error| error.during("acquire", Some(name)))?;
        Ok(hold.map(|hold| Guard::new(self.client.clone(), hold)))
    }
}
