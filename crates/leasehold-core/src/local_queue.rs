//! The local queue of a lock: one task of this process asks the engine or holds, the others wait
//! behind it in memory, in order of arrival.

mod cached;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use leasehold_proto::client::{Mail, PendingAttempt, Silence, Successor};
use leasehold_proto::semaphore::Demand;
use leasehold_proto::{AttemptId, Deadline, Now, Terms};
use tokio::sync::Notify;

use crate::backend::{AcquireRequest, Mode, Origin, mode_of};
use crate::cached_leases::CachedLeases;
use crate::hold::{ByName, Hold};
use crate::table_capacity::{shrink_map, shrink_set};
use crate::{Error, Name, OnLoss};

pub(crate) use cached::TakenCached;

/// The number of tables, so that threads rarely wait for each other. A power of two.
const TABLES: usize = 16;

/// The local queues of a client, one for each name. A queue exists only while a task is in it.
#[derive(Debug, Default)]
pub(crate) struct LocalQueues {
    /// By the hash of the name.
    tables: [Apart<Mutex<Table>>; TABLES],
    hasher: RandomState,
    /// How many tasks stand behind the front of a queue.
    behind: Arc<AtomicUsize>,
    /// How many leases are cached.
    cached: AtomicUsize,
    /// How many leases have been cached so far.
    releases: AtomicU64,
}

/// A value in memory of its own: what a thread changes here slows no other thread down.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// Queues by name; each name is in one of the first two maps, or in none.
#[derive(Debug, Default)]
struct Table {
    /// Queues in which a task asks or waits, or for which a client outside waits.
    busy: HashMap<Name, LocalQueue, RandomState>,
    /// Locks that are held without waiters. There may be very many, so each takes one word.
    quiet: HashSet<ByName, RandomState>,
    /// The leases that no task holds.
    cached: CachedLeases,
    /// No messages arrive, so no lease is cached.
    deaf: bool,
}

#[derive(Debug)]
struct LocalQueue {
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
    waiter: Option<Arc<LocalWaiter>>,
}

/// The other callers that want the lock.
#[derive(Debug, Default)]
struct Crowd {
    /// The tasks behind the front, by number of arrival.
    behind: BTreeMap<u64, Arc<LocalWaiter>>,
    arrivals: u64,
    /// The steady time since which a client outside this process is known to wait for the front's
    /// lease.
    wanted_ns: Option<u64>,
}

/// A waiting task, and its inbox.
#[derive(Debug)]
pub(crate) struct LocalWaiter {
    pub(crate) bell: Notify,
    inbox: Mutex<Inbox>,
    pub(crate) wish: Wish,
}

/// What the task asks for.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) mode: Mode,
    /// For a permit: how many slots, and the limit that the caller expects.
    pub(crate) demand: Option<Demand>,
    pub(crate) terms: Terms,
    pub(crate) fair: bool,
    pub(crate) origin: Arc<Origin>,
    pub(crate) on_loss: OnLoss,
    /// It takes no lease over from another task, and passes none on.
    pub(crate) alone: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// The task has moved to the front.
    pub(crate) turn: Option<Handover>,
    /// The messages for its attempt.
    pub(crate) mail: Mail<Error>,
}

/// Where a new task stands in the queue.
#[derive(Debug)]
pub(crate) enum Entered {
    /// At the front, where it asks the engine.
    Front,
    /// Behind others: the number of its arrival, from 1 on.
    Behind(u64),
    /// At the front, with a lease that was cached until now in its inbox.
    Cached,
}

/// What is done with the message that a client outside waits.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// The task that asks or holds knows it.
    Told,
    /// No task holds the lease: it must be given back now.
    Cached(Arc<Hold>),
    /// No task is known to ask or hold with the attempt.
    Unknown,
}

/// What became of a lease whose holder released it.
#[derive(Debug)]
pub(crate) enum Released<T> {
    /// The next task has its turn.
    Next(T),
    /// The lease is cached until this time. Another one is not cached any more, since the table is full.
    Cached(Deadline, Option<Arc<Hold>>),
    /// The queue has ended.
    Gone,
}

/// What a task takes over when it moves to the front.
#[derive(Debug)]
pub(crate) enum Handover {
    /// Nothing: it asks. The engine may have been silent to the earlier tasks for some time.
    Ask(Option<Silence<Error>>),
    /// An attempt that the engine knows: it continues that attempt.
    Attempt(Box<EngineRequest>),
    /// The lease of a local holder that released it.
    Lease(Arc<Hold>),
    /// A read lease of another task, which it shares from now on.
    Join(Arc<Hold>),
}

