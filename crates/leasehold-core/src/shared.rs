//! The state that the handles of a client share with its background task.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use leasehold_proto::client::Mail;
use leasehold_proto::{AttemptId, ClientId, Deadline, LossReason, Now};
use tokio::sync::{Notify, Semaphore};

use crate::backend::{Backend, Mode, Origin, mode_of, with_mode};
use crate::clock::Clock;
use crate::hold::{ByAttempt, Hold};
use crate::late_releases::LateReleases;
use crate::local_queue::{LocalQueues, Wanted, Wish};
use crate::permit_waiters::PermitWaiters;
use crate::read_leases::ReadLeases;
use crate::table_capacity::shrink_set;
use crate::telemetry::{Meters, label};
use crate::timer_buckets::Buckets;
use crate::{Capability, Error, Name, OnLoss, random};

/// How many tasks of one client look for the holder at the same time, after a timeout.
const LOOKS: usize = 8;
/// The bit in the random part of an attempt that marks it as outside the local queue.
const PAST: u32 = 1;
/// The end of the cached leases if there are none.
const NO_END: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) capability: Capability,
    pub(crate) clock: Clock,
    pub(crate) client: ClientId,
    pub(crate) origin: Arc<Origin>,
    /// For how long leases are cached, unless the lock says otherwise.
    pub(crate) cache: Duration,
    /// How long an operation continues without an answer of the backend.
    pub(crate) patience: Duration,
    /// The same for an operation that does not wait for the lock.
    pub(crate) try_patience: Duration,
    /// Limits the looks for the holders that error messages name; further timeouts name no holder.
    pub(crate) looks: Semaphore,
    /// Ends attempts without the runtime of this client.
    pub(crate) late: LateReleases,
    /// The tasks that want to hold alone.
    pub(crate) queues: LocalQueues,
    /// The tasks that want to read and must ask the engine.
    pub(crate) read_queues: LocalQueues,
    /// The tasks that want a permit of a semaphore.
    pub(crate) permit_waiters: PermitWaiters,
    /// The leases that tasks read under.
    pub(crate) reading: ReadLeases,
    /// Tasks of this process may hand leases to each other: the engine reserves tokens for them.
    pub(crate) passes: bool,
    pub(crate) meters: Meters,
    /// Wakes the background task when its next timer has become earlier.
    pub(crate) wake: Notify,
    /// The client was closed, or its background task has ended.
    closed: AtomicBool,
    /// The background task has ended: no task renews any more.
    pub(crate) ended: AtomicBool,
    sequence: AtomicU32,
    /// No cached lease is given back before this time on the steady clock.
    cached_end: AtomicU64,
    held: Mutex<Held>,
}

/// The held locks and when each is due.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) by_attempt: HashSet<ByAttempt, RandomState>,
    pub(crate) buckets: Buckets,
    /// Lost leases that programs still rely on until their clean-up ends.
    lost: Vec<(AttemptId, Deadline)>,
    /// The steady time until which the background task sleeps; `None` if it sleeps without end.
    pub(crate) asleep_until: Option<u64>,
}

/// What a client holds and waits for; all fields are zero when nothing is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// The number of locks that it holds.
    pub held: usize,
    /// The number of leases that it has [cached](crate::Lock::cache).
    pub cached: usize,
    /// The number of attempts that have sent a request or wait at the engine.
    pub waiting: usize,
    /// The number of names for which tasks of this client are queued.
    pub queues: usize,
}

impl Held {
    /// Adds a hold, and replaces a hold of the same attempt.
    fn enter(&mut self, hold: &Arc<Hold>) {
        if let Some(ByAttempt(before)) = self.by_attempt.replace(ByAttempt(hold.clone())) {
            before.booked.store(false, Ordering::Relaxed);
            self.buckets.unschedule(&before);
        }
        hold.booked.store(true, Ordering::Relaxed);
    }

    /// Returns the current hold of the attempt that this hold belonged to.
    pub(crate) fn now_held(&self, hold: &Arc<Hold>) -> Option<Arc<Hold>> {
        match self.has(hold) {
            true => Some(hold.clone()),
            false => self.held_by(hold.attempt),
        }
    }

