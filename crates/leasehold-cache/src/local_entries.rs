//! The entries in the memory of this process. An entry that was invalidated while it was fetched is
//! not kept.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use leasehold_core::proto::{Deadline, Now};

/// The number of invalidation counters. Keys share them by hash, so some fetched values are dropped
/// without need.
const SLOTS: usize = 1 << 12;

/// One value that this process keeps.
#[derive(Clone, Debug)]
pub(crate) struct Kept<V> {
    /// `None` if the value does not exist.
    pub(crate) value: Option<V>,
    pub(crate) id: [u8; 8],
    pub(crate) load_us: u32,
    /// Until when it is fresh and is served.
    pub(crate) fresh: Deadline,
    /// When the entry in Redis expires, for early reloads (Unix ms).
    pub(crate) soft_unix_ms: u64,
    /// Until when it may replace a value that cannot be loaded.
    pub(crate) stale: Deadline,
    /// The number of the subscription period in which it was kept.
    epoch: u64,
    /// When it was loaded, if Redis was down then: it is fresh for a short time.
    alone: Option<Now>,
}

/// The state of invalidations before a fetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    slot: usize,
    generation: u64,
    epoch: u64,
}

pub(crate) struct Local<V> {
    entries: quick_cache::sync::Cache<Box<str>, Kept<V>>,
    hasher: RandomState,
    generations: Box<[AtomicU64]>,
    /// Increases when the subscription starts or stops.
    epoch: AtomicU64,
    is_subscribed: AtomicBool,
    /// When messages were last received before the current gap.
    lost: Mutex<Option<Now>>,
}

impl<V: Clone> Local<V> {
    /// Creates room for `size` entries.
    pub(crate) fn new(size: usize) -> Self {
        Self {
            entries: quick_cache::sync::Cache::new(size),
            hasher: RandomState::default(),
            generations: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            epoch: AtomicU64::new(0),
            is_subscribed: AtomicBool::new(false),
            lost: Mutex::default(),
        }
    }

    /// Takes a note. Call it before you fetch a value to keep.
    pub(crate) fn note(&self, key: &str) -> Note {
        let slot = self.slot(key);
        let epoch = self.epoch.load(Ordering::SeqCst);
        Note { slot, generation: self.generations[slot].load(Ordering::SeqCst), epoch }
    }

    /// Keeps a value that was fetched after `note`, unless it was invalidated meanwhile.
    pub(crate) fn keep(&self, key: &str, note: Note, mut kept: Kept<V>) {
        kept.epoch = note.epoch;
        if !self.is_subscribed.load(Ordering::SeqCst) || !self.holds(note) {
            return;
        }
        self.entries.insert(key.into(), kept);
        // An invalidation that came after the first look has found nothing to remove.
        if !self.holds(note) {
            self.entries.remove(key);
        }
    }

    /// Keeps a value that was loaded until `now` while Redis is down, unless it was invalidated
    /// meanwhile.
    pub(crate) fn keep_alone(&self, key: &str, note: Note, now: Now, mut kept: Kept<V>) {
        kept.epoch = note.epoch;
        kept.alone = Some(now);
        self.entries.insert(key.into(), kept);
        if !self.holds(note) {
            self.entries.remove(key);
        }
    }

    /// Returns the kept value, and whether it is fresh.
    pub(crate) fn get(&self, key: &str, now: Now) -> Option<(Kept<V>, bool)> {
        let kept = self.entries.get(key)?;
        let fresh = (kept.alone.is_some() || self.is_subscribed.load(Ordering::SeqCst))
            && kept.epoch == self.epoch.load(Ordering::SeqCst)
            && !kept.fresh.has_passed(now);
        Some((kept, fresh))
    }

    /// Returns the kept value that may replace one that cannot be loaded in time. Without `doubt`,
    /// only a value whose invalidation this process would have received. With `doubt`, also a value
    /// whose invalidation may have been missed, for that long after the last time when it was known
    /// to be valid. A value from before an earlier gap in the subscription is never used.
    pub(crate) fn stale(&self, key: &str, now: Now, doubt: Option<Duration>) -> Option<Option<V>> {
        let kept = self.entries.get(key).filter(|kept| !kept.stale.has_passed(now))?;
        let usable = match (self.unheard_since(&kept)?, doubt) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(since), Some(doubt)) => !Deadline::after(since, doubt).has_passed(now),
        };
        usable.then_some(kept.value)
    }

    /// Returns the last time when this value was known to be valid; `Some(None)` if it still is,
    /// and `None` if that time is before an earlier gap in the subscription.
    fn unheard_since(&self, kept: &Kept<V>) -> Option<Option<Now>> {
        let (epoch, is_subscribed) =
            (self.epoch.load(Ordering::SeqCst), self.is_subscribed.load(Ordering::SeqCst));
        if kept.epoch == epoch {
            return Some(kept.alone.filter(|_| !is_subscribed));
        }
        let lost = *self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        (!is_subscribed && kept.epoch.checked_add(1) == Some(epoch))
            .then_some(Some(kept.alone.or(lost)?))
    }

    /// Records that the value of this key has changed, or may have changed.
    pub(crate) fn invalidate(&self, key: &str) {
        self.generations[self.slot(key)].fetch_add(1, Ordering::SeqCst);
        self.entries.remove(key);
    }

    /// Records whether invalidations are received from now on. Values that were kept until now may
    /// be out of date and are not served as fresh.
    pub(crate) fn set_subscribed(&self, is_subscribed: bool, now: Now) {
        self.is_subscribed.store(false, Ordering::SeqCst);
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.is_subscribed.store(is_subscribed, Ordering::SeqCst);
    }

    fn holds(&self, note: Note) -> bool {
        self.generations[note.slot].load(Ordering::SeqCst) == note.generation
            && self.epoch.load(Ordering::SeqCst) == note.epoch
    }

    fn slot(&self, key: &str) -> usize {
        self.hasher.hash_one(key) as usize % SLOTS
    }
}

