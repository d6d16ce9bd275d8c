//! A Bloom filter in this process.

use super::shape::{Hashed, Shape};
use super::{Answer, Stats};
use crate::Result;
use crate::atomic_bits::AtomicBits;

/// A Bloom filter in the memory of this process, for many threads at once, without waiting.
///
/// A check finds an item if its `add` returned before the check began, on this thread or on a
/// thread that this thread has synchronized with. To rebuild the filter, fill another one and
/// replace this one.
///
/// It does not know what other processes add. For a cache of several processes, use
/// `Filter::per_process` of the crate `leasehold-cache`, or a filter in Redis.
#[derive(Debug)]
pub struct Local {
    shape: Shape,
    words: AtomicBits,
}

impl Local {
    /// Creates an empty filter for this number of items and this error rate (more than 0, less than
    /// 1). The [module](super) describes its size.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for another rate, for zero items, or if
    /// there is not enough memory.
    pub fn new(items: u64, error_rate: f64) -> Result<Self> {
        let shape = Shape::whole(items, error_rate)?;
        let words = AtomicBits::new(&format!("items is {items}"), shape.bits)?;
        Ok(Self { shape, words })
    }

    /// Adds an item. Returns true if the item was certainly not added before.
    pub fn add(&self, item: impl AsRef<[u8]>) -> bool {
        let places = self.shape.places(Hashed::of(item.as_ref()));
        places.fold(false, |new, place| self.words.set(place) | new)
    }

    /// Returns [`Answer::Absent`] or [`Answer::Maybe`] for an item.
    pub fn check(&self, item: impl AsRef<[u8]>) -> Answer {
        let mut places = self.shape.places(Hashed::of(item.as_ref()));
        if places.all(|place| self.words.get(place)) { Answer::Maybe } else { Answer::Absent }
    }

    /// Measures how full the filter is. Reads all bits.
    pub fn stats(&self) -> Stats {
        self.shape.stats(self.words.ones())
    }
}
