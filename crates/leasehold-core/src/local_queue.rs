//! The local queue of a lock: one task of this process asks the engine or holds, the others wait
//! behind it in memory, in order of arrival.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use leasehold_proto::client::{Mail, PendingAttempt, Silence, Successor};
use leasehold_proto::{AttemptId, Now, Terms};
use tokio::sync::Notify;

use crate::backend::{Ask, Origin};
use crate::hold::{ByName, Hold};
use crate::room::{give_places_back, give_room_back};
use crate::{Error, Name};

/// The local queues of a client, one for each name. A queue exists only while a task is in it.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    table: Mutex<Table>,
    /// How many tasks stand behind the front of a queue.
    behind: Arc<AtomicUsize>,
}

/// The queues by name; each name is in one of the two maps.
#[derive(Debug, Default)]
struct Table {
    /// Queues in which a task asks or waits, or for which a client outside waits.
    busy: HashMap<Name, Line, RandomState>,
    /// Locks that are held without waiters. There may be very many, so each takes one word.
    quiet: HashSet<ByName, RandomState>,
}

#[derive(Debug)]
struct Line {
    front: Front,
    /// In a box, since the front is usually alone.
    crowd: Option<Box<Crowd>>,
}

/// The task that asks the engine, or holds a lease that may be handed off.
#[derive(Debug)]
struct Front {
    /// The attempt at the engine; `None` if the front has not asked.
    attempt: Option<AttemptId>,
    /// Where it receives messages of the engine and of the previous front; `None` once it holds.
    slot: Option<Arc<Slot>>,
}

/// The other callers that want the lock.
#[derive(Debug, Default)]
struct Crowd {
    /// The tasks behind the front, by number of arrival.
    behind: BTreeMap<u64, Arc<Slot>>,
    arrivals: u64,
    /// The steady time since which a client outside this process is known to wait for the front's
    /// lease.
    wanted_ns: Option<u64>,
}

/// A waiting task, and its inbox.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) bell: Notify,
    inbox: Mutex<Inbox>,
    pub(crate) wish: Wish,
}

/// What the task asks for.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) terms: Terms,
    pub(crate) fair: bool,
    pub(crate) origin: Arc<Origin>,
}

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// The task has moved to the front.
    pub(crate) turn: Option<Turn>,
    /// The messages for its attempt.
    pub(crate) mail: Mail<Error>,
}

/// Where a new task stands in the queue.
#[derive(Debug)]
pub(crate) enum Entered {
    /// At the front, where it asks the engine.
    Front,
    /// Behind others: the number of its arrival.
    Behind(u64),
}

/// What a task takes over when it moves to the front.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Nothing: it asks. The engine may have been silent to the earlier tasks for some time.
    Ask(Option<Silence<Error>>),
    /// An attempt that the engine knows: it continues that attempt.
    Attempt(Box<Pursuit>),
    /// The lease of a local holder that released it.
    Lease(Arc<Hold>),
}

/// An attempt, and what it asks for.
#[derive(Clone, Debug)]
pub(crate) struct Pursuit {
    pub(crate) ask: Ask,
    pub(crate) pending: PendingAttempt,
    /// The engine is silent.
    pub(crate) silence: Option<Silence<Error>>,
}

impl Lines {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the shared counter of the tasks behind the front of a queue.
    pub(crate) fn behind(&self) -> Arc<AtomicUsize> {
        self.behind.clone()
    }

    /// Joins the queue. A task at the front then draws an attempt id and calls [`ask`](Self::ask).
    /// Other tasks do not wait for the draw, which is a call to the kernel.
    pub(crate) fn enter(&self, name: &Name, slot: &Arc<Slot>) -> Entered {
        let mut lines = self.lock();
        let Some(line) = lines.line(name) else {
            lines.busy.insert(name.clone(), Line::led_by(None, Some(slot.clone())));
            return Entered::Front;
        };
        let crowd = line.crowd();
        crowd.arrivals += 1;
        crowd.behind.insert(crowd.arrivals, slot.clone());
        self.behind.fetch_add(1, Ordering::Relaxed);
        Entered::Behind(crowd.arrivals)
    }

    /// Leaves the queue. Returns false if the task has been moved to the front already; its inbox
    /// then contains its turn.
    pub(crate) fn leave(&self, name: &Name, number: u64) -> bool {
        let mut lines = self.lock();
        let crowd = lines.busy.get_mut(name).and_then(|line| line.crowd.as_mut());
        let left = crowd.is_some_and(|crowd| crowd.behind.remove(&number).is_some());
        self.behind.fetch_sub(usize::from(left), Ordering::Relaxed);
        left
    }