    fn held_by(&self, attempt: AttemptId) -> Option<Arc<Hold>> {
        self.by_attempt.get(&attempt).map(|ByAttempt(hold)| hold.clone())
    }

    /// Returns all held locks.
    pub(crate) fn all(&self) -> Vec<Arc<Hold>> {
        self.by_attempt.iter().map(|ByAttempt(hold)| hold.clone()).collect()
    }

    /// Returns true if the background task must wake up earlier than planned.
    fn is_nearer(&mut self, cached_end: u64) -> bool {
        let next = self.next_due(cached_end);
        let nearer = next.is_some_and(|next| self.asleep_until.is_none_or(|at| next < at));
        if nearer {
            self.asleep_until = next;
        }
        nearer
    }

    /// Returns when the background task has something to do; `cached_end` is that of the client.
    pub(crate) fn next_due(&self, cached_end: u64) -> Option<u64> {
        let cached_end = (cached_end != NO_END).then_some(cached_end);
        self.buckets.next().into_iter().chain(cached_end).min()
    }

    fn note_lost(&mut self, attempt: AttemptId, until: Deadline, now: Now) {
        // Make room only when there is none: many leases may be lost at once.
        if self.lost.len() == self.lost.capacity() {
            self.lost.retain(|(_, until)| !until.has_passed(now));
        }
        self.lost.push((attempt, until));
    }

    /// Returns true while a program may rely on a lease of this attempt.
    fn is_relied_on(&self, attempt: AttemptId, now: Now) -> bool {
        let relied = |&(lost, until): &(_, Deadline)| lost == attempt && !until.has_passed(now);
        self.by_attempt.contains(&attempt) || self.lost.iter().any(relied)
    }

    fn has(&self, hold: &Hold) -> bool {
        hold.booked.load(Ordering::Relaxed)
    }
}

