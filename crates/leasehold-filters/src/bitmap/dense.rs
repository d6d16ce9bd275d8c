//! A set with one bit for each number below a bound, in this process.

use super::Operation;
use crate::atomic_bits::AtomicBits;
use crate::{Error, Result};

/// A set of numbers below a bound, which many threads write and read at once without waiting.
#[derive(Debug)]
pub struct Dense {
    bound: u64,
    words: AtomicBits,
}

impl Dense {
    /// Creates an empty set for numbers below `bound`. It takes `bound / 8` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if there is not enough memory.
    pub fn new(bound: u64) -> Result<Self> {
        Ok(Self { bound, words: AtomicBits::new(&format!("bound is {bound}"), bound)? })
    }

    /// Inserts a number. Returns false if the set already had it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a number that is not below the bound.
    pub fn insert(&self, number: u64) -> Result<bool> {
        if number >= self.bound {
            let bound = self.bound;
            return Err(Error::invalid(format!("number is {number}; it must be below {bound}")));
        }
        Ok(self.words.set(number))
    }

    /// Removes a number. Returns false if the set did not have it.
    pub fn remove(&self, number: u64) -> bool {
        number < self.bound && self.words.clear(number)
    }

    /// Returns true if the set has the number.
    pub fn contains(&self, number: u64) -> bool {
        number < self.bound && self.words.get(number)
    }

    /// Counts the numbers. This and the following methods read all bits, and may miss concurrent
    /// changes.
    pub fn len(&self) -> u64 {
        self.words.ones()
    }

    /// Returns true if the set has no number.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| word == 0)
    }

    /// Returns all numbers, the smallest first.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        (0..).step_by(64).zip(self.words.iter()).flat_map(|(first, mut word)| {
            std::iter::from_fn(move || {
                let bit = u64::from(word.trailing_zeros());
                // Without the lowest.
                word &= word.checked_sub(1)?;
                Some(first + bit)
            })
        })
    }

    /// Combines two sets into a new set, with the larger bound.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn combined(&self, operation: Operation, other: &Self) -> Result<Self> {
        let made = Self::new(self.bound.max(other.bound))?;
        let zeros = std::iter::repeat(0);
        let pairs = self.words.iter().chain(zeros.clone()).zip(other.words.iter().chain(zeros));
        made.words.fill(pairs.map(|(a, b)| match operation {
            Operation::And => a & b,
            Operation::Or => a | b,
            Operation::Xor => a ^ b,
            Operation::AndNot => a & !b,
        }));
        Ok(made)
    }
}
