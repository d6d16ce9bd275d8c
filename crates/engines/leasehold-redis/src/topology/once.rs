//! Deduplicates pushes that every node of a cluster sends.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use leasehold_core::Now;

/// All copies of a push arrive within this time. A later copy counts as another push, which does no
/// harm: a client knows what it holds.
const MEMORY: Duration = Duration::from_secs(1);
/// How many pushes are remembered before the oldest are removed.
const ROOM: usize = 256;

/// The recent pushes.
#[derive(Debug, Default)]
pub(super) struct Once(Mutex<Heard>);

#[derive(Debug, Default)]
struct Heard {
    hasher: RandomState,
    /// The hashes of payloads, and when they arrived.
    at: HashMap<u64, u64>,
    room: usize,
}

impl Once {
    /// Returns true for the first copy.
    pub(super) fn is_first(&self, payload: &[u8], now: Now) -> bool {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = heard.hasher.hash_one(payload);
        let young = |at: u64| now.steady_ns.saturating_sub(at) < MEMORY.as_nanos() as u64;
        if heard.at.len() > heard.room {
            heard.at.retain(|_, at| young(*at));
            heard.room = 2 * heard.at.len() + ROOM;
        }
        let before = heard.at.insert(hash, now.steady_ns);
        before.is_none_or(|at| !young(at))
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::clock::ManualClock;

    use super::*;

    #[test]
    fn copies_are_dropped_and_later_ones_are_not() {
        let manual = ManualClock::new();
        let clock = manual.clock();
        let once = Once::default();
        let first = |text: &str| once.is_first(text.as_bytes(), clock.now());
        assert!(first("a") && !first("a") && first("b") && !first("a"));
        manual.advance(2 * MEMORY);
        assert!(first("a") && !first("a"));
        for number in 0..10 * ROOM {
            assert!(first(&number.to_string()));
            manual.advance(MEMORY / 100);
        }
        assert!(once.0.lock().unwrap().at.len() < 2 * ROOM);
    }
}
