//! One held lock, as the guard, the renewal task and the owner table share it.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_proto::client::{HeldTokens, Sound};
use leasehold_proto::{AttemptId, Lease, LossReason, Now, Step, Token};
use tokio_util::sync::CancellationToken;

use crate::backend::{Mode, ReleaseRequest, Renewal, mode_of};
use crate::hold_traits::HoldTraits;
use crate::{Name, OnLoss};

/// The bucket number of a hold that is not in any bucket of the renewal task.
pub(crate) const UNSCHEDULED: u64 = u64::MAX;

/// A held lock. A process may have very many, so each byte counts.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) name: Name,
    pub(crate) attempt: AttemptId,
    pub(crate) tokens: HeldTokens,
    /// Of a lock, the minimum hold in milliseconds. Of a permit, which has none, the first slot, and above it how
    /// many slots it has.
    min_hold_or_slots: u32,
    /// When the hold began, on the steady clock.
    since_ns: u64,
    traits: HoldTraits,
    /// The bucket of the renewal task, and the place in it.
    pub(crate) bucket: AtomicU64,
    pub(crate) place: AtomicU32,
    /// The client still has it in its books: neither released nor handed over.
    pub(crate) booked: AtomicBool,
    inner: Mutex<Inner>,
    /// The number of guards that share this hold.
    users: AtomicU32,
    /// [`HELD`], [`ENDED`] or [`CONVERTING`].
    ended: AtomicU8,
}

/// How many bits the first slot of a permit takes.
const SLOT_BITS: u32 = 16;
/// Its holder uses the lease.
const HELD: u8 = 0;
/// A task has claimed to end the lease at the backend.
const ENDED: u8 = 1;
/// A task turns the lease into a lease of the other mode.
const CONVERTING: u8 = 2;

#[derive(Debug)]
struct Inner {
    lease: Lease,
    /// Created for the first caller that wants to be notified of a loss.
    lost: Option<CancellationToken>,
}

/// The lease of a hold, locked against other tasks.
pub(crate) struct Locked<'a>(MutexGuard<'a, Inner>);

impl Hold {
    pub(crate) fn new(
        name: Name,
        attempt: AttemptId,
        tokens: HeldTokens,
        lease: Lease,
        since: Now,
        suspect: bool,
    ) -> Self {
        Self {
            name,
            attempt,
            tokens,
            min_hold_or_slots: 0,
            since_ns: since.steady_ns,
            traits: HoldTraits::new(suspect),
            bucket: AtomicU64::new(UNSCHEDULED),
            place: AtomicU32::new(0),
            booked: AtomicBool::new(false),
            inner: Mutex::new(Inner { lease, lost: None }),
            users: AtomicU32::new(1),
            ended: AtomicU8::new(HELD),
        }
    }

    /// Sets for how long the client caches the lease: at most a day. Permits are not cached.
    pub(crate) fn set_cache(&mut self, time: Duration) {
        if !self.is_permit() {
            self.traits.set_cache(time);
        }
    }

    /// Returns true if a request of this attempt was never answered.
    pub(crate) fn is_suspect(&self) -> bool {
        self.traits.is_suspect()
    }

    pub(crate) fn on_loss(&self) -> OnLoss {
        self.traits.on_loss()
    }

    pub(crate) fn set_on_loss(&mut self, on_loss: OnLoss) {
        self.traits.set_on_loss(on_loss);
    }

    /// Returns for how long the client caches the lease; zero if it does not.
    pub(crate) fn cache(&self) -> Duration {
        self.traits.cache()
    }

    /// Sets the minimum hold of a lock: at most a day, rounded up to milliseconds.
    pub(crate) fn set_min_hold(&mut self, min_hold: Duration) {
        if !self.is_permit() {
            self.min_hold_or_slots = min_hold.as_nanos().div_ceil(1_000_000) as u32;
        }
    }

    pub(crate) fn min_hold(&self) -> Duration {
        let ms = if self.is_permit() { 0 } else { self.min_hold_or_slots };
        Duration::from_millis(ms.into())
    }

    /// Sets the slots of a permit: at most 1,024 of less than 65,536.
    pub(crate) fn set_slots(&mut self, slots: &[u32]) {
        if let (true, Some(first)) = (self.is_permit(), slots.first()) {
            self.min_hold_or_slots = (slots.len() as u32) << SLOT_BITS | first;
        }
    }

    /// Returns the first slot of a permit.
    fn slot(&self) -> Option<u32> {
        self.is_permit().then_some(self.min_hold_or_slots & !(u32::MAX << SLOT_BITS))
    }

    /// Returns how many slots a permit has; none of a lock.
    pub(crate) fn slots(&self) -> u32 {
        if self.is_permit() { self.min_hold_or_slots >> SLOT_BITS } else { 0 }
    }

    /// Returns the mode of the lease.
    pub(crate) fn mode(&self) -> Mode {
        mode_of(self.attempt)
    }

    fn is_permit(&self) -> bool {
        self.mode() == Mode::Permit
    }

    /// Returns how long it has been held.
    pub(crate) fn held_for(&self, now: Now) -> Duration {
        Duration::from_nanos(now.steady_ns.saturating_sub(self.since_ns))
    }

