//! A leader among candidates: the candidate that holds a lock.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{Backoff, Deadline};
use tracing::Instrument;

use crate::client::Client;
use crate::guard::Guard;
use crate::leaders::{self, Leader, Leaders};
use crate::leadership::{Leadership, Term};
use crate::lock::Lock;
use crate::options::{Options, invalid, within};
use crate::shared::jitter;
use crate::{Error, ErrorKind, Name, Result, Retry};

const MAX_CANDIDATE: usize = 1024;

/// How often an observer asks an engine that does not push.
const OBSERVE_EVERY: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// The pauses of a campaign while the store cannot be used; the patience of the client adds to them.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(5);

/// An election: of several candidates, at most one leads at a time. Creating it does no I/O.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold_core::Result<()> {
/// # use std::sync::Arc;
/// # use leasehold_core::{Client, memory::MemoryStore};
/// # let client = Client::new(Arc::new(MemoryStore::new().connect()))?;
/// let election = client.election("scheduler").candidate("10.0.0.7:8080");
/// let mut leaders = election.observe().await?;
/// assert_eq!(leaders.next().await, Some(None)); // no leader yet
///
/// let token = election
///     .run(|leadership| async move {
///         // Work as the leader: send the token with each write, end when the leadership ends.
///         leadership.token()
///     })
///     .await?;
/// assert!(token.get() > 0);
/// # client.close().await;
/// # Ok(()) }
/// ```
///
/// **The leader is the holder of the lock of this name**, on every engine: with its lease, its
/// queue, its fencing token and its metrics. The value of the candidate is the lock's metadata. So
/// `status`, `list` and `force_release` work, and [`Client::lock`] of the same name excludes the
/// leader: use a name for one of both.
///
/// Candidates lead in the order in which they began to campaign, if the engine orders waiters. A
/// leader that dies is replaced when its lease ends: after its ttl, or at once if leases end with
/// the process. A term is never handed to another candidate of the same process in memory, so that
/// the store always shows the current leader.
#[must_use = "an election does nothing until it is run or observed; a setter returns the changed \
              election"]
#[derive(Clone, Debug)]
pub struct Election {
    pub(crate) client: Client,
    name: Result<Name>,
    options: Options,
    observe_every: Duration,
}

impl Client {
    /// Returns the election of this name. It does no I/O; an invalid name is an error at the first
    /// use.
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election {
            client: self.clone(),
            name: Name::new(name).map_err(Error::from),
            options: Options { alone: true, ..Options::default() },
            observe_every: OBSERVE_EVERY,
        }
    }
}

impl Election {
    /// Sets the value that observers see while this candidate leads, such as its address: 1 byte to
    /// 1 KiB without control characters. Default: none; observers then see `HOST/PID`.
    pub fn candidate(mut self, value: impl Into<String>) -> Self {
        let origin = self.client.shared().origin.with_metadata(value.into());
        self.options.origin = Some(Arc::new(origin));
        self
    }

    /// Sets how long a leader that died still counts as the leader, if leases end by time; see
    /// [`Lock::ttl`]. Default 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// Sets the time from one renewal to the next; see [`Lock::renew_after`]. Default: a third of
    /// the ttl.
    pub fn renew_after(mut self, after: Duration) -> Self {
        self.options.renew_after = Some(after);
        self
    }

