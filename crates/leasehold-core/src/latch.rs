//! A latch: clients wait until each of a number of parties has counted it down.

use std::time::Duration;

use leasehold_proto::latch::{self as record, Round};
use leasehold_proto::{Backoff, Deadline};
use metrics::Gauge;
use tracing::Instrument;

use crate::backend::ValueSwap;
use crate::client::Client;
use crate::common_errors::{closed, no_answer};
use crate::latch_state::not_a_latch;
pub use crate::latch_state::{LatchState, describe};
use crate::lock_changes::LockChanges;
use crate::options::invalid;
use crate::shared::{Shared, jitter};
use crate::{Error, ErrorKind, Name, Result, Retry};

/// How long the store keeps a latch after its last change, unless the program says otherwise.
const TTL: Duration = Duration::from_secs(24 * 3600);
/// The shortest and longest such time.
const TTLS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30 * 24 * 3600));
/// The first and longest pause before a waiter asks again, if the engine does not push changes.
const POLLS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// How often a waiter asks if the engine pushes changes: for the end of a latch by time.
const PUSHED: Duration = Duration::from_secs(5);
/// The first and longest pause before a change that another client came before is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// A latch: clients wait until all of its parties have counted it down. It is cheap to clone, and creating it does
/// no I/O.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold_core::Result<()> {
/// # use std::sync::Arc;
/// # use leasehold_core::{Client, memory::MemoryStore};
/// # let client = Client::new(Arc::new(MemoryStore::new().connect()))?;
/// let imported = client.latch("import/2026-11-22", 2);
/// let waiter = tokio::spawn({ let imported = imported.clone(); async move { imported.wait().await } });
/// assert_eq!(imported.count_down("orders").await?, 1);
/// assert_eq!(imported.count_down("orders").await?, 1); // counts once, however often it is repeated
/// assert_eq!(imported.count_down("customers").await?, 0);
/// waiter.await.expect("the waiter returns")?;
/// # Ok(()) }
/// ```
///
/// The first client that uses it stores the number of parties; a client that names another number gets an error of
/// kind [`ErrorKind::Invalid`]. A party is a text that stays the same when its process is restarted.
///
/// When all parties have counted down, the latch is complete, and all waiters return, also those that come later.
/// [`reset`](Self::reset) begins the next **generation**. A client that may be late, for example after a restart,
/// names the generation that it means ([`of_generation`](Self::of_generation)), so that it cannot count down the
/// next one.
///
/// The store removes a latch that has not changed for its [`ttl`](Self::ttl), complete or not.
#[must_use = "a latch does nothing until it is used; a setter returns the changed latch"]
#[derive(Clone, Debug)]
pub struct Latch {
    client: Client,
    name: Result<Name>,
    parties: u32,
    ttl: Duration,
    generation: Option<u64>,
}

impl Client {
    /// Returns the latch of this name for this many parties: 1 to 1,000. It does no I/O; an invalid name or number is
    /// an error at the first use.
    pub fn latch(&self, name: impl AsRef<str>, parties: u32) -> Latch {
        let name = Name::new(name.as_ref()).map_err(Error::from);
        Latch { client: self.clone(), name, parties, ttl: TTL, generation: None }
    }
}

impl Latch {
    /// Sets how long the store keeps the latch after its last change: 1 s to 30 d, default 24 h.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the generation that this client counts down, waits for and resets. Default: the one that is current when
    /// each call begins. A generation before the current one is complete.
    pub fn of_generation(mut self, generation: u64) -> Self {
        self.generation = Some(generation);
        self
    }

    /// Counts a party, and returns how many are missing then. A party counts once in a generation, so the call may be
    /// repeated after any error; after [`ErrorKind::Unavailable`], name the [generation](Self::of_generation) if the
    /// latch is ever reset. If the future is dropped, the party may be counted.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a party that is not 1 to 64 bytes without control characters, and if the store has
    /// another number of parties, or a lock or a semaphore of this name; [`ErrorKind::Lost`] if the named generation
    /// has expired; [`ErrorKind::Unsupported`] if the engine has no latches; others as [`Lock::status`](crate::Lock::status).
    pub async fn count_down(&self, party: impl AsRef<str>) -> Result<u32> {
        let party = party.as_ref();
        Self::check_party(party).map_err(|error| self.during("count-down", error))?;
        let counted = self
            .change(|latch| latch.count_down(party).map_err(|error| invalid(error.to_string())))
            .await
            .map_err(|error| self.during("count-down", error))?;
        // A generation that was complete before is as good as this one at zero.
        let Some((latch, is_new)) = counted else { return Ok(0) };
        if is_new {
            tracing::debug!(name = ?self.name, party, missing = latch.missing(), "party counted");
            self.client.shared().meters.latch_counted.increment(1);
        }
        Ok(latch.missing())
    }

    /// Checks the name of a party, without the store: 1 to 64 bytes without control characters.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for others.
    pub fn check_party(party: &str) -> Result<()> {
        record::Latch::check_party(party).map_err(|error| invalid(error.to_string()))
    }

