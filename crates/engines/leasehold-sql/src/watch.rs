//! Polls for waiters: whether their turn has come, and whether clients wait for what this client
//! holds. One packet serves all of them, after a message of the server or after a pause.

mod hurry;
mod permits;
mod poll;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, Changes, Event, EventSink, Mode};
use leasehold_core::proto::client::PushReference;
#[cfg(feature = "postgres")]
use leasehold_core::proto::client::Sound;
use leasehold_core::proto::handoff::OFFER;
use leasehold_core::{AttemptId, ClientId, Deadline, Name, Now};
use tokio::sync::Notify;

use crate::notifications::Lost;
#[cfg(feature = "postgres")]
use crate::notifications::Offered;
use crate::observed::Observed;
use crate::release::Known;
use crate::store::Store;
use hurry::Contended;
#[cfg(feature = "postgres")]
use poll::Granted;

/// How long one poll may take.
const LIMIT: Duration = Duration::from_secs(5);
/// Without messages of the server: the shortest and longest pause between two polls of a waiter.
/// The pause grows with the time waited, and stays well below the time of an offer.
const WAITING: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(400));
/// A slow database is polled less often: the pause is this many times the duration of the poll, as
/// long as that is below [`UNHURRIED`].
const REST: u32 = 8;
/// No pause must be longer than this to protect the database.
const UNHURRIED: Duration = Duration::from_millis(10);
/// The same for a holder.
const HOLDING: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// A client that reads for this long polls for writers that wait, since its tasks may join its
/// lease without end.
const READING: Duration = Duration::from_millis(10);
/// A client that reads for this long listens for messages of the server.
#[cfg(feature = "postgres")]
const READING_LONG: Duration = Duration::from_secs(1);
/// The pause is this part of the time waited.
const GROWTH: u64 = 8;
/// The pause between polls if the server also notifies waiters. The database cannot detect that a
/// waiter has died, so it may offer the lease to a dead waiter, and it notifies only the next
/// waiter of an offer. A later waiter detects the end of that offer by polling.
const SLOW: Duration = OFFER;
/// The first and longest pause after an error.
const ERRORS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// How often waiters are marked as alive.
const REFRESH: Duration = Duration::from_secs(10);
/// After so many releases without a waiter in sequence, a lock is not contended any more.
const CALM: u8 = 4;
/// How many contended names a client remembers.
const CONTENDED: usize = 256;
/// How many names one statement contains.
const NAMES: usize = 250;

/// The state that the polling needs.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) store: Arc<Store>,
    state: Mutex<State>,
    bell: Notify,
    /// The server notifies this client.
    listening: AtomicBool,
    /// A local task waits: listening is useful.
    pub(crate) wanted: Notify,
    pub(crate) observed: Observed,
    /// A name is observed, or the server notifies this client from now on, or not any more.
    pub(crate) observer_bell: Notify,
}

#[derive(Debug, Default)]
struct State {
    client: Option<(ClientId, EventSink)>,
    waiting: HashMap<AttemptId, Name>,
    /// What the times of messages to those that wait are counted from.
    references: HashMap<AttemptId, PushReference>,
    /// How many messages were about an attempt that does not wait, as far as this client knew.
    unknown: u64,
    /// When to poll.
    due: Option<Deadline>,
    /// The names for which a task waited lately.
    contended: HashMap<Name, Contended>,
    /// Local attempts for whose lease other clients are known to wait.
    waited_for: HashSet<AttemptId>,
    /// Local attempts that wait to read or read, and since when they read.
    reads: HashMap<AttemptId, Option<Now>>,
    /// Local attempts that wait for a permit, and for how many slots.
    permits: HashMap<AttemptId, u32>,
    /// When the last waiter began to wait.
    waits_since: Now,
    /// This client holds something: since when and until when.
    holds: Option<(Now, Deadline)>,
    /// At the last check, local tasks waited for what this client holds, or this client read.
    crowded: bool,
    /// When the waiters were last marked as alive.
    refreshed: Option<Now>,
    broken: bool,
}

