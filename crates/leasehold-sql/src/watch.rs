//! Looks for those who wait: whether their turn has come, and whether somebody waits for what this
//! client holds. One packet for all of them, when the server has told us to look or the time has come.

mod see;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::backend::{Ask, Event, EventSink};
use leasehold_core::{AttemptId, ClientId, Deadline, Name, Now};
use tokio::sync::Notify;

use crate::store::Store;
use crate::told::Lost;

/// How long one look may take.
const LIMIT: Duration = Duration::from_secs(5);
/// Where nobody tells us: the shortest and longest pause between two looks of one who waits. The
/// pause grows with the time waited, and stays well below the time of an offer.
const WAITING: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(400));
/// A database that is slow to answer is looked at less often: the pause is so many times what the
/// look took, as long as that is below [`UNHURRIED`].
const REST: u32 = 8;
/// No pause has to be longer than this for the database's sake.
const UNHURRIED: Duration = Duration::from_millis(10);
/// The same for one who holds.
const HOLDING: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// The pause is this part of the time waited.
const GROWTH: u64 = 8;
/// Where the server tells us: a look in spite of it.
const SLOW: Duration = Duration::from_secs(5);
/// First and longest pause after an error.
const ERRORS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// How often those who wait are said to be alive.
const REFRESH: Duration = Duration::from_secs(10);
/// Names in one statement.
const NAMES: usize = 250;

/// What is looked after.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) store: Arc<Store>,
    state: Mutex<State>,
    bell: Notify,
    /// The server tells us.
    listening: AtomicBool,
    /// A task of this client waits: it is worth listening.
    pub(crate) wanted: Notify,
}

#[derive(Debug, Default)]
struct State {
    client: Option<(ClientId, EventSink)>,
    waiting: HashMap<AttemptId, Name>,
    /// Attempts of ours for whose lease others are known to wait.
    waited_for: HashSet<AttemptId>,
    /// When the last one began to wait.
    waits_since: Now,
    /// This client holds something, since and until when.
    holds: Option<(Now, Deadline)>,
    /// Tasks of this client waited for what it holds when that was looked at last.
    crowded: bool,
    /// When those who wait were last said to be alive.
    refreshed: Option<Now>,
    broken: bool,
}

