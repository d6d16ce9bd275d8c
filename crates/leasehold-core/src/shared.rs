//! What a client's handles and its background task have in common.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_proto::{AttemptId, ClientId, LossReason};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::backend::{Backend, Capability, Grant};
use crate::buckets::Buckets;
use crate::clock::Clock;
use crate::hold::Hold;
use crate::telemetry::Meters;
use crate::turns::Turns;
use crate::{Name, OnLoss};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) capability: Capability,
    pub(crate) clock: Clock,
    pub(crate) client: ClientId,
    pub(crate) host: String,
    /// How long an operation goes on without hearing anything from the backend.
    pub(crate) patience: Duration,
    pub(crate) turns: Turns,
    pub(crate) meters: Meters,
    /// Wakes the background task when its next timer has come nearer.
    pub(crate) wake: Notify,
    /// Fires when the client is closed, or its background task has ended.
    pub(crate) closed: CancellationToken,
    /// The background task has ended: nobody renews any more.
    pub(crate) ended: AtomicBool,
    sequence: AtomicU32,
    held: Mutex<Held>,
    waiting: Mutex<Waiting>,
}

/// The held locks and when each is to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) by_attempt: HashMap<AttemptId, Arc<Hold>>,
    pub(crate) buckets: Buckets,
    /// Steady time until which the background task sleeps; `None` when it does so without end.
    pub(crate) asleep_until: Option<u64>,
}

/// The attempts that wait, found by attempt and by name (one at a time asks for a name).
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    by_attempt: HashMap<AttemptId, Arc<Slot>>,
    by_name: HashMap<Name, AttemptId>,
}

/// What a client has at the moment; all zero when nothing is left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Locks that it holds.
    pub held: usize,
    /// Attempts that ask the engine or wait there.
    pub waiting: usize,
    /// Names that tasks of this client stand in line for.
    pub lines: usize,
}

/// Where a waiting attempt hears from the engine.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) bell: Notify,
    pub(crate) inbox: Mutex<Inbox>,
}

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Its turn has come.
    pub(crate) granted: Option<Grant>,
    /// It is the first in line now: the new time to ask again.
    pub(crate) next: Option<Duration>,
    /// Worth asking at once.
    pub(crate) ask: bool,
}

impl Shared {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        clock: Clock,
        client: ClientId,
        patience: Duration,
    ) -> Self {
        let capability = backend.capability().clone();
        Self {
            meters: Meters::new(capability.engine),
            capability,
            backend,
            clock,
            client,
            host: host(),
            patience,
            turns: Turns::default(),
            wake: Notify::new(),
            closed: CancellationToken::new(),
            ended: AtomicBool::new(false),
            sequence: AtomicU32::new(0),
            held: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    pub(crate) fn new_attempt(&self) -> AttemptId {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        AttemptId::new(self.client, sequence, fastrand::u32(..))
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a fresh hold under the care of the background task.
    pub(crate) fn look_after(&self, hold: &Arc<Hold>) {
        let nearer = {
            let mut held = self.held();
            held.by_attempt.insert(hold.attempt, hold.clone());
            held.buckets.schedule(hold);
            let next = held.buckets.next();
            let nearer = next.is_some_and(|next| held.asleep_until.is_none_or(|at| next < at));
            if nearer {
                held.asleep_until = next;
            }
            nearer
        };
        self.meters.held.increment(1.0);
        if self.ended.load(Ordering::Acquire) && !hold.lease().terms().session {
            self.lose(hold, LossReason::ClientClosed);
        }
        if nearer {
            self.wake.notify_one();
        }
    }

    /// Takes a hold out again; its renewal stops.
    pub(crate) fn forget(&self, hold: &Hold) {
        let mut held = self.held();
        held.buckets.unschedule(hold);
        if held.by_attempt.remove(&hold.attempt).is_some() {
            self.meters.held.decrement(1.0);
        }
    }

    /// Marks a hold as lost and tells whoever is concerned, once.
    pub(crate) fn lose(&self, hold: &Hold, reason: LossReason) {
        if !hold.lose(reason) {
            return;
        }
        self.tell_loss(hold, reason);
    }

    /// Tells of a loss that the lease machine has just found.
    pub(crate) fn tell_loss(&self, hold: &Hold, reason: LossReason) {
        let now = self.clock.now();
        self.meters.lost.increment(1);
        self.meters.held_for(elapsed(hold.since, now));
        let left = hold.lease().remaining(now);
        tracing::warn!(name = %hold.name, token = hold.tokens.base().get(), ?reason, ?left, "lock lost");
        if reason != LossReason::MaxHold {
            self.forget(hold); // Otherwise it is looked after until it is to be given back.
        }
        hold.lost_signal().cancel();
        // A client that goes down with its runtime is no reason; nor is a lock that only lingers.
        let at_risk = reason != LossReason::ClientClosed && hold.is_used();
        if hold.on_loss == OnLoss::Abort && at_risk {
            std::process::abort();
        }
    }

    pub(crate) fn wait_for(&self, name: &Name, attempt: AttemptId) -> Arc<Slot> {
        let slot = Arc::new(Slot::default());
        let mut waiting = self.waiting();
        waiting.by_attempt.insert(attempt, slot.clone());
        waiting.by_name.insert(name.clone(), attempt);
        slot
    }

    pub(crate) fn stop_waiting(&self, name: &Name, attempt: AttemptId) {
        let mut waiting = self.waiting();
        waiting.by_attempt.remove(&attempt);
        if waiting.by_name.get(name) == Some(&attempt) {
            waiting.by_name.remove(name);
        }
    }

    /// Finds a waiting attempt and leaves it a message; false when it does not wait (any more).
    pub(crate) fn leave_message(
        &self,
        attempt: AttemptId,
        message: impl FnOnce(&mut Inbox),
    ) -> bool {
        let Some(slot) = self.waiting().by_attempt.get(&attempt).cloned() else { return false };
        slot.leave(message);
        true
    }

    /// The lock may be free: who waits for it in this process asks again.
    pub(crate) fn freed(&self, name: &Name) {
        let slot = {
            let waiting = self.waiting();
            waiting.by_name.get(name).and_then(|attempt| waiting.by_attempt.get(attempt)).cloned()
        };
        if let Some(slot) = slot {
            slot.leave(|inbox| inbox.ask = true);
        }
    }

    /// Everybody who waits asks again.
    pub(crate) fn ask_all_again(&self) {
        let slots: Vec<_> = self.waiting().by_attempt.values().cloned().collect();
        for slot in slots {
            slot.leave(|inbox| inbox.ask = true);
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            held: self.held().by_attempt.len(),
            waiting: self.waiting().by_attempt.len(),
            lines: self.turns.len(),
        }
    }
}

impl Slot {
    fn leave(&self, message: impl FnOnce(&mut Inbox)) {
        message(&mut self.inbox.lock().unwrap_or_else(PoisonError::into_inner));
        self.bell.notify_one();
    }

    pub(crate) fn take(&self) -> Inbox {
        std::mem::take(&mut *self.inbox.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Time by the steady clock between two readings.
pub(crate) fn elapsed(from: leasehold_proto::Now, to: leasehold_proto::Now) -> Duration {
    Duration::from_nanos(to.steady_ns.saturating_sub(from.steady_ns))
}

/// 64 random bits that spread load; not for identities.
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