    /// Waits until the generation is complete, and returns its number. Returns at once if it is.
    ///
    /// Engines that push changes (all but MySQL, SQLite and quorums) wake all waiters at once; on others a waiter asks every
    /// 20 to 500 ms. While the store cannot be used, it asks again. Dropping the future leaves nothing behind.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if the latch was removed or has expired before it was complete; [`ErrorKind::Closed`] if the
    /// client is closed; `Invalid` and `Unsupported` as [`count_down`](Self::count_down).
    pub async fn wait(&self) -> Result<u64> {
        self.waited(None).await
    }

    /// Waits as [`wait`](Self::wait) does, but at most this long. Zero looks once.
    ///
    /// # Errors
    /// As [`wait`](Self::wait); after the time [`ErrorKind::Timeout`] with the number of missing parties, or the reason
    /// why the store cannot be used.
    pub async fn wait_within(&self, wait: Duration) -> Result<u64> {
        let until = self.client.deadline(Some(wait));
        self.waited(until).await
    }

    /// Begins the generation after this one, which must be complete, and returns its number. A repeated reset of
    /// a named generation changes nothing and returns the same number.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if parties are missing, also if the store has no latch: nothing has changed. Others as [`count_down`](Self::count_down).
    pub async fn reset(&self) -> Result<u64> {
        self.begin_next().await.map_err(|error| self.during("reset", error))
    }

    /// Returns the state of the latch, and creates it if the store has none.
    ///
    /// # Errors
    /// As [`count_down`](Self::count_down).
    pub async fn state(&self) -> Result<LatchState> {
        let stored = self.stored().await.map_err(|error| self.during("latch", error))?;
        Ok(LatchState::of(&stored.latch))
    }

    /// Returns the name, if it is valid.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it is not.
    pub fn name(&self) -> Result<&Name> {
        self.name.as_ref().map_err(Clone::clone)
    }

    fn during(&self, operation: &'static str, error: Error) -> Error {
        error.during(operation, self.name.as_ref().ok())
    }

    async fn begin_next(&self) -> Result<u64> {
        let named = match self.generation {
            Some(generation) => generation,
            None => match self.read().await? {
                Some(stored) => stored.latch.generation(),
                None => {
                    return Err(invalid(format!(
                        "no generation has begun: {0} of {0} parties are missing; wait for them before the reset",
                        self.parties
                    )));
                }
            },
        };
        let incomplete = |missing| {
            invalid(format!(
                "generation {named} is not complete: {missing} of {} parties are missing; wait for them before the reset",
                self.parties
            ))
        };
        let of_this = Self { generation: Some(named), ..self.clone() };
        of_this
            .change(|latch| latch.reset(named).map_err(|error| incomplete(error.missing)))
            .await?;
        Ok(named + 1)
    }

    /// Changes the latch while the generation is current; `step` says whether it has changed anything. Returns what is
    /// stored then, and whether this call has changed it; `None` if the generation was complete before.
    async fn change(
        &self,
        step: impl Fn(&mut record::Latch) -> Result<bool>,
    ) -> Result<Option<(record::Latch, bool)>> {
        let (mut generation, mut pauses) = (self.generation, Backoff::new(PAUSES.0, PAUSES.1));
        loop {
            let Stored { mut latch, bytes } = self.stored().await?;
            let named = *generation.get_or_insert(latch.generation());
            if latch.generation() != named {
                self.judge(&latch, named)?;
                return Ok(None);
            }
            if !step(&mut latch)? {
                return Ok(Some((latch, false)));
            }
            if self.swap(Some(bytes), latch.encode()).await? {
                return Ok(Some((latch, true)));
            }
            // Each failure is a change of another client: they are as many as there are parties.
            self.client.shared().clock.sleep(pauses.next(jitter())).await;
        }
    }

    async fn waited(&self, until: Option<Deadline>) -> Result<u64> {
        let engine = self.client.capability().engine;
        let name = self.name.as_ref().map_or("", Name::as_str);
        let span = tracing::debug_span!("leasehold.latch_wait", name, engine);
        let waited = self.wait_until(until).instrument(span).await;
        waited.map_err(|error| self.during("wait", error))
    }