/// What a look is for.
struct Look {
    client: ClientId,
    events: EventSink,
    waiting: HashMap<AttemptId, Name>,
    holds: bool,
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
        }
    }

    pub(crate) fn attach(&self, client: ClientId, events: EventSink) {
        self.lock().client.get_or_insert((client, events));
    }

    pub(crate) fn client(&self) -> Option<ClientId> {
        self.lock().client.as_ref().map(|(client, _)| *client)
    }

    /// True when it waits, as far as is known here.
    pub(crate) fn waits(&self, attempt: AttemptId) -> bool {
        self.lock().waiting.contains_key(&attempt)
    }

    /// An attempt waits from now on.
    pub(crate) fn enter(&self, ask: &Ask) {
        let now = self.store.clock.now();
        let mut state = self.lock();
        if state.waiting.insert(ask.attempt, ask.name.clone()).is_none() {
            state.waits_since = now;
            drop(state);
            self.wanted.notify_one();
            self.look();
        }
    }

    /// An attempt waits no more.
    pub(crate) fn leave(&self, attempt: AttemptId) {
        self.lock().waiting.remove(&attempt);
    }

    /// Others wait for the lease of this attempt.
    pub(crate) fn note_waited_for(&self, attempt: AttemptId) {
        self.lock().waited_for.insert(attempt);
    }

    /// An attempt ends: true when others are known to wait for its lease.
    pub(crate) fn end(&self, attempt: AttemptId) -> bool {
        let mut state = self.lock();
        state.waiting.remove(&attempt);
        state.waited_for.remove(&attempt)
    }

    /// This client has a lease for so long, and others may wait for it.
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
            self.bell.notify_one();
        }
    }

    /// An operator has ended a lease of this client.
    pub(crate) fn lose(&self, Lost { attempt, base }: Lost) {
        if let Some((_, events)) = &self.lock().client {
            events.send(Event::Lost { attempt, base });
        }
    }

    /// The server has sent a message: `word` may say more than that there is something to see.
    #[cfg(feature = "postgres")]
    pub(crate) fn hear(&self, word: &str) {
        if let Some(lost) = Lost::parse(word) {
            self.lose(lost);
        }
        self.look();
    }

    /// There may be something to see.
    pub(crate) fn look(&self) {
        self.bell.notify_one();
    }

    /// The server tells us from now on, or does not any more.
    pub(crate) fn listens(&self, listening: bool) {
        self.listening.store(listening, Ordering::Relaxed);
        self.look();
    }

    /// True while a task of this client waits, at the database or for what the client holds: then the
    /// server's word is worth a connection.
    #[cfg(feature = "postgres")]
    pub(crate) fn is_worth_listening(&self) -> bool {
        let now = self.store.clock.now();
        let state = self.lock();
        !state.waiting.is_empty() || state.is_crowded(now)
    }

    /// Looks until nobody needs it any more.
    pub(crate) async fn run(self: Arc<Self>) {
        let clock = self.store.clock.clone();
        let mut failed = ERRORS.0;
        let mut look_at: Option<Deadline> = None;
        loop {
            let now = clock.now();
            let check_at = self.next_check(now).map(|pause| Deadline::after(now, pause));
            let wake_at =
                [look_at, check_at].into_iter().flatten().min_by_key(|at| at.remaining(now));
            let rung = clock.within(wake_at, self.bell.notified()).await.is_some();
            let due = look_at.is_some_and(|at| at.has_passed(clock.now()));
            if !self.is_crowded_anew() && !rung && !due {
                continue;
            }
            let Some(look) = self.begin() else {
                look_at = None;
                continue;
            };
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
                    tracing::debug!(%error, "cannot look after those who wait");
                    self.broken(&look);
                    failed = (failed * 2).min(ERRORS.1);
                    Some(failed)
                }
            };
            look_at = pause.map(|pause| Deadline::after(now, pause));
        }
    }

    /// When to see whether tasks of this client have begun to wait for what it holds; the database is
    /// not asked for that.
    fn next_check(&self, now: Now) -> Option<Duration> {
        let state = self.lock();
        let (since, _) = state.holds.filter(|(_, until)| !until.has_passed(now))?;
        (!state.crowded).then(|| self.adaptive(now, since, HOLDING, Duration::ZERO))
    }

    /// True when tasks of this client wait for what it holds, and did not when this was asked last.
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
        let (client, events) = state.client.clone()?;
        let lasts = state.holds.is_some_and(|(_, until)| !until.has_passed(now));
        let holds = state.is_crowded(now);
        if state.waiting.is_empty() {
            state.refreshed = None;
        }
        if !lasts {
            state.holds = None;
        }
        if state.waiting.is_empty() && !holds && !state.broken {
            if !lasts {
                state.waited_for.clear();
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
        let waiting = state.waiting.clone();
        Some(Look { client, events, waiting, holds, refresh })
    }

    /// How long to wait for the bell, after a look that took so long. Clients that look by themselves
    /// do not do so in step.
    fn pause(&self, now: Now, took: Duration, next_end: Option<Duration>) -> Option<Duration> {
        let state = self.lock();
        let listening = self.listening.load(Ordering::Relaxed);
        let waits = match state.waiting.is_empty() {
            true => None,
            false if listening => Some(SLOW),
            false => Some(self.adaptive(now, state.waits_since, WAITING, took)),
        };
        let holds = state.holds.filter(|_| state.is_crowded(now) && !listening);
        let holds = holds.map(|(since, _)| self.adaptive(now, since, HOLDING, took));
        let next_end = next_end.map(|end| end + Duration::from_millis(1));
        waits.into_iter().chain(holds).chain(next_end).min()
    }

    /// A pause that grows with the time since then, after a look that took so long.
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
    /// The client holds something, and tasks of its own wait for it. Only then may it pass a lease on
    /// without asking the database, and has to know of others' waiters.
    fn is_crowded(&self, now: Now) -> bool {
        let lasts = self.holds.is_some_and(|(_, until)| !until.has_passed(now));
        lasts && self.client.as_ref().is_some_and(|(_, events)| events.local_waiters())
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