    /// Records that the front asks with another attempt.
    pub(crate) fn ask(&self, name: &Name, attempt: AttemptId) {
        if let Some(line) = self.lock().busy.get_mut(name) {
            line.front.attempt = Some(attempt);
        }
    }

    /// Records that the front holds. A client outside has waited since `wanted_ns`, or since an
    /// earlier time. A lease that bypassed the queue leads it only if there is no queue.
    pub(crate) fn hold(&self, hold: &Arc<Hold>, wanted_ns: Option<u64>) {
        let (name, attempt) = (&hold.name, hold.attempt);
        let mut lines = self.lock();
        if let Some(line) = lines.busy.get_mut(name) {
            if line.front.attempt != Some(attempt) {
                return;
            }
            line.front.slot = None;
            line.want(wanted_ns);
            if line.crowd.is_some() {
                return;
            }
            lines.busy.remove(name);
            give_room_back(&mut lines.busy);
        }
        // An existing entry stays as it is.
        if !lines.quiet.contains(name) {
            lines.quiet.insert(ByName(hold.clone()));
            if let Some(since_ns) = wanted_ns {
                lines.line(name).into_iter().for_each(|line| line.want(Some(since_ns)));
            }
        }
    }

    /// Returns the lease of this client that leads the queue, if any.
    pub(crate) fn holder(&self, name: &Name) -> Option<AttemptId> {
        let lines = self.lock();
        if let Some(ByName(hold)) = lines.quiet.get(name) {
            return Some(hold.attempt);
        }
        lines.busy.get(name).filter(|line| line.front.slot.is_none())?.front.attempt
    }

    /// Records that the front lost its lease: the next task asks. A task that has not yet taken
    /// over a lease that was lost on the way detects that itself.
    pub(crate) fn lost(&self, name: &Name, attempt: AttemptId) {
        let holds = |front: &Front| front.attempt == Some(attempt) && front.slot.is_none();
        self.advance(name, holds, |_, _| (Turn::Ask(None), ()));
    }

    /// Removes the front with this attempt (`None`: it has not asked). `turn` chooses what the next
    /// task takes over, knows whether a client outside waits, and returns another value. Returns
    /// `None` if that attempt does not lead the queue, or no task is behind it; the queue then
    /// ends.
    pub(crate) fn next<T>(
        &self,
        name: &Name,
        attempt: Option<AttemptId>,
        turn: impl FnOnce(&Wish, Option<u64>) -> (Turn, T),
    ) -> Option<T> {
        self.advance(name, |front| front.attempt == attempt, turn)
    }

    fn advance<T>(
        &self,
        name: &Name,
        goes: impl FnOnce(&Front) -> bool,
        turn: impl FnOnce(&Wish, Option<u64>) -> (Turn, T),
    ) -> Option<T> {
        let mut lines = self.lock();
        if let Some(ByName(hold)) = lines.quiet.get(name) {
            if goes(&Front { attempt: Some(hold.attempt), slot: None }) {
                lines.quiet.remove(name);
                give_places_back(&mut lines.quiet);
            }
            return None;
        }
        let line = lines.busy.get_mut(name).filter(|line| goes(&line.front))?;
        let first = line.crowd.as_mut().and_then(|crowd| crowd.behind.pop_first());
        let Some((_, slot)) = first else {
            lines.busy.remove(name);
            give_room_back(&mut lines.busy);
            return None;
        };
        self.behind.fetch_sub(1, Ordering::Relaxed);
        let wanted_ns = &mut line.crowd().wanted_ns;
        let (turn, besides) = turn(&slot.wish, *wanted_ns);
        if !matches!(turn, Turn::Lease(_)) {
            *wanted_ns = None;
        }
        line.front.attempt = match &turn {
            Turn::Ask(_) => None,
            Turn::Attempt(pursuit) => Some(pursuit.ask.attempt),
            Turn::Lease(hold) => Some(hold.attempt),
        };
        line.front.slot = Some(slot.clone());
        slot.inbox().turn = Some(turn); // Before the lock on the queue ends: the task may be leaving.
        drop(lines);
        slot.bell.notify_one();
        Some(besides)
    }

    /// Sends a message to the front that asks. Returns false if that attempt does not ask (any
    /// more).
    pub(crate) fn tell(
        &self,
        name: &Name,
        attempt: AttemptId,
        message: impl FnOnce(&mut Mail<Error>),
    ) -> bool {
        let lines = self.lock();
        let front = lines.busy.get(name).map(|line| &line.front);
        let front = front.filter(|front| front.attempt == Some(attempt));
        let Some(slot) = front.and_then(|front| front.slot.as_ref()) else { return false };
        slot.leave(message); // Before the lock on the queue ends: the front may change.
        true
    }

