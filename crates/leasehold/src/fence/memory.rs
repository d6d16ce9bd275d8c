//! The largest token seen per resource, kept in this process's memory.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Stale;
use crate::Token;

/// Refuses tokens smaller than the largest seen, per resource; for resources of one process.
///
/// ```
/// # fn main() -> Result<(), leasehold::fence::Stale> {
/// use std::sync::Mutex;
/// use leasehold::{Token, fence::Fence};
///
/// // Beside the data, under the same mutex: check and write are one step.
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
/// Everything, when the process ends: a resource that outlives the process keeps its token in the
/// same place, and tells the fence at the start (by a check with the kept token). And the resources
/// that were checked longest ago, when there are many: the last `capacity` different ones are
/// remembered, and never more than twice as many. A late write to a forgotten resource passes, so
/// the capacity has to exceed the number of resources that are written to during the longest pause
/// of a holder.
///
/// Names are kept as keyed 128-bit hashes: a resource takes about 50 bytes, however long its name
/// is; 7 MB at most by default.
#[derive(Debug)]
pub struct Fence {
    capacity: usize,
    hashers: [RandomState; 2],
    marks: Mutex<Marks>,
}

type Key = [u64; 2];
type Generation = HashMap<Key, Token>;

/// Two generations of marks. What is looked at moves to the young one; when that is full, it
/// becomes the old one, and the old one is forgotten.
#[derive(Debug, Default)]
struct Marks {
    young: Generation,
    old: Generation,
}

impl Fence {
    /// How many resources [`Fence::new`] remembers at least: 65,536.
    pub const DEFAULT_CAPACITY: usize = 65_536;

    /// A fence that has seen nothing and remembers the last [`Fence::DEFAULT_CAPACITY`] resources.
    pub fn new() -> Self {
        Self::with_capacity(Self::DEFAULT_CAPACITY)
    }

    /// A fence that remembers at least the last `capacity` resources (0 is taken as 1). Memory is
    /// taken as it is needed.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            hashers: [RandomState::new(), RandomState::new()],
            marks: Mutex::default(),
        }
    }

    /// Lets `token` pass unless a larger one has been seen for `resource`, and remembers it.
    ///
    /// The order of the calls is the order of the decisions, from however many threads. What the
    /// caller does afterwards is not part of it: hold the lock of the data meanwhile, as above.
    ///
    /// # Errors
    /// [`Stale`] when a larger one has been seen; what is remembered stays as it is.
    pub fn check(&self, resource: impl AsRef<[u8]>, token: Token) -> Result<(), Stale> {
        let resource = resource.as_ref();
        let key = self.key(resource);
        let mut marks = self.marks();
        let highest = marks.known(&key).map_or(token, |known| known.max(token));
        let forgotten = marks.remember(key, highest, self.capacity);
        drop(marks);
        // Behind the mutex: many entries take their time to go.
        drop(forgotten);
        if highest == token {
            return Ok(());
        }
        let resource = String::from_utf8_lossy(resource).into_owned();
        Err(Stale::new(resource, token, highest))
    }

    /// The largest token seen for `resource`; `None` when it has seen none, or it is forgotten.
    pub fn highest(&self, resource: impl AsRef<[u8]>) -> Option<Token> {
        let key = self.key(resource.as_ref());
        self.marks().known(&key)
    }

    fn key(&self, resource: &[u8]) -> Key {
        self.hashers.each_ref().map(|hasher| hasher.hash_one(resource))
    }

    /// A panic elsewhere leaves the marks whole: each change is one insertion or one move.
    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Puts a mark into the young generation; answers the one that is forgotten for it.
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