    async fn wait_until(&self, until: Option<Deadline>) -> Result<u64> {
        let mut changes = LockChanges::of(&self.client, self.name()?);
        let is_pushed = self.client.capability().observe;
        let polls = if is_pushed { (PUSHED, PUSHED) } else { POLLS };
        let (mut generation, mut pauses) = (self.generation, Backoff::new(polls.0, polls.1));
        let Shared { clock, meters, .. } = &**self.client.shared();
        let (start, mut waiting) = (clock.now(), None);
        loop {
            let missing = match self.stored_of(generation).await {
                Ok(latch) => {
                    let named = *generation.get_or_insert(latch.generation());
                    match self.judge(&latch, named)? {
                        0 => {
                            let waited = clock.now().steady_ns.saturating_sub(start.steady_ns);
                            meters.latch_waited(Duration::from_nanos(waited));
                            return Ok(named);
                        }
                        missing => Ok(missing),
                    }
                }
                Err(error) if error.retry() == Retry::Useful && error.kind() != ErrorKind::Lost => {
                    Err(error)
                }
                Err(error) => return Err(error),
            };
            if self.client.shared().is_closed() {
                return Err(closed());
            }
            let left = until.map(|until| until.remaining(clock.now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(
                    missing.map_or_else(|error| error, |missing| timed_out(missing, self.parties))
                );
            }
            waiting.get_or_insert_with(|| Waiting::new(&meters.latch_waiting));
            let pause = pauses.next(jitter());
            changes.within(left.map_or(pause, |left| left.min(pause))).await;
        }
    }

    /// Returns how many parties of a generation are missing.
    fn judge(&self, latch: &record::Latch, generation: u64) -> Result<u32> {
        match latch.round(generation) {
            Round::Open(missing) => Ok(missing),
            Round::Complete => Ok(0),
            Round::Gone => Err(gone(generation)),
            Round::Unknown => Err(invalid(format!(
                "generation {generation} has not begun; the latch is at generation {}",
                latch.generation()
            ))),
        }
    }

    /// Reads the latch for a waiter. One that has seen it does not create it again.
    async fn stored_of(&self, seen: Option<u64>) -> Result<record::Latch> {
        match seen {
            Some(generation) => {
                self.read().await?.map(|stored| stored.latch).ok_or_else(|| gone(generation))
            }
            None => Ok(self.stored().await?.latch),
        }
    }

    /// Reads the latch, and creates it if the store has none and no generation is named.
    async fn stored(&self) -> Result<Stored> {
        loop {
            if let Some(stored) = self.read().await? {
                return Ok(stored);
            }
            if let Some(generation) = self.generation {
                return Err(gone(generation));
            }
            let generation = self.client.shared().clock.now().unix_ms();
            let latch =
                record::Latch::new(self.parties, generation).ok_or_else(|| self.no_parties())?;
            let bytes = latch.encode();
            if self.swap(None, bytes.clone()).await? {
                return Ok(Stored { latch, bytes });
            }
        }
    }

    async fn read(&self) -> Result<Option<Stored>> {
        let name = self.checked()?;
        let shared = self.client.shared();
        let now = shared.clock.now();
        let limit = Deadline::after(now, shared.patience);
        let read = shared.called(now, limit, None, shared.backend.value(name)).await;
        let Some(bytes) = read.unwrap_or_else(|| Err(no_answer()))? else { return Ok(None) };
        let latch = record::Latch::decode(&bytes).map_err(not_a_latch)?;
        if latch.parties() != self.parties {
            return Err(invalid(format!(
                "the latch has {} parties, and this client names {}; use the same number in all clients, or another name",
                latch.parties(),
                self.parties
            )));
        }
        Ok(Some(Stored { latch, bytes }))
    }

    async fn swap(&self, seen: Option<Vec<u8>>, next: Vec<u8>) -> Result<bool> {
        let swap = ValueSwap::new(self.checked()?.clone(), seen, next, self.ttl);
        let shared = self.client.shared();
        let now = shared.clock.now();
        let limit = Deadline::after(now, shared.patience);
        let swapped = shared.called(now, limit, None, shared.backend.swap_value(swap)).await;
        swapped.unwrap_or_else(|| Err(no_answer()))
    }

    fn checked(&self) -> Result<&Name> {
        let name = self.name()?;
        if !(1..=record::Latch::MAX_PARTIES).contains(&self.parties) {
            return Err(self.no_parties());
        }
        if !(TTLS.0..=TTLS.1).contains(&self.ttl) {
            return Err(invalid(format!("ttl: a latch has 1s to 30d, got {:?}", self.ttl)));
        }
        let shared = self.client.shared();
        if shared.is_closed() {
            return Err(closed());
        }
        match shared.capability.latches {
            true => Ok(name),
            false => Err(shared.capability.no_latches()),
        }
    }

    fn no_parties(&self) -> Error {
        let most = record::Latch::MAX_PARTIES;
        invalid(format!("parties: a latch has 1 to {most}, got {}", self.parties))
    }
}

/// A wait that the metrics count, until it ends or is dropped.
struct Waiting<'a>(&'a Gauge);

impl<'a> Waiting<'a> {
    fn new(gauge: &'a Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// A latch as it was read, and its bytes.
struct Stored {
    latch: record::Latch,
    bytes: Vec<u8>,
}

fn gone(generation: u64) -> Error {
    Error::new(
        ErrorKind::Lost,
        format!("generation {generation} of the latch never began, was removed, or has not changed for its ttl; check the number, or begin the work again with a longer ttl"),
    )
    .with_retry(Retry::Useless)
}

fn timed_out(missing: u32, parties: u32) -> Error {
    Error::new(ErrorKind::Timeout, format!("timed out: {missing} of {parties} parties are missing"))
}
