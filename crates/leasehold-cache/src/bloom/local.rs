//! A filter in this process.

use super::shape::{Hashed, Shape};
use super::{Answer, Stats};
use crate::Result;
use crate::words::Words;

/// A Bloom filter in this process, that many threads add to and ask at once without waiting.
///
/// What is added before a question begins, by this thread or one that has told it, is found. To
/// rebuild it, fill another and put that in its place.
#[derive(Debug)]
pub struct Local {
    shape: Shape,
    words: Words,
}

impl Local {
    /// For so many items and this error rate (more than 0, less than 1); see the page of the module
    /// for its size.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for another rate, no items, or more than
    /// there is memory for.
    pub fn new(items: u64, error_rate: f64) -> Result<Self> {
        let shape = Shape::whole(items, error_rate)?;
        let words = Words::new(&format!("items is {items}"), shape.bits)?;
        Ok(Self { shape, words })
    }

    /// Adds an item; true when it certainly was not there before.
    pub fn add(&self, item: impl AsRef<[u8]>) -> bool {
        let places = self.shape.places(Hashed::of(item.as_ref()));
        places.fold(false, |new, place| self.words.set(place) | new)
    }

    /// [`Answer::Absent`] or [`Answer::Maybe`].
    pub fn check(&self, item: impl AsRef<[u8]>) -> Answer {
        let mut places = self.shape.places(Hashed::of(item.as_ref()));
        if places.all(|place| self.words.get(place)) { Answer::Maybe } else { Answer::Absent }
    }

    /// How full it is. Reads all of it.
    pub fn stats(&self) -> Stats {
        self.shape.stats(self.words.ones())
    }
}