    /// Sets how long each campaign lasts at most, also those after a loss. Default: forever.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = Some(wait);
        self
    }

    /// Sets the longest term: the leadership then ends as by a loss, and the candidate campaigns
    /// again, behind those that wait. See [`Lock::max_hold`]. Default: none.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// Sets how often [`observe`](Self::observe) asks the store: 1 ms to 1 h, default 1 s. Engines
    /// that push changes (all but MySQL, SQLite and quorums) report them at once.
    pub fn observe_every(mut self, every: Duration) -> Self {
        self.observe_every = every;
        self
    }

    /// Returns the lock whose holder is the leader, with the candidate as its metadata.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the name or the candidate is not allowed.
    pub fn lock(&self) -> Result<Lock> {
        let name = self.name.clone()?;
        if let Some(value) = self.options.origin.as_ref().and_then(|origin| origin.metadata()) {
            check(value)?;
        }
        Ok(Lock::with_options(self.client.clone(), name, self.options.clone()))
    }

    /// Waits until this candidate leads, and returns its term. While the store cannot be used, it
    /// asks again until [`wait`](Self::wait) is over.
    ///
    /// Use [`run`](Self::run) unless the program itself decides what happens after a loss.
    ///
    /// Dropping the future ends the campaign: the candidate leaves the queue, and a term that was
    /// granted meanwhile is resigned in the background.
    ///
    /// # Errors
    /// As [`Lock::acquire`]. [`ErrorKind::Unavailable`] only if a retry cannot help.
    pub async fn campaign(&self) -> Result<Term> {
        let lock = self.lock().map_err(|error| error.during("campaign", None))?;
        let until = self.client.deadline(self.options.wait);
        let (name, engine) = (lock.name()?.as_str(), self.client.capability().engine);
        let span = tracing::debug_span!("leasehold.campaign", name, engine);
        let hold = self.elected(&lock, until).instrument(span).await;
        match hold {
            Ok(guard) => Ok(Term::new(self.client.clone(), guard)),
            Err(error) => Err(lock.asks().name_holder(error, self.options.wait).await),
        }
    }

    async fn elected(&self, lock: &Lock, until: Option<Deadline>) -> Result<Guard> {
        let clock = &self.client.shared().clock;
        let mut backoff = Backoff::new(FIRST_RETRY, LAST_RETRY);
        loop {
            match lock.asks().hold_until(until).await {
                Ok(hold) => return Ok(Guard::new(self.client.clone(), hold)),
                Err(error)
                    if error.kind() == ErrorKind::Unavailable && error.retry() == Retry::Useful =>
                {
                    tracing::warn!(%error, "the campaign goes on when the store can be used");
                }
                Err(error) => return Err(error),
            }
            clock.within(until, clock.sleep(backoff.next(jitter()))).await;
        }
    }

    /// Campaigns, runs `work` while this candidate leads, and resigns when the work has ended. After
    /// a loss it campaigns again, and calls `work` again in the next term.
    ///
    /// A loss ends the term in this order: [`Leadership::is_leader`] is false, the
    /// [cancellation token](Leadership::cancellation_token) is cancelled, the work continues until
    /// it ends or the deadline of the lease has passed (then its future is dropped), and then the
    /// candidate resigns. What the work returns after a loss is dropped. Work that blocks its thread
    /// cannot be ended; its leadership still ends by its deadline. Tasks that the work has started
    /// are not ended: give them the cancellation token.
    ///
    /// Returns what the work returned, if it ended before a loss. Dropping the future ends the
    /// campaign or the term in the same order, without waiting. If the work panics, the term ends,
    /// and the panic continues in the caller.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign), also in a later campaign.
    pub async fn run<F, W, T>(&self, mut work: F) -> Result<T>
    where
        F: FnMut(Leadership) -> W,
        W: Future<Output = T>,
    {
        loop {
            let term = self.campaign().await?;
            let done = self.lead(&term, work(term.leadership().clone())).await;
            let Some(done) = done else { continue };
            // The work is done: whether the resignation succeeds changes nothing for it, and the
            // client repeats it in the background.
            if let Err(error) = term.resign().await {
                tracing::debug!(%error, "the leadership had ended before the resignation");
            }
            return Ok(done);
        }
    }

    /// Runs the work of one term; returns `None` after a loss.
    async fn lead<T>(&self, term: &Term, work: impl Future<Output = T>) -> Option<T> {
        let clock = &self.client.shared().clock;
        let mut work = pin!(work);
        // Dropped before the work, also if this future is dropped.
        let _end = EndFirst(term.leadership());
        let reason = tokio::select! {
            biased;
            reason = term.lost() => reason,
            done = &mut work => return Some(done),
        };
        tracing::debug!(name = %term.leadership().name(), %reason, "the leadership is lost");
        term.leadership().stop();
        let left = term.leadership().time_to_stop();
        let until = Deadline::after(clock.now(), left);
        clock.within(Some(until), &mut work).await;
        None
    }

    /// Returns the leader; `None` if there is none now.
    ///
    /// # Errors
    /// As [`Lock::status`].
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let name = self.name.as_ref().map_err(Clone::clone)?;
        let status = self.client.shared().backend.status(name).await.and_then(leaders::checked);
        Ok(Leader::of(status.map_err(|error| error.during("leader", Some(name)))?))
    }

    /// Returns the leaders from now on: first the current one, then each change. `None` stands for
    /// no leader: it resigned, died or was deposed, and no candidate has followed yet.
    ///
    /// Engines that push changes report them at once. Others are asked every
    /// [`observe_every`](Self::observe_every), and when the lease of the leader would end: two
    /// changes in between are one. While the store cannot be used, nothing is reported, and the last
    /// leader may be outdated. The observer sees each new term, also of the same candidate, by its
    /// token.
    ///
    /// The stream ends when the client is closed, or the store refuses to show the lock.
    ///
    /// # Errors
    /// As [`Lock::status`].
    pub async fn observe(&self) -> Result<Leaders> {
        let name = self.name.clone()?;
        within("observe_every", self.observe_every, SHORTEST_PAUSE, LONGEST_PAUSE)?;
        Leaders::of(self.client.clone(), name, self.observe_every).await
    }
}

/// Ends a leadership before the work under it is dropped.
struct EndFirst<'a>(&'a Leadership);

impl Drop for EndFirst<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Checks the value of a candidate.
fn check(value: &str) -> Result<()> {
    if value.is_empty() {
        return Err(invalid(format!(
            "candidate: is empty; a candidate has 1 to {MAX_CANDIDATE} bytes"
        )));
    }
    if value.len() > MAX_CANDIDATE {
        return Err(invalid(format!(
            "candidate: has {} bytes; a candidate has 1 to {MAX_CANDIDATE} bytes",
            value.len()
        )));
    }
    if let Some((at, c)) = value.char_indices().find(|(_, c)| c.is_control()) {
        return Err(invalid(format!(
            "candidate: has the control character U+{:04X} at byte {at}; \
             a candidate is UTF-8 without control characters",
            u32::from(c)
        )));
    }
    Ok(())
}
