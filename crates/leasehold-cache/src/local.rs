//! The level inside the process: takes nothing that was invalidated while it was fetched.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use foldhash::fast::RandomState;
use leasehold_core::proto::{Deadline, Now};

/// Counters of invalidations; keys share them by hash, which costs a fetch now and then.
const SLOTS: usize = 1 << 12;

/// One value as this process keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Kept<V> {
    /// `None`: there is no such value.
    pub(crate) value: Option<V>,
    pub(crate) id: [u8; 8],
    pub(crate) load_us: u32,
    /// Until when it is fresh, and served.
    pub(crate) fresh: Deadline,
    /// The end of the entry in Redis, by which early loads are decided (Unix ms).
    pub(crate) soft_unix_ms: u64,
    /// Until when it may stand in for a value that cannot be had.
    pub(crate) stale: Deadline,
    /// The time without a gap in which invalidations were heard.
    epoch: u64,
    /// Loaded while nothing was heard, for a short time.
    alone: bool,
}

/// What was known of invalidations before something was fetched.
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
    epoch: AtomicU64,
    hears: AtomicBool,
}

impl<V: Clone> Local<V> {
    /// Room for so many entries.
    pub(crate) fn new(size: usize) -> Self {
        Self {
            entries: quick_cache::sync::Cache::new(size),
            hasher: RandomState::default(),
            generations: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            epoch: AtomicU64::new(0),
            hears: AtomicBool::new(false),
        }
    }

    /// To be taken before a value is fetched that shall be kept.
    pub(crate) fn note(&self, key: &str) -> Note {
        let slot = self.slot(key);
        let epoch = self.epoch.load(Ordering::SeqCst);
        Note { slot, generation: self.generations[slot].load(Ordering::SeqCst), epoch }
    }

    /// Keeps what was fetched since `note`, unless it was invalidated meanwhile.
    pub(crate) fn keep(&self, key: &str, note: Note, mut kept: Kept<V>) {
        kept.epoch = note.epoch;
        if !self.hears.load(Ordering::SeqCst) || !self.holds(note) {
            return;
        }
        self.entries.insert(key.into(), kept);
        // An invalidation that came after the first look has found nothing to remove.
        if !self.holds(note) {
            self.entries.remove(key);
        }
    }

    /// Keeps what was loaded while Redis is down, unless it was invalidated meanwhile.
    pub(crate) fn keep_alone(&self, key: &str, note: Note, mut kept: Kept<V>) {
        kept.epoch = note.epoch;
        kept.alone = true;
        self.entries.insert(key.into(), kept);
        if !self.holds(note) {
            self.entries.remove(key);
        }
    }

    /// What is kept, and whether it is fresh.
    pub(crate) fn get(&self, key: &str, now: Now) -> Option<(Kept<V>, bool)> {
        let kept = self.entries.get(key)?;
        let fresh = (kept.alone || self.hears.load(Ordering::SeqCst))
            && kept.epoch == self.epoch.load(Ordering::SeqCst)
            && !kept.fresh.has_passed(now);
        Some((kept, fresh))
    }

    /// What is kept and may stand in for a value that cannot be had; `heard`: only what was kept
    /// since invalidations have been heard without a gap.
    pub(crate) fn stale(&self, key: &str, now: Now, heard: bool) -> Option<Option<V>> {
        let epoch = self.epoch.load(Ordering::SeqCst);
        let stands =
            |kept: &Kept<V>| !kept.stale.has_passed(now) && (!heard || kept.epoch == epoch);
        Some(self.entries.get(key).filter(stands)?.value)
    }

    /// The value of this key has changed, or may have.
    pub(crate) fn invalidate(&self, key: &str) {
        self.generations[self.slot(key)].fetch_add(1, Ordering::SeqCst);
        self.entries.remove(key);
    }

    /// Invalidations are heard from now on, or are not heard any more: what was kept until now may
    /// be out of date and is not served as fresh.
    pub(crate) fn hears(&self, hears: bool) {
        self.hears.store(false, Ordering::SeqCst);
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.hears.store(hears, Ordering::SeqCst);
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
        Self { value, id, load_us, fresh, soft_unix_ms, stale, epoch: 0, alone: false }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
        local.hears(true);
        let note = local.note("k");
        local.invalidate("k");
        local.keep("k", note, kept(now));
        assert!(local.get("k", now).is_none());
        local.keep_alone("k", note, kept(now));
        assert!(local.get("k", now).is_none());
        local.keep("k", local.note("k"), kept(now));
        assert!(local.get("k", now).is_some_and(|(_, fresh)| fresh));
    }

    #[test]
    fn what_was_kept_before_a_gap_in_hearing_is_stale() {
        let (local, now) = (Local::new(10), ManualClock::new().clock().now());
        local.hears(true);
        let note = local.note("k");
        local.keep("k", note, kept(now));
        local.hears(false);
        assert!(local.get("k", now).is_some_and(|(_, fresh)| !fresh));
        local.hears(true);
        assert!(local.get("k", now).is_some_and(|(_, fresh)| !fresh));
        assert_eq!(local.stale("k", now, false), Some(Some(1)));
        assert_eq!(local.stale("k", now, true), None, "a write may not have been heard of");
        local.keep("other", note, kept(now));
        assert!(local.get("other", now).is_none(), "fetched before the gap");
    }

    #[test]
    fn nothing_is_kept_longer_than_it_is_fresh_or_while_nothing_is_heard() {
        let (local, clock) = (Local::new(10), ManualClock::new());
        local.keep("k", local.note("k"), kept(clock.clock().now()));
        assert!(local.get("k", clock.clock().now()).is_none());
        local.keep_alone("k", local.note("k"), kept(clock.clock().now()));
        assert!(local.get("k", clock.clock().now()).is_some_and(|(_, fresh)| fresh));
        clock.advance(Duration::from_secs(60));
        assert!(local.get("k", clock.clock().now()).is_some_and(|(_, fresh)| !fresh));
        clock.advance(Duration::from_secs(30));
        assert_eq!(local.stale("k", clock.clock().now(), false), None);
    }
}