    /// Returns the time from a reading before the acquisition to the acquisition.
    pub(crate) fn waited_since(&self, start: Now) -> Duration {
        Duration::from_nanos(self.since_ns.saturating_sub(start.steady_ns))
    }

    /// Returns the token of this holder.
    pub(crate) fn token(&self) -> Token {
        self.tokens.token()
    }

    pub(crate) fn lease(&self) -> Locked<'_> {
        Locked(self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a token that is cancelled when the lease is lost.
    pub(crate) fn lost_signal(&self) -> CancellationToken {
        self.lease().0.lost.get_or_insert_default().clone()
    }

    /// Continues the token of the lease that became this one: work that waits for it is notified of
    /// the loss of this lease. A token that was cancelled is not continued.
    pub(crate) fn inherit_lost_signal(&self, from: &Self) {
        // A loss that is reported after this finds no token, since both are under one lock.
        let mut old = from.lease();
        let signal = if old.loss().is_none() { old.0.lost.take() } else { None };
        drop(old);
        if signal.is_some() {
            self.lease().0.lost = signal;
        }
    }

    /// Marks the lease as lost. Returns true for the first caller, which must report the loss.
    pub(crate) fn lose(&self, reason: LossReason) -> bool {
        matches!(self.lease().handle_lost(reason), Step::Lost(_))
    }

    /// Adds a guard that shares it. Returns false if the hold has ended already.
    pub(crate) fn share(&self, now: Now) -> bool {
        let join = |users| (users > 0).then_some(users + 1);
        self.lease().is_valid(now)
            && self.users.fetch_update(Ordering::AcqRel, Ordering::Acquire, join).is_ok()
    }

    /// Adds a guard, for a caller that knows that the hold has not ended.
    pub(crate) fn add_user(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns true if exactly one guard relies on it.
    pub(crate) fn has_one_user(&self) -> bool {
        self.users.load(Ordering::Acquire) == 1
    }

    /// Returns true while a guard relies on it.
    pub(crate) fn is_used(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }

    /// Removes a guard. Returns true for the last guard.
    pub(crate) fn leave(&self) -> bool {
        self.users.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Claims the right to end the lease at the backend. Returns true once.
    pub(crate) fn claim_end(&self) -> bool {
        self.claim(ENDED)
    }

    /// Claims the right to turn the lease into another one. It is not renewed meanwhile, and no other
    /// task ends it. Returns true once, until the claim is given back.
    pub(crate) fn claim_conversion(&self) -> bool {
        self.claim(CONVERTING)
    }

    /// Gives back the claim to turn the lease into another one: its holder continues.
    pub(crate) fn continue_holding(&self) {
        self.ended.store(HELD, Ordering::Release);
    }

    /// Returns true while a task turns the lease into another one, and after that. A loss is then the
    /// result of the conversion.
    pub(crate) fn is_converting(&self) -> bool {
        self.ended.load(Ordering::Acquire) == CONVERTING
    }

    fn claim(&self, state: u8) -> bool {
        self.ended.compare_exchange(HELD, state, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Returns true if its holder has released it. If it is still in the books, it is on its way to
    /// the next holder.
    pub(crate) fn is_released(&self) -> bool {
        self.ended.load(Ordering::Acquire) != HELD
    }

    pub(crate) fn end(&self, keep: Option<Duration>) -> ReleaseRequest {
        let end = self.tokens.end(self.attempt, self.is_suspect(), keep, Sound);
        let slot = self.slot();
        ReleaseRequest { slot, ..ReleaseRequest::of_machine(self.name.clone(), end) }
    }

    pub(crate) fn renewal(&self) -> Renewal {
        Renewal {
            name: self.name.clone(),
            attempt: self.attempt,
            base: self.tokens.base(),
            ttl: self.lease().terms().ttl,
            mode: self.mode(),
        }
    }
}

impl Deref for Locked<'_> {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0.lease
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Lease {
        &mut self.0.lease
    }
}

/// A hold in a set, found by its attempt.
#[derive(Debug)]
pub(crate) struct ByAttempt(pub(crate) Arc<Hold>);

impl Borrow<AttemptId> for ByAttempt {
    fn borrow(&self) -> &AttemptId {
        &self.0.attempt
    }
}

impl Hash for ByAttempt {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.attempt.hash(state);
    }
}

impl PartialEq for ByAttempt {
    fn eq(&self, other: &Self) -> bool {
        self.0.attempt == other.0.attempt
    }
}

impl Eq for ByAttempt {}

/// A hold in a set, found by its name.
#[derive(Debug)]
pub(crate) struct ByName(pub(crate) Arc<Hold>);

impl Borrow<Name> for ByName {
    fn borrow(&self) -> &Name {
        &self.0.name
    }
}

impl Hash for ByName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl PartialEq for ByName {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for ByName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_takes_little_room() {
        assert!(size_of::<Lease>() <= 48);
        assert!(size_of::<Hold>() <= 144);
        assert!(size_of::<crate::Guard>() <= 16);
    }
}