/// An attempt that has only queued: a poll finds nothing before the holder's lease ends, if the server notifies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quiet {
    /// How long that lease lasts.
    pub(crate) lasts: Duration,
    /// How many messages were about unknown attempts before the request: a later one may have been about this one.
    pub(crate) unknown: u64,
}

/// What a poll must find.
struct Look {
    client: ClientId,
    events: EventSink,
    waiting: HashMap<AttemptId, Name>,
    /// The attempts among them that wait to read.
    reads: HashSet<AttemptId>,
    /// Those that wait for a permit, and for how many slots.
    permits: HashMap<AttemptId, (Name, u32)>,
    /// Local tasks wait for what this client holds.
    holds: bool,
    /// This client reads.
    reading: bool,
    refresh: bool,
}

impl Watch {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            state: Mutex::default(),
            bell: Notify::new(),
            listening: AtomicBool::new(false),
            wanted: Notify::new(),
            observed: Observed::default(),
            observer_bell: Notify::new(),
        }
    }

    pub(crate) fn attach(&self, client: ClientId, events: EventSink) {
        self.lock().client.get_or_insert((client, events));
    }

    pub(crate) fn client(&self) -> Option<ClientId> {
        self.lock().client.as_ref().map(|(client, _)| *client)
    }

    /// Returns true if the attempt waits, as far as this client knows.
    pub(crate) fn waits(&self, attempt: AttemptId) -> bool {
        self.lock().waiting.contains_key(&attempt)
    }

    /// Returns how many messages were about an attempt that was not known to wait.
    pub(crate) fn unknown(&self) -> u64 {
        self.lock().unknown
    }

    /// Adds an attempt that waits from now on, with what the times of messages to it are counted from.
    pub(crate) fn enter(
        &self,
        request: &AcquireRequest,
        reference: Option<PushReference>,
        quiet: Option<Quiet>,
    ) {
        let now = self.store.clock.now();
        let mut state = self.lock();
        if request.mode == Mode::Shared {
            state.reads.insert(request.attempt, None);
        }
        if let Some(demand) = request.demand {
            state.permits.insert(request.attempt, demand.slots());
        }
        if let Some(reference) = reference {
            state.references.insert(request.attempt, reference);
        }
        let new = state.waiting.insert(request.attempt, request.name.clone()).is_none();
        if new {
            state.waits_since = now;
        }
        if state.contended.len() >= CONTENDED {
            state.contended.clear();
        }
        let contended = state.contended.entry(request.name.clone()).or_default();
        contended.calm = CALM;
        // Otherwise the answer may have handed the lease to an earlier waiter: poll for its end.
        let quiet = quiet.filter(|quiet| self.is_listening() && quiet.unknown == state.unknown);
        let pause = quiet.map_or(Duration::ZERO, |quiet| quiet.lasts.min(SLOW));
        state.look_at(Deadline::after(now, pause));
        drop(state);
        if new {
            self.wanted.notify_one();
        }
        self.bell.notify_one();
    }

    /// Returns true if clients waited for this lock lately, as far as this client knows.
    pub(crate) fn is_contended(&self, name: &Name) -> bool {
        self.lock().contended.contains_key(name)
    }

    /// Records that a local waiter has its turn.
    fn note_turn(&self, name: &Name) {
        let now = self.store.clock.now();
        self.lock().note_turn(name, now);
    }

    /// Records that a lease was released for which no client waited.
    pub(crate) fn note_calm(&self, name: &Name) {
        let mut state = self.lock();
        let Some(Contended { calm, .. }) = state.contended.get_mut(name) else { return };
        *calm -= 1;
        if *calm == 0 {
            state.contended.remove(name);
        }
    }

    /// Removes an attempt that does not wait any more.
    pub(crate) fn leave(&self, attempt: AttemptId) {
        self.lock().leave(attempt);
    }

    /// Records that other clients wait for the lease of this attempt.
    pub(crate) fn note_waited_for(&self, attempt: AttemptId) {
        self.lock().waited_for.insert(attempt);
    }

    /// Removes an attempt that ends. Returns what is known of it.
    pub(crate) fn end(&self, attempt: AttemptId) -> Known {
        let mut state = self.lock();
        state.leave(attempt);
        let reads = state.reads.remove(&attempt).is_some();
        Known { waited_for: state.waited_for.remove(&attempt), reads }
    }

    /// Removes an attempt that got nothing.
    pub(crate) fn forget(&self, attempt: AttemptId) {
        let mut state = self.lock();
        state.leave(attempt);
        state.reads.remove(&attempt);
    }

    /// Returns the attempts that read or wait to read.
    pub(crate) fn reads(&self) -> HashSet<AttemptId> {
        self.lock().reads.keys().copied().collect()
    }

    /// Records that this attempt reads for this long, and that writers may come to wait.
    pub(crate) fn read(&self, attempt: AttemptId, ttl: Duration) {
        let now = self.store.clock.now();
        self.lock().reads.insert(attempt, Some(now));
        self.hold(ttl);
    }

    /// Records that this client holds a lease for this long, for which others may wait.
    pub(crate) fn hold(&self, ttl: Duration) {
        let now = self.store.clock.now();
        let until = Deadline::after(now, ttl);
        let mut state = self.lock();
        let lasts = state.holds.filter(|(_, until)| !until.has_passed(now));
        state.holds = Some(match lasts {
            Some((since, before)) => (since, before.max(until)),
            None => (now, until),
        });
        if lasts.is_none() {
            drop(state);
            self.look();
        }
    }

    /// Reports that an operator has ended a lease of this client.
    pub(crate) fn lose(&self, Lost { attempt, base }: Lost) {
        if let Some((_, events)) = &self.lock().client {
            events.send(Event::Lost { attempt, base });
        }
    }

    /// Handles a message of the server: `word` may contain more than a request to poll.
    #[cfg(feature = "postgres")]
    pub(crate) fn hear(&self, word: &str) {
        if let Some(lost) = Lost::parse(word) {
            self.lose(lost);
        }
        if word.starts_with('C') {
            return self.observed.hear(word);
        }
        match Offered::parse(word) {
            Some(offered) => self.hear_offer(offered),
            None => self.look(),
        }
    }

    /// Handles a message about a lease that a waiter holds. If it is unknown until when, a poll tells it.
    #[cfg(feature = "postgres")]
    fn hear_offer(&self, offered: Offered) {
        let Offered { attempt, server_us, tokens, lasts, wanted } = offered;
        let now = self.store.clock.now();
        let mut state = self.lock();
        let Some(name) = state.waiting.get(&attempt).cloned() else {
            state.unknown += 1;
            return;
        };
        let reference = state.references.get(&attempt);
        let until = reference.and_then(|at| at.valid_until(server_us, lasts, now, Sound));
        let (Some(until), Some((_, events))) = (until, state.client.clone()) else {
            drop(state);
            return self.look();
        };
        let reads = state.reads.contains_key(&attempt);
        drop(state);
        let granted = Granted { attempt, tokens, lasts, until, wanted };
        self.tell_grant(&events, reads, name, granted);
    }

    /// Polls soon.
    pub(crate) fn look(&self) {
        let now = self.store.clock.now();
        self.lock().look_at(Deadline::after(now, Duration::ZERO));
        self.bell.notify_one();
    }

    /// Records whether the server notifies this client.
    #[cfg(feature = "postgres")]
    pub(crate) fn listens(&self, listening: bool) {
        self.listening.store(listening, Ordering::Relaxed);
        self.look();
        self.observer_bell.notify_one();
    }

    /// Returns true while the server notifies this client.
    pub(crate) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed)
    }

    /// Returns what the later changes of a name mark.
    pub(crate) fn observe(&self, name: &Name) -> Changes {
        let changes = self.observed.observe(name);
        self.wanted.notify_one();
        self.observer_bell.notify_one();
        changes
    }

    /// Returns true while a local task waits, at the database or for what this client holds, or has
    /// read for some time: then a listening connection is useful.
    #[cfg(feature = "postgres")]
    pub(crate) fn is_worth_listening(&self) -> bool {
        let now = self.store.clock.now();
        if self.observed.is_some() {
            return true;
        }
        let state = self.lock();
        !state.waiting.is_empty() || state.hands_on(now) || state.reads_for(now, READING_LONG)
    }

    /// Polls until no task needs it any more.
    pub(crate) async fn run(self: Arc<Self>) {
        let clock = self.store.clock.clone();
        let mut failed = ERRORS.0;
        loop {
            let now = clock.now();
            let check_at = self.next_check(now).map(|pause| Deadline::after(now, pause));
            let look_at = self.lock().due;
            let wake_at =
                [look_at, check_at].into_iter().flatten().min_by_key(|at| at.remaining(now));
            // A timer that has passed already would fire at the next millisecond.
            if wake_at.is_none_or(|at| !at.has_passed(now)) {
                clock.within(wake_at, self.bell.notified()).await;
            }
            let due = self.lock().due.is_some_and(|at| at.has_passed(clock.now()));
            if !self.is_crowded_anew() && !due {
                continue;
            }
            let Some(look) = self.begin() else { continue };
            let sent = clock.now();
            let seen = self.see(&look, sent).await;
            let now = clock.now();
            let pause = match seen {
                Ok(next_end) => {
                    failed = ERRORS.0;
                    self.recovered(&look.events);
                    let took = now.steady_ns.saturating_sub(sent.steady_ns);
                    self.pause(now, Duration::from_nanos(took), next_end)
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot poll for the waiters");
                    self.broken(&look);
                    failed = (failed * 2).min(ERRORS.1);
                    Some(failed)
                }
            };
            if let Some(pause) = pause {
                self.lock().look_at(Deadline::after(now, pause));
            }
        }
    }

    /// Returns when to check whether local tasks wait for what this client holds; that needs no
    /// packet.
    fn next_check(&self, now: Now) -> Option<Duration> {
        let state = self.lock();
        let (since, _) = state.holds.filter(|(_, until)| !until.has_passed(now))?;
        (!state.crowded).then(|| self.adaptive(now, since, HOLDING, Duration::ZERO))
    }

    /// Returns true if other clients' waiters concern this client, and did not at the last check.
    fn is_crowded_anew(&self) -> bool {
        let now = self.store.clock.now();
        let mut state = self.lock();
        let crowded = state.is_crowded(now);
        let before = std::mem::replace(&mut state.crowded, crowded);
        let anew = crowded && !before;
        if anew {
            self.wanted.notify_one();
        }
        anew
    }

    fn begin(&self) -> Option<Look> {
        let now = self.store.clock.now();
        let mut state = self.lock();
        state.due = None;
        let (client, events) = state.client.clone()?;
        let lasts = state.holds.is_some_and(|(_, until)| !until.has_passed(now));
        let (holds, reading) = (state.hands_on(now), state.reads_for(now, READING));
        if state.waiting.is_empty() {
            state.refreshed = None;
        }
        if !lasts {
            state.holds = None;
        }
        if state.waiting.is_empty() && !holds && !reading && !state.broken {
            if !lasts {
                state.waited_for.clear();
                state.reads.retain(|_, since| since.is_none());
            }
            return None;
        }
        let due = |last: Now| now.steady_ns.saturating_sub(last.steady_ns) >= nanos(REFRESH);
        let refresh = match state.refreshed {
            _ if state.waiting.is_empty() => false,
            Some(last) => due(last),
            None => {
                state.refreshed = Some(now);
                false
            }
        };
        if refresh {
            state.refreshed = Some(now);
        }
        let mut waiting = state.waiting.clone();
        let of_permit = |(attempt, slots): (&AttemptId, &u32)| {
            Some((*attempt, (waiting.remove(attempt)?, *slots)))
        };
        let permits = state.permits.iter().filter_map(of_permit).collect();
        let reads = waiting.keys().filter(|attempt| state.reads.contains_key(attempt));
        let reads = reads.copied().collect();
        Some(Look { client, events, waiting, reads, permits, holds, reading, refresh })
    }

    /// Returns how long to wait for the bell, after a poll of this duration. The pauses of clients
    /// that poll differ at random.
    fn pause(&self, now: Now, took: Duration, next_end: Option<Duration>) -> Option<Duration> {
        let state = self.lock();
        let listening = self.listening.load(Ordering::Relaxed);
        #[cfg(feature = "postgres")]
        if !listening && state.reads_for(now, READING_LONG) {
            self.wanted.notify_one();
        }
        let waits = match state.waiting.is_empty() {
            true => None,
            false if listening => Some(SLOW),
            false if !self.store.tables.dialect.is_file() && state.hurries(now) => {
                Some(Duration::ZERO)
            }
            false => Some(self.adaptive(now, state.waits_since, WAITING, took)),
        };
        let holds = state.holds.filter(|_| state.is_crowded(now) && !listening);
        let holds = holds.map(|(since, _)| self.adaptive(now, since, HOLDING, took));
        let next_end = next_end.map(|end| end + Duration::from_millis(1));
        waits.into_iter().chain(holds).chain(next_end).min()
    }

    /// Returns a pause that grows with the time since then, after a poll of this duration.
    fn adaptive(
        &self,
        now: Now,
        since: Now,
        (shortest, longest): (Duration, Duration),
        took: Duration,
    ) -> Duration {
        let waited = Duration::from_nanos(now.steady_ns.saturating_sub(since.steady_ns) / GROWTH);
        let shortest = (took * REST).min(UNHURRIED).max(shortest);
        let pause = waited.clamp(shortest, longest);
        pause - pause.mul_f64(f64::from(self.store.stamp() as u8) / 1024.0)
    }

    fn recovered(&self, events: &EventSink) {
        if std::mem::replace(&mut self.lock().broken, false) {
            events.send(Event::Reset);
        }
    }

    fn broken(&self, look: &Look) {
        if !std::mem::replace(&mut self.lock().broken, true) {
            look.events.send(Event::Broken);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Polls at this time, or earlier.
    fn look_at(&mut self, at: Deadline) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Removes an attempt that does not wait any more.
    fn leave(&mut self, attempt: AttemptId) {
        self.waiting.remove(&attempt);
        self.references.remove(&attempt);
        self.permits.remove(&attempt);
    }

    /// Returns true if other clients' waiters concern this client.
    fn is_crowded(&self, now: Now) -> bool {
        self.hands_on(now) || self.reads_for(now, READING)
    }

    /// Returns true if this client holds something that local tasks wait for. Then it may hand a
    /// lease on without the database, and must know other clients' waiters.
    fn hands_on(&self, now: Now) -> bool {
        self.lasts(now) && self.client.as_ref().is_some_and(|(_, events)| events.local_waiters())
    }

    /// Returns true if this client has read for this long, and knows of no writer that waits.
    fn reads_for(&self, now: Now, long: Duration) -> bool {
        let reads = |(attempt, since): (&AttemptId, &Option<Now>)| {
            let long_since =
                |since: Now| now.steady_ns.saturating_sub(since.steady_ns) >= nanos(long);
            since.is_some_and(long_since) && !self.waited_for.contains(attempt)
        };
        self.lasts(now) && self.reads.iter().any(reads)
    }

    fn lasts(&self, now: Now) -> bool {
        self.holds.is_some_and(|(_, until)| !until.has_passed(now))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, feature = "sqlite"))]
#[path = "watch/idle_tests.rs"]
#[allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]
mod idle_tests;