/// An attempt, and what it asks for.
#[derive(Clone, Debug)]
pub(crate) struct EngineRequest {
    pub(crate) request: AcquireRequest,
    pub(crate) pending: PendingAttempt,
    /// The engine is silent.
    pub(crate) silence: Option<Silence<Error>>,
}

impl LocalQueues {
    /// Locks the table of a name.
    fn lock(&self, name: &Name) -> MutexGuard<'_, Table> {
        let Apart(table) = &self.tables[self.hasher.hash_one(name) as usize % TABLES];
        table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the tables one after the other.
    fn lock_each(&self) -> impl Iterator<Item = MutexGuard<'_, Table>> {
        self.tables.iter().map(|Apart(table)| table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the shared counter of the tasks behind the front of a queue.
    pub(crate) fn behind(&self) -> Arc<AtomicUsize> {
        self.behind.clone()
    }

    /// Joins the queue. A task at the front then draws an attempt id and calls [`ask`](Self::ask).
    /// Other tasks do not wait for the draw, which is a call to the kernel. Also returns a read lease that a task has
    /// cached just now, which must be given back.
    pub(crate) fn enter(
        &self,
        name: &Name,
        waiter: &Arc<LocalWaiter>,
    ) -> (Entered, Option<Arc<Hold>>) {
        let mut queues = self.lock(name);
        let cached = self.uncache(&mut queues, |cached| cached.take(name));
        match cached {
            Some(hold) if mode_of(hold.attempt) == Mode::Exclusive => {
                (Self::enter_cached(&mut queues, hold, waiter), None)
            }
            read => (self.enter_behind(&mut queues, name, waiter), read),
        }
    }

    /// Another task has cached the lease just now: this one is its next holder.
    fn enter_cached(queues: &mut Table, hold: Arc<Hold>, waiter: &Arc<LocalWaiter>) -> Entered {
        let queue = LocalQueue::led_by(Some(hold.attempt), Some(waiter.clone()));
        queues.busy.insert(hold.name.clone(), queue);
        waiter.inbox().turn = Some(Handover::Lease(hold));
        Entered::Cached
    }

    fn enter_behind(&self, queues: &mut Table, name: &Name, waiter: &Arc<LocalWaiter>) -> Entered {
        let Some(queue) = queues.queue(name) else {
            queues.busy.insert(name.clone(), LocalQueue::led_by(None, Some(waiter.clone())));
            return Entered::Front;
        };
        let crowd = queue.crowd();
        crowd.arrivals += 1;
        crowd.behind.insert(crowd.arrivals, waiter.clone());
        self.behind.fetch_add(1, Ordering::Relaxed);
        Entered::Behind(crowd.arrivals)
    }

    /// Leaves the queue. Returns false if the task has been moved to the front already; its inbox
    /// then contains its turn.
    pub(crate) fn leave(&self, name: &Name, number: u64) -> bool {
        let mut queues = self.lock(name);
        let crowd = queues.busy.get_mut(name).and_then(|queue| queue.crowd.as_mut());
        let left = crowd.is_some_and(|crowd| crowd.behind.remove(&number).is_some());
        self.behind.fetch_sub(usize::from(left), Ordering::Relaxed);
        left
    }

    /// Records that the front asks with another attempt.
    pub(crate) fn ask(&self, name: &Name, attempt: AttemptId) {
        if let Some(queue) = self.lock(name).busy.get_mut(name) {
            queue.front.attempt = Some(attempt);
        }
    }

    /// Records that the front holds. `wanted`: a client outside waits for the lease. It may have
    /// waited since an earlier time. A lease that bypassed the queue leads it only if there is no
    /// queue.
    pub(crate) fn hold(&self, hold: &Arc<Hold>, wanted: bool, now: Now) {
        let (name, attempt) = (&hold.name, hold.attempt);
        let mut wanted_ns = wanted.then_some(now.steady_ns);
        let mut queues = self.lock(name);
        if let Some(queue) = queues.busy.get_mut(name) {
            if queue.front.attempt != Some(attempt) {
                return;
            }
            // The message may have arrived since the task read its mail.
            let waiter = queue.front.waiter.take();
            if waiter.is_some_and(|waiter| waiter.inbox().mail.wanted) {
                wanted_ns = Some(now.steady_ns);
            }
            queue.want(wanted_ns);
            if queue.crowd.is_some() {
                return;
            }
            queues.busy.remove(name);
            shrink_map(&mut queues.busy);
        }
        // An existing entry stays as it is.
        if !queues.quiet.contains(name) {
            queues.quiet.insert(ByName(hold.clone()));
            if let Some(since_ns) = wanted_ns {
                queues.queue(name).into_iter().for_each(|queue| queue.want(Some(since_ns)));
            }
        }
    }

    /// Returns true if a task of this process asks or waits for the lock.
    pub(crate) fn is_awaited(&self, name: &Name) -> bool {
        self.lock(name).is_awaited(name)
    }

    /// Returns the lease of this client that leads the queue, if any.
    pub(crate) fn holder(&self, name: &Name) -> Option<AttemptId> {
        let queues = self.lock(name);
        if let Some(ByName(hold)) = queues.quiet.get(name) {
            return Some(hold.attempt);
        }
        queues.busy.get(name).filter(|queue| queue.front.waiter.is_none())?.front.attempt
    }

    /// Records that the front lost its lease: the next task asks. A task that has not yet taken
    /// over a lease that was lost on the way detects that itself.
    pub(crate) fn lost(&self, name: &Name, attempt: AttemptId) {
        let holds = |front: &Front| front.attempt == Some(attempt) && front.waiter.is_none();
        self.advance(name, holds, |_, _| (Handover::Ask(None), ()), |_| None);
    }

    /// Removes the front with this attempt (`None`: it has not asked). `turn` chooses what the next
    /// task takes over, knows whether a client outside waits, and returns another value. Returns
    /// `None` if that attempt does not lead the queue, or no task is behind it; the queue then
    /// ends.
    pub(crate) fn next<T>(
        &self,
        name: &Name,
        attempt: Option<AttemptId>,
        turn: impl FnOnce(&Wish, Option<u64>) -> (Handover, T),
    ) -> Option<T> {
        match self.advance(name, |front| front.attempt == attempt, turn, |_| None) {
            Released::Next(value) => Some(value),
            Released::Cached(..) | Released::Gone => None,
        }
    }

    /// Does the same for a holder that releases its lease. If no task is behind it, `cache` decides
    /// whether the client keeps the lease, and until when; it knows whether a client outside waits.
    pub(crate) fn release<T>(
        &self,
        name: &Name,
        attempt: AttemptId,
        turn: impl FnOnce(&Wish, Option<u64>) -> (Handover, T),
        cache: impl FnOnce(bool) -> Option<(Arc<Hold>, Deadline)>,
    ) -> Released<T> {
        self.advance(name, |front| front.attempt == Some(attempt), turn, cache)
    }

    fn advance<T>(
        &self,
        name: &Name,
        goes: impl FnOnce(&Front) -> bool,
        turn: impl FnOnce(&Wish, Option<u64>) -> (Handover, T),
        cache: impl FnOnce(bool) -> Option<(Arc<Hold>, Deadline)>,
    ) -> Released<T> {
        let mut queues = self.lock(name);
        if let Some(ByName(hold)) = queues.quiet.get(name) {
            if goes(&Front { attempt: Some(hold.attempt), waiter: None }) {
                queues.quiet.remove(name);
                shrink_set(&mut queues.quiet);
                return self.cache(queues, || cache(false));
            }
            return Released::Gone;
        }
        let Some(queue) = queues.busy.get_mut(name).filter(|queue| goes(&queue.front)) else {
            return Released::Gone;
        };
        let first = queue.crowd.as_mut().and_then(|crowd| crowd.behind.pop_first());
        let Some((_, waiter)) = first else {
            let wanted = queue.crowd.as_ref().is_some_and(|crowd| crowd.wanted_ns.is_some());
            queues.busy.remove(name);
            shrink_map(&mut queues.busy);
            return self.cache(queues, || cache(wanted));
        };
        self.behind.fetch_sub(1, Ordering::Relaxed);
        let wanted_ns = &mut queue.crowd().wanted_ns;
        let (turn, besides) = turn(&waiter.wish, *wanted_ns);
        if !matches!(turn, Handover::Lease(_)) {
            *wanted_ns = None;
        }
        queue.front.attempt = match &turn {
            Handover::Ask(_) => None,
            Handover::Attempt(engine_request) => Some(engine_request.request.attempt),
            Handover::Lease(hold) | Handover::Join(hold) => Some(hold.attempt),
        };
        queue.front.waiter = Some(waiter.clone());
        waiter.inbox().turn = Some(turn); // Before the lock on the queue ends: the task may be leaving.
        drop(queues);
        waiter.bell.notify_one();
        Released::Next(besides)
    }

    /// Sends a message to the front that asks. Returns false if that attempt does not ask (any
    /// more).
    pub(crate) fn tell(
        &self,
        name: &Name,
        attempt: AttemptId,
        message: impl FnOnce(&mut Mail<Error>),
    ) -> bool {
        let queues = self.lock(name);
        let front = queues.busy.get(name).map(|queue| &queue.front);
        let front = front.filter(|front| front.attempt == Some(attempt));
        let Some(waiter) = front.and_then(|front| front.waiter.as_ref()) else { return false };
        waiter.leave(message); // Before the lock on the queue ends: the front may change.
        true
    }

    /// Records that the lock may be free: the front asks again.
    pub(crate) fn freed(&self, name: &Name) {
        if let Some(waiter) =
            self.lock(name).busy.get(name).and_then(|queue| queue.front.waiter.as_ref())
        {
            waiter.leave(|mail| mail.ask_again = true);
        }
    }

    /// Records that a client outside waits for what the front asks for or holds, or takes out the
    /// lease if it is cached.
    pub(crate) fn wanted(&self, name: &Name, attempt: AttemptId, now: Now) -> Wanted {
        let mut queues = self.lock(name);
        if let Some(hold) = self.uncache(&mut queues, |cached| cached.take_of(name, attempt)) {
            return Wanted::Cached(hold);
        }
        let queue = queues.queue(name).filter(|queue| queue.front.attempt == Some(attempt));
        let Some(queue) = queue else { return Wanted::Unknown };
        match &queue.front.waiter {
            Some(waiter) => waiter.inbox().mail.wanted = true, // It has nothing to do yet.
            None => queue.want(Some(now.steady_ns)),
        }
        Wanted::Told
    }

    /// Records that the connection to the engine is broken: asking tasks start their timeout.
    pub(crate) fn broken(&self, now: Now) {
        for queues in self.lock_each() {
            for waiter in queues.busy.values().filter_map(|queue| queue.front.waiter.as_ref()) {
                waiter.leave(|mail| mail.broken = Some(now));
            }
        }
    }

    /// Records that messages may have been missed: asking tasks ask again, and holders may have
    /// waiters. The engine may have lost its data too. Leases may be cached again.
    pub(crate) fn reset(&self, now: Now) {
        self.lock_each().for_each(|mut queues| queues.reset(now));
    }

    /// Wakes every task: the client has been closed.
    pub(crate) fn ring_all(&self) {
        for queues in self.lock_each() {
            for queue in queues.busy.values() {
                let behind = queue.crowd.iter().flat_map(|crowd| crowd.behind.values());
                behind.chain(&queue.front.waiter).for_each(|waiter| waiter.bell.notify_one());
            }
        }
    }

    /// Returns how many tasks wait or ask, and in how many queues.
    pub(crate) fn count(&self) -> (usize, usize) {
        let behind =
            |queue: &LocalQueue| queue.crowd.as_ref().map_or(0, |crowd| crowd.behind.len());
        let waiting =
            |queue: &LocalQueue| behind(queue) + usize::from(queue.front.waiter.is_some());
        self.lock_each().fold((0, 0), |counts, table| {
            table.busy.values().map(waiting).fold(counts, |(all, queues), waiting| {
                (all + waiting, queues + usize::from(waiting > 0))
            })
        })
    }
}

impl Table {
    fn is_awaited(&self, name: &Name) -> bool {
        let behind =
            |queue: &LocalQueue| queue.crowd.as_ref().is_some_and(|crowd| !crowd.behind.is_empty());
        self.busy.get(name).is_some_and(|queue| queue.front.waiter.is_some() || behind(queue))
    }

