//! A fence that keeps the largest token seen for each resource in this process's memory.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Announce, Fenced, Stale};
use crate::{Result, Token};

/// Refuses a token smaller than the largest seen for the same resource. For resources that one
/// process owns.
///
/// ```
/// # fn main() -> Result<(), leasehold::fence::Stale> {
/// use std::sync::Mutex;
/// use leasehold::{Token, fence::Fence};
///
/// // With the data under one mutex, check and write are one step.
/// struct Orders { fence: Fence, paid: Vec<String> }
/// let orders = Mutex::new(Orders { fence: Fence::new(), paid: Vec::new() });
///
/// let pay = |order: &str, token: Token| {
///     let mut orders = orders.lock().unwrap();
///     orders.fence.check(order, token)?;
///     orders.paid.push(order.to_owned());
///     Ok(())
/// };
/// let [earlier, later] = [33, 34].map(|value| Token::new(value).unwrap());
/// pay("555", later)?;
/// pay("555", later)?; // the same holder again
/// assert_eq!(pay("555", earlier).unwrap_err().highest, later);
/// # Ok(()) }
/// ```
///
/// # What it forgets
///
/// The fence forgets everything when the process ends. If a resource outlives the process, store
/// its token with it, and check that token once at the start.
///
/// The fence also forgets the resources that were checked longest ago. It remembers at least the
/// last `capacity` different resources, and at most twice as many. A late write to a forgotten
/// resource is accepted, so the capacity must exceed the number of resources that are written
/// during the longest pause of a holder.
///
/// The fence stores names as keyed 128-bit hashes. A resource uses about 50 bytes, for a name of
/// any length; the default capacity uses at most 7 MB.
#[derive(Debug)]
pub struct Fence {
    capacity: usize,
    hashers: [RandomState; 2],
    marks: Mutex<Marks>,
}

type Key = [u64; 2];
type Generation = HashMap<Key, Token>;

/// Two generations of marks. A mark that is read moves to the young generation. When that is full,
/// it becomes the old generation, and the previous old generation is dropped.
#[derive(Debug, Default)]
struct Marks {
    young: Generation,
    old: Generation,
}

impl Fence {
    /// The number of resources that [`Fence::new`] remembers at least: 65,536.
    pub const DEFAULT_CAPACITY: usize = 65_536;

    /// Creates an empty fence with [`Fence::DEFAULT_CAPACITY`].
    pub fn new() -> Self {
        Self::with_capacity(Self::DEFAULT_CAPACITY)
    }

    /// Creates an empty fence that remembers at least the last `capacity` resources; 0 means 1. It
    /// allocates memory as resources are added.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            hashers: [RandomState::new(), RandomState::new()],
            marks: Mutex::default(),
        }
    }

    /// Accepts and records `token`, unless a larger token has been seen for `resource`.
    ///
    /// Decisions are made in the order of the calls, from any number of threads. The write that
    /// follows is not part of the check: hold the mutex of the data for both, as in the example.
    ///
    /// # Errors
    /// [`Stale`] if a larger token has been seen; the recorded token does not change.
    pub fn check(
        &self,
        resource: impl AsRef<[u8]>,
        token: Token,
    ) -> std::result::Result<(), Stale> {
        let resource = resource.as_ref();
        let key = self.key(resource);
        let mut marks = self.marks();
        let highest = marks.known(&key).map_or(token, |known| known.max(token));
        let forgotten = marks.remember(key, highest, self.capacity);
        drop(marks);
        // Dropped after the mutex is unlocked, because freeing many entries takes time.
        drop(forgotten);
        if highest == token {
            return Ok(());
        }
        let resource = String::from_utf8_lossy(resource).into_owned();
        Err(Stale::new(resource, token, highest))
    }

    /// Returns the largest token seen for `resource`; `None` if no token was seen or the fence has
    /// forgotten the resource.
    pub fn highest(&self, resource: impl AsRef<[u8]>) -> Option<Token> {
        let key = self.key(resource.as_ref());
        self.marks().known(&key)
    }

    fn key(&self, resource: &[u8]) -> Key {
        self.hashers.each_ref().map(|hasher| hasher.hash_one(resource))
    }

    /// Locks the marks. A poisoned mutex can be used: each change is one insertion or one move, so a
    /// panic leaves the marks consistent.
    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: AsRef<[u8]> + Send> Announce<R> for Fence {
    async fn announce(&self, resource: R, token: Token) -> Result<Fenced> {
        Ok(self.check(resource, token).map_or_else(Fenced::Stale, |()| Fenced::Written))
    }
}

impl Default for Fence {
    fn default() -> Self {
        Self::new()
    }
}

impl Marks {
    fn known(&self, key: &Key) -> Option<Token> {
        self.young.get(key).or_else(|| self.old.get(key)).copied()
    }

    /// Puts a mark into the young generation; returns the generation that was dropped for it.
    fn remember(&mut self, key: Key, token: Token, capacity: usize) -> Generation {
        let mut forgotten = Generation::new();
        if self.young.len() >= capacity && !self.young.contains_key(&key) {
            forgotten = mem::replace(&mut self.old, mem::take(&mut self.young));
        }
        self.young.insert(key, token);
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;

    fn token(value: u64) -> Token {
        Token::new(value).unwrap()
    }

    #[test]
    fn a_smaller_token_is_refused_and_an_equal_one_is_not() {
        let fence = Fence::new();
        fence.check("a", token(999)).unwrap();
        fence.check("a", token(1000)).unwrap();
        fence.check("a", token(1000)).unwrap();
        let stale = fence.check("a", token(999)).unwrap_err();
        assert_eq!((stale.offered, stale.highest), (token(999), token(1000)));
        fence.check("b", token(1)).unwrap();
        fence.check("b", Token::MAX).unwrap();
        fence.check("b", token(1)).unwrap_err();
        assert_eq!(fence.highest("b"), Some(Token::MAX));
        assert_eq!(fence.highest("c"), None);
    }

    #[test]
    fn the_last_capacity_resources_are_remembered_and_never_more_than_twice_as_many() {
        let fence = Fence::with_capacity(10);
        for round in 0..100_u32 {
            fence.check(round.to_string(), token(7)).unwrap();
            let marks = fence.marks();
            assert!(marks.young.len() + marks.old.len() <= 20);
            drop(marks);
            for recent in round.saturating_sub(9)..=round {
                assert_eq!(
                    fence.highest(recent.to_string()),
                    Some(token(7)),
                    "{recent} at {round}"
                );
            }
        }
        assert_eq!(fence.highest("0"), None);
    }

    #[test]
    fn a_resource_that_is_in_use_is_not_forgotten() {
        let fence = Fence::with_capacity(10);
        fence.check("kept", token(9)).unwrap();
        for round in 0..100_u32 {
            fence.check(round.to_string(), token(1)).unwrap();
            // A refused write is a use too.
            fence.check("kept", token(8)).unwrap_err();
        }
    }

    #[test]
    fn after_a_token_has_passed_no_smaller_one_does() {
        let (fence, next) = (Fence::new(), AtomicU64::new(2));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let mine = token(next.fetch_add(1, Ordering::Relaxed));
                        match fence.check("one", mine) {
                            Ok(()) => {
                                let stale = fence.check("one", token(mine.get() - 1)).unwrap_err();
                                assert!(stale.highest >= mine);
                            }
                            Err(stale) => assert!(stale.highest > mine),
                        }
                    }
                });
            }
        });
        assert_eq!(fence.highest("one"), Some(token(next.into_inner() - 1)));
    }
}
