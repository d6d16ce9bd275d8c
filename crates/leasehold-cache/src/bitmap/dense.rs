//! A bit for each number below a bound, in this process.

use super::Operation;
use crate::words::Words;
use crate::{Error, Result};

/// A set of numbers below a bound, that many threads write and read at once without waiting.
#[derive(Debug)]
pub struct Dense {
    bound: u64,
    words: Words,
}

impl Dense {
    /// For numbers below `bound`, of which there is none yet. Takes `bound / 8` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when there is no memory for it.
    pub fn new(bound: u64) -> Result<Self> {
        Ok(Self { bound, words: Words::new(&format!("bound is {bound}"), bound)? })
    }

    /// Puts a number in; false when it was there.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a number that is not below the bound.
    pub fn insert(&self, number: u64) -> Result<bool> {
        if number >= self.bound {
            let bound = self.bound;
            return Err(Error::invalid(format!("number is {number}; allowed is below {bound}")));
        }
        Ok(self.words.set(number))
    }

    /// Takes a number out; false when it was not there.
    pub fn remove(&self, number: u64) -> bool {
        number < self.bound && self.words.clear(number)
    }

    /// Whether it is there.
    pub fn contains(&self, number: u64) -> bool {
        number < self.bound && self.words.get(number)
    }

    /// How many there are. Reads all bits, as what follows; what others write meanwhile may be
    /// seen or not.
    pub fn len(&self) -> u64 {
        self.words.ones()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| word == 0)
    }

    /// All of them, the smallest first.
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

    /// A set of its own, with the larger bound.
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