    fn reset(&mut self, now: Now) {
        self.deaf = false;
        let quiet: Vec<ByName> = self.quiet.drain().collect();
        quiet.into_iter().for_each(|ByName(hold)| self.rouse(&hold));
        shrink_set(&mut self.quiet);
        for queue in self.busy.values_mut() {
            match &queue.front.waiter {
                Some(waiter) => {
                    let passed = matches!(waiter.inbox().turn, Some(Handover::Lease(_)));
                    waiter.leave(|mail| {
                        (mail.ask_again, mail.wanted) = (true, mail.wanted || passed)
                    });
                }
                None => queue.want(Some(now.steady_ns)),
            }
        }
    }

    /// Returns the queue of a name; a quiet lock becomes busy.
    fn queue(&mut self, name: &Name) -> Option<&mut LocalQueue> {
        if let Some(ByName(hold)) = self.quiet.take(name) {
            self.rouse(&hold);
        }
        self.busy.get_mut(name)
    }

    fn rouse(&mut self, hold: &Hold) {
        self.busy.insert(hold.name.clone(), LocalQueue::led_by(Some(hold.attempt), None));
    }
}

impl LocalQueue {
    fn led_by(attempt: Option<AttemptId>, waiter: Option<Arc<LocalWaiter>>) -> Self {
        Self { front: Front { attempt, waiter }, crowd: None }
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

impl LocalWaiter {
    pub(crate) fn new(wish: Wish) -> Self {
        Self { bell: Notify::new(), inbox: Mutex::default(), wish }
    }

    pub(crate) fn leave(&self, message: impl FnOnce(&mut Mail<Error>)) {
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
