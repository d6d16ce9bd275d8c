//! Which key was alone in the queue of a lock when this client released it: who asks again at once stands behind it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::{Deadline, Name, Now};

/// How long an entry is used.
const KEEP: Duration = Duration::from_secs(1);
/// The number of locks with an entry.
const LOCKS: usize = 1024;

/// A key, and the revision at which it was seen.
type Successor = (Vec<u8>, i64);

/// The keys that were alone behind a holder of this client, by lock. Clones share their state.
#[derive(Clone, Debug)]
pub(crate) struct Successors {
    all: Arc<Mutex<HashMap<Name, (Successor, Now)>>>,
    clock: Clock,
}

impl Successors {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { all: Arc::default(), clock }
    }

    /// Records the key that was alone in the queue when the lock was released.
    pub(crate) fn note(&self, name: &Name, key: Vec<u8>, revision: i64) {
        let now = self.clock.now();
        let mut all = self.all();
        if all.len() >= LOCKS {
            all.retain(|_, (_, noted)| is_recent(*noted, now));
        }
        if all.len() < LOCKS {
            all.insert(name.clone(), ((key, revision), now));
        }
    }

    /// Takes the entry of a lock, if it is recent.
    pub(crate) fn take(&self, name: &Name) -> Option<Successor> {
        let mut all = self.all();
        if all.is_empty() {
            return None;
        }
        let (successor, noted) = all.remove(name)?;
        is_recent(noted, self.clock.now()).then_some(successor)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Name, (Successor, Now)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_recent(noted: Now, now: Now) -> bool {
    !Deadline::after(noted, KEEP).has_passed(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::clock::ManualClock;

    #[test]
    fn a_successor_is_used_once_and_only_for_a_while() {
        let hand = ManualClock::new();
        let successors = Successors::new(hand.clock());
        let name = |number: usize| Name::new(format!("a{number}")).unwrap();
        successors.note(&name(0), b"key".to_vec(), 7);
        assert_eq!(successors.take(&name(1)), None);
        assert_eq!(successors.take(&name(0)), Some((b"key".to_vec(), 7)));
        assert_eq!(successors.take(&name(0)), None);
        (0..2 * LOCKS).for_each(|number| successors.note(&name(number), Vec::new(), 7));
        assert_eq!(successors.all().len(), LOCKS);
        hand.advance(KEEP);
        assert_eq!(successors.take(&name(0)), None);
        // The table is full again with the first, and those that are too old go with the second.
        successors.note(&name(LOCKS), Vec::new(), 8);
        successors.note(&name(LOCKS + 1), Vec::new(), 8);
        assert_eq!(successors.all().len(), 2);
    }
}