impl<V> Kept<V> {
    pub(crate) fn new(
        value: Option<V>,
        id: [u8; 8],
        load_us: u32,
        soft_unix_ms: u64,
        fresh: Deadline,
        stale: Deadline,
    ) -> Self {
        Self { value, id, load_us, fresh, soft_unix_ms, stale, epoch: 0, alone: None }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::clock::ManualClock;

    use super::*;

    fn kept(now: Now) -> Kept<u64> {
        let (fresh, stale) = (
            Deadline::after(now, Duration::from_secs(60)),
            Deadline::after(now, Duration::from_secs(90)),
        );
        Kept::new(Some(1), [0; 8], 0, 0, fresh, stale)
    }

    #[test]
    fn what_was_invalidated_while_it_was_fetched_is_not_kept() {
        let (local, now) = (Local::new(10), ManualClock::new().clock().now());
        local.set_subscribed(true, now);
        let note = local.note("k");
        local.invalidate("k");
        local.keep("k", note, kept(now));
        assert!(local.get("k", now).is_none());
        local.keep_alone("k", note, now, kept(now));
        assert!(local.get("k", now).is_none());
        local.keep("k", local.note("k"), kept(now));
        assert!(local.get("k", now).is_some_and(|(_, fresh)| fresh));
    }

    #[test]
    fn what_was_kept_before_a_gap_in_hearing_is_stale() {
        let (local, now) = (Local::new(10), ManualClock::new().clock().now());
        local.set_subscribed(true, now);
        let note = local.note("k");
        local.keep("k", note, kept(now));
        local.set_subscribed(false, now);
        assert!(local.get("k", now).is_some_and(|(_, fresh)| !fresh));
        local.set_subscribed(true, now);
        assert!(local.get("k", now).is_some_and(|(_, fresh)| !fresh));
        assert_eq!(local.stale("k", now, Some(Duration::MAX)), None, "from before an earlier gap");
        local.keep("other", note, kept(now));
        assert!(local.get("other", now).is_none(), "fetched before the gap");
    }

    #[test]
    fn nothing_is_kept_longer_than_it_is_fresh_or_while_nothing_is_heard() {
        let (local, clock) = (Local::new(10), ManualClock::new());
        local.keep("k", local.note("k"), kept(clock.clock().now()));
        assert!(local.get("k", clock.clock().now()).is_none());
        let now = clock.clock().now();
        local.keep_alone("k", local.note("k"), now, kept(now));
        assert!(local.get("k", clock.clock().now()).is_some_and(|(_, fresh)| fresh));
        clock.advance(Duration::from_secs(60));
        assert!(local.get("k", clock.clock().now()).is_some_and(|(_, fresh)| !fresh));
        clock.advance(Duration::from_secs(30));
        assert_eq!(local.stale("k", clock.clock().now(), Some(Duration::MAX)), None);
    }

    #[test]
    fn a_value_that_may_have_been_invalidated_unheard_stands_in_for_a_limited_time() {
        let (local, clock) = (Local::new(10), ManualClock::new());
        let (now, doubt) = (|| clock.clock().now(), Duration::from_secs(10));
        local.set_subscribed(true, now());
        local.keep("k", local.note("k"), kept(now()));
        clock.advance(Duration::from_secs(30));
        assert_eq!(local.stale("k", now(), None), Some(Some(1)), "heard until now");
        local.set_subscribed(false, now());
        assert_eq!(local.stale("k", now(), None), None);
        clock.advance(Duration::from_secs(9));
        assert_eq!(local.stale("k", now(), Some(doubt)), Some(Some(1)));
        clock.advance(Duration::from_secs(1));
        assert_eq!(local.stale("k", now(), Some(doubt)), None, "from the loss on, not from now on");
        local.keep_alone("k", local.note("k"), now(), kept(now()));
        assert_eq!(local.stale("k", now(), None), None, "loaded while nothing was heard");
        clock.advance(Duration::from_secs(9));
        assert_eq!(local.stale("k", now(), Some(doubt)), Some(Some(1)));
        clock.advance(Duration::from_secs(1));
        assert_eq!(local.stale("k", now(), Some(doubt)), None);
    }
}