    /// Records that the lock may be free: the front asks again.
    pub(crate) fn freed(&self, name: &Name) {
        if let Some(slot) = self.lock().busy.get(name).and_then(|line| line.front.slot.as_ref()) {
            slot.leave(|mail| mail.ask = true);
        }
    }

    /// Records that a client outside waits for what the front asks for or holds. Returns false if
    /// that attempt is not at the front.
    pub(crate) fn wanted(&self, name: &Name, attempt: AttemptId, now: Now) -> bool {
        let mut lines = self.lock();
        let line = lines.line(name).filter(|line| line.front.attempt == Some(attempt));
        let Some(line) = line else { return false };
        line.want(Some(now.steady_ns));
        true
    }

    /// Records that the connection to the engine is broken: asking tasks start their timeout.
    pub(crate) fn broken(&self, now: Now) {
        for slot in self.lock().busy.values().filter_map(|line| line.front.slot.as_ref()) {
            slot.leave(|mail| mail.broken = Some(now));
        }
    }

    /// Records that messages may have been missed: asking tasks ask again, and holders may have
    /// waiters.
    pub(crate) fn reset(&self, now: Now) {
        let mut lines = self.lock();
        let quiet: Vec<ByName> = lines.quiet.drain().collect();
        quiet.into_iter().for_each(|ByName(hold)| lines.rouse(&hold));
        give_places_back(&mut lines.quiet);
        for line in lines.busy.values_mut() {
            match &line.front.slot {
                Some(slot) => slot.leave(|mail| mail.ask = true),
                None => line.want(Some(now.steady_ns)),
            }
        }
    }

    /// Wakes every task: the client has been closed.
    pub(crate) fn ring_all(&self) {
        for line in self.lock().busy.values() {
            let behind = line.crowd.iter().flat_map(|crowd| crowd.behind.values());
            behind.chain(&line.front.slot).for_each(|slot| slot.bell.notify_one());
        }
    }

    /// Returns how many tasks wait or ask, and in how many queues.
    pub(crate) fn count(&self) -> (usize, usize) {
        let lines = self.lock();
        let behind = |line: &Line| line.crowd.as_ref().map_or(0, |crowd| crowd.behind.len());
        let waiting = |line: &Line| behind(line) + usize::from(line.front.slot.is_some());
        lines
            .busy
            .values()
            .map(waiting)
            .fold((0, 0), |(all, lines), waiting| (all + waiting, lines + usize::from(waiting > 0)))
    }
}

impl Table {
    /// Returns the queue of a name; a quiet lock becomes busy.
    fn line(&mut self, name: &Name) -> Option<&mut Line> {
        if let Some(ByName(hold)) = self.quiet.take(name) {
            self.rouse(&hold);
        }
        self.busy.get_mut(name)
    }

    fn rouse(&mut self, hold: &Hold) {
        self.busy.insert(hold.name.clone(), Line::led_by(Some(hold.attempt), None));
    }
}

impl Line {
    fn led_by(attempt: Option<AttemptId>, slot: Option<Arc<Slot>>) -> Self {
        Self { front: Front { attempt, slot }, crowd: None }
    }

    fn crowd(&mut self) -> &mut Crowd {
        self.crowd.get_or_insert_default()
    }

    /// Records that a client outside has waited since this time, or since an earlier time.
    fn want(&mut self, since_ns: Option<u64>) {
        if let Some(since_ns) = since_ns {
            self.crowd().wanted_ns.get_or_insert(since_ns);
        }
    }
}

impl Slot {
    pub(crate) fn new(wish: Wish) -> Self {
        Self { bell: Notify::new(), inbox: Mutex::default(), wish }
    }

    fn leave(&self, message: impl FnOnce(&mut Mail<Error>)) {
        message(&mut self.inbox().mail);
        self.bell.notify_one();
    }

    pub(crate) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wish {
    /// Returns what decides whether a lease can be handed to a task with this wish.
    pub(crate) fn successor(&self) -> Successor {
        Successor { terms: self.terms, fair: self.fair }
    }

    /// Returns true if an attempt for one wish can be used for the other.
    pub(crate) fn is_served_by(&self, other: &Self) -> bool {
        self.terms.ttl == other.terms.ttl
            && self.terms.session == other.terms.session
            && self.fair == other.fair
            && self.origin == other.origin
    }
}