impl Shared {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        clock: Clock,
        client: ClientId,
        (patience, try_patience): (Duration, Duration),
        cache: Duration,
        late: LateReleases,
    ) -> Self {
        let capability = backend.capability().clone();
        Self {
            meters: Meters::new(capability.engine),
            passes: capability.token_blocks && capability.rotate,
            capability,
            backend,
            clock,
            client,
            origin: Arc::new(Origin::new(host(), std::process::id(), None)),
            cache,
            patience,
            try_patience,
            looks: Semaphore::new(LOOKS),
            late,
            queues: LocalQueues::default(),
            read_queues: LocalQueues::default(),
            permit_waiters: PermitWaiters::default(),
            reading: ReadLeases::default(),
            wake: Notify::new(),
            closed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            sequence: AtomicU32::new(0),
            cached_end: AtomicU64::new(NO_END),
            held: Mutex::default(),
        }
    }

    /// Creates an attempt in the local queue: `queues` knows it until it is held or ended.
    pub(crate) fn new_attempt(&self, mode: Mode) -> AttemptId {
        self.attempt(random::fresh() as u32 & !PAST, mode)
    }

    /// Does the same for a caller that has just read the clock.
    pub(crate) fn new_attempt_at(&self, now: Now, mode: Mode) -> AttemptId {
        self.attempt(random::fresh_at(now) as u32 & !PAST, mode)
    }

    /// Creates an attempt outside the queue. Before it is held, only its caller knows it.
    pub(crate) fn new_attempt_past(&self, mode: Mode) -> AttemptId {
        self.attempt(random::fresh() as u32 | PAST, mode)
    }

    /// Sends a message to the task that asks with an attempt. Returns false if none does (any more).
    pub(crate) fn tell(
        &self,
        name: &Name,
        attempt: AttemptId,
        message: impl FnOnce(&mut Mail<Error>),
    ) -> bool {
        match mode_of(attempt) {
            Mode::Permit => self.permit_waiters.tell(attempt, message),
            mode => self.queues_of(mode).tell(name, attempt, message),
        }
    }

    /// Records that a lock, or slots of a semaphore, may be free: the tasks that wait ask again.
    pub(crate) fn freed(&self, name: &Name) {
        self.queues.freed(name);
        self.read_queues.freed(name);
        self.permit_waiters.freed(name);
    }

    /// Records that the connection to the engine is broken: tasks that ask start their timeout. No
    /// lease is cached until [`reset`](Self::reset), since no message would arrive. Returns the leases
    /// that were, which must be given back.
    pub(crate) fn broken(&self, now: Now) -> Vec<Arc<Hold>> {
        let cached = self.queues.deafen();
        self.read_queues.broken(now);
        self.permit_waiters.broken(now);
        self.queues.broken(now);
        cached
    }

    /// Records that messages may have been missed: tasks that ask send their requests again. Returns the
    /// leases that were cached, which must be given back.
    pub(crate) fn reset(&self, now: Now) -> Vec<Arc<Hold>> {
        // In this order: no lease that was held before is cached after it.
        let cached = self.queues.deafen();
        self.reading.miss();
        self.queues.reset(now);
        self.read_queues.reset(now);
        self.permit_waiters.reset();
        cached
    }

    /// Returns the local queues of the attempts of a mode. No attempt for a permit is in one.
    pub(crate) fn queues_of(&self, mode: Mode) -> &LocalQueues {
        match mode {
            Mode::Exclusive | Mode::Permit => &self.queues,
            Mode::Shared => &self.read_queues,
        }
    }

    /// Joins a read lease of another task, if there is one that fits.
    pub(crate) fn join(&self, name: &Name, wish: &Wish, now: Now) -> Option<Arc<Hold>> {
        match wish.mode {
            Mode::Exclusive | Mode::Permit => None,
            Mode::Shared => self.reading.join(name, wish, now, self.queues.is_awaited(name)),
        }
    }

    /// Adds a guard that shares a hold. Returns false if the hold is over.
    pub(crate) fn share(&self, hold: &Hold, now: Now) -> bool {
        match mode_of(hold.attempt) {
            Mode::Exclusive | Mode::Permit => hold.share(now),
            Mode::Shared => self.reading.share(hold, now),
        }
    }

    /// Removes a guard of a hold. Returns true for the last one, which must end the lease.
    pub(crate) fn leave(&self, hold: &Hold) -> bool {
        match mode_of(hold.attempt) {
            Mode::Exclusive | Mode::Permit => hold.leave(),
            Mode::Shared => self.reading.leave(hold),
        }
    }

    /// Records that a client outside waits for what this attempt asks for or holds.
    pub(crate) fn wanted(&self, name: &Name, attempt: AttemptId) -> Wanted {
        // Both: the front of the read queue may be a task that shares this lease already.
        let queued = self.queues_of(mode_of(attempt)).wanted(name, attempt, self.clock.now());
        if let Wanted::Cached(_) = queued {
            return queued;
        }
        // Read leases are cached in the same step in which they leave the table of readers.
        match self.queues.take_cached_or(name, attempt, || self.reading.wanted(name, attempt)) {
            Ok(cached) => Wanted::Cached(cached),
            Err(true) => Wanted::Told,
            Err(false) => queued,
        }
    }

    /// Records that the client has cached a lease, until this time.
    pub(crate) fn cached(&self, mode: Mode, until: Deadline) {
        let end = until.steady_ns();
        // Most are used again before any is given back, so the table of holds stays unlocked.
        if self.cached_end.fetch_min(end, Ordering::SeqCst) > end
            && self.is_nearer(&mut self.held())
        {
            self.wake.notify_one();
        }
        self.meters.of(mode).held.decrement(1.0);
        self.meters.cached.increment(1.0);
    }

    /// Records that a cached lease is none any more: a task has it, or it ends.
    pub(crate) fn uncached(&self, mode: Mode) {
        self.meters.cached.decrement(1.0);
        self.meters.of(mode).held.increment(1.0);
    }

    /// Takes out the cached leases whose time has passed, and notes when to look again.
    pub(crate) fn take_due_cached(&self, now: Now) -> Vec<Arc<Hold>> {
        // In this order: a lease that is cached meanwhile sets an earlier time.
        self.cached_end.store(NO_END, Ordering::SeqCst);
        let (due, next) = self.queues.take_due_cached(now);
        self.cached_end.fetch_min(next.unwrap_or(NO_END), Ordering::SeqCst);
        due
    }

    /// Returns the time on the steady clock before which no cached lease is given back, or [`NO_END`].
    pub(crate) fn cached_end(&self) -> u64 {
        self.cached_end.load(Ordering::SeqCst)
    }

    /// Returns true if the background task must wake up earlier than planned.
    fn is_nearer(&self, held: &mut Held) -> bool {
        held.is_nearer(self.cached_end())
    }

    /// Creates an attempt. Its random part is always drawn, since a copy of this process has the
    /// same client id and sequence number.
    fn attempt(&self, random: u32, mode: Mode) -> AttemptId {
        let random = with_mode(random, mode);
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        AttemptId::new(self.client, sequence, random)
    }

    /// Returns true if an attempt that is not at the front of its queue belongs to no task: it was
    /// ended.
    pub(crate) fn is_stray(&self, attempt: AttemptId) -> bool {
        attempt.client() == self.client
            && attempt.random() & PAST == 0
            && !self.held().is_relied_on(attempt, self.clock.now())
    }

    /// Waits for a call to the backend, within the limits `patience` and `until`; returns `None` at
    /// the limit. `now` has just been read.
    pub(crate) async fn called<T>(
        &self,
        now: Now,
        patience: Deadline,
        until: Option<Deadline>,
        call: impl Future<Output = T>,
    ) -> Option<T> {
        let sure =
            self.capability.answers_within.is_some_and(|time| time <= patience.remaining(now));
        if sure && until.is_none() {
            return Some(call.await);
        }
        let limit = until.map_or(patience, |until| until.min(patience));
        self.clock.within_since(now, limit, call).await
    }

    /// Returns the lock that is held by an attempt.
    pub(crate) fn held_by(&self, attempt: AttemptId) -> Option<Arc<Hold>> {
        self.held().held_by(attempt)
    }

    /// Locks the table of holds. A caller that has this may lock leases; a caller that has locked a
    /// lease must not call this.
    pub(crate) fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a new hold to those that the background task renews.
    pub(crate) fn look_after(&self, hold: &Arc<Hold>) {
        let nearer = {
            let mut held = self.held();
            held.enter(hold);
            held.buckets.schedule(hold);
            self.is_nearer(&mut held)
        };
        self.meters.begins(hold.mode(), hold.slots());
        if self.ended.load(Ordering::Acquire) && !hold.lease().terms().session {
            self.lose(hold, LossReason::ClientClosed);
        }
        if nearer {
            self.wake.notify_one();
        }
    }

    /// Records that the backend has extended a lease to `ttl` from when it was asked. Returns false if
    /// the lease is over.
    pub(crate) fn extended(&self, hold: &Arc<Hold>, sent: Now, ttl: Duration) -> bool {
        let (extended, nearer) = {
            let mut held = self.held();
            let extended = hold.lease().handle_extended(sent, self.clock.now(), ttl, jitter());
            if held.has(hold) {
                held.buckets.schedule(hold);
            }
            (extended, self.is_nearer(&mut held))
        };
        if nearer {
            self.wake.notify_one();
        }
        extended
    }

    /// Makes a hold the front of its queue, unless it was lost just now.
    pub(crate) fn lead(&self, hold: &Arc<Hold>, wanted: bool, now: Now) {
        self.queues.hold(hold, wanted, now);
        if hold.lease().loss().is_some() {
            self.queues.lost(&hold.name, hold.attempt);
        }
    }

    /// Removes a hold; its renewal stops. Returns false if it was not in the table (any more), or
    /// another holder has taken over its lease.
    pub(crate) fn forget(&self, hold: &Hold) -> bool {
        let mut held = self.held();
        if !held.has(hold) {
            return false;
        }
        hold.booked.store(false, Ordering::Relaxed);
        held.buckets.unschedule(hold);
        held.by_attempt.remove(&hold.attempt);
        shrink_set(&mut held.by_attempt);
        self.meters.ends(hold.mode(), hold.slots());
        true
    }

    /// Replaces the hold whose lease this hold took over. Returns false if that lease was lost.
    pub(crate) fn take_over(&self, from: &Hold, hold: &Arc<Hold>) -> bool {
        let mut held = self.held();
        if !held.has(from) {
            return false;
        }
        from.booked.store(false, Ordering::Relaxed);
        held.buckets.take_over(from, hold);
        held.enter(hold);
        let nearer = self.is_nearer(&mut held);
        drop(held);
        if nearer {
            self.wake.notify_one();
        }
        self.meters.local.increment(1);
        true
    }

    /// Marks a hold as lost and notifies its guards, once. Does the same for a holder that took
    /// over its lease just now.
    pub(crate) fn lose(&self, hold: &Hold, reason: LossReason) {
        // No guard relies on a cached lease.
        if let Some(cached) = self.queues.take_cached_of(&hold.name, hold.attempt) {
            self.uncached(cached.mode());
            cached.lose(reason);
            self.forget(&cached);
            return;
        }
        if hold.lose(reason) {
            self.tell_loss(hold, reason);
        }
        let heir = self.held_by(hold.attempt);
        if let Some(heir) = heir.filter(|heir| !std::ptr::eq(&raw const **heir, hold)) {
            self.lose(&heir, reason);
        }
    }

    /// Reports a loss that the lease machine has just detected.
    pub(crate) fn tell_loss(&self, hold: &Hold, reason: LossReason) {
        let now = self.clock.now();
        let meters = self.meters.of(hold.mode());
        meters.lost.increment(1);
        meters.held_for(hold.held_for(now));
        let (left, until) = {
            let lease = hold.lease();
            (lease.remaining(now), lease.deadline())
        };
        let mode = label(hold.mode());
        tracing::warn!(name = %hold.name, token = hold.token().get(), mode, ?reason, ?left, "lock lost");
        if let Some(until) = until {
            self.held().note_lost(hold.attempt, until, now);
        }
        let was_held = match reason {
            LossReason::MaxHold => self.held().has(hold), // Until it must be released.
            _ => self.forget(hold),
        };
        // A lost lease is never handed on: the next waiter asks the engine. If another holder has
        // taken it over already, the loss does not concern the queue.
        if was_held {
            self.queues.lost(&hold.name, hold.attempt);
        }
        hold.lost_signal().cancel();
        // No abort for a client that ends with its runtime, a lock that only lingers, or a conversion,
        // whose caller gets the loss as an error.
        let in_use = hold.is_used() && !hold.is_converting();
        let at_risk = reason != LossReason::ClientClosed && in_use;
        if hold.on_loss() == OnLoss::Abort && at_risk {
            std::process::abort();
        }
    }

    /// Stops waiting and acquiring from now on.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.queues.ring_all();
        self.read_queues.ring_all();
        self.permit_waiters.ring_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn usage(&self) -> Usage {
        let (waiting, queues) = self.queues.count();
        let (readers, read_queues) = self.read_queues.count();
        let (permits, semaphores) = self.permit_waiters.count();
        let (waiting, queues) = (waiting + readers + permits, queues + read_queues + semaphores);
        let cached = self.queues.cached();
        let held = self.held().by_attempt.len().saturating_sub(cached);
        Usage { held, cached, waiting, queues }
    }
}

/// Returns 64 random bits for spreading load; not for identities.
pub(crate) fn jitter() -> u64 {
    fastrand::u64(..)
}

#[cfg(unix)]
fn host() -> String {
    nix::unistd::gethostname()
        .map_or_else(|_| "unknown".into(), |name| name.to_string_lossy().into_owned())
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryStore;

    /// A process as it is when its machine is resumed from a snapshot: client id, sequence and the
    /// state of the generator come from the snapshot.
    fn resumed() -> Shared {
        fastrand::seed(7);
        let backend = Arc::new(MemoryStore::new().connect());
        let (client, patience) = (ClientId::from_bits(1), Duration::from_secs(1));
        let late = LateReleases::new(None);
        Shared::new(backend, Clock::system(), client, (patience, patience), Duration::ZERO, late)
    }

    #[test]
    fn two_copies_of_a_process_draw_different_attempt_ids() {
        let at = |shared: &Shared, mode| shared.new_attempt_at(shared.clock.now(), mode);
        for draw in [Shared::new_attempt, Shared::new_attempt_past, at] {
            let (one, other) = (draw(&resumed(), Mode::Shared), draw(&resumed(), Mode::Shared));
            assert_ne!(one, other);
        }
    }
}
