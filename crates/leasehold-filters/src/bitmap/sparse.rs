//! A set of any numbers in the memory of this process, compressed.

use std::fmt;

use roaring::RoaringTreemap;

use super::Operation;

/// A set of numbers by Roaring bitmaps ("Better bitmap performance with Roaring bitmaps", S. Chambi,
/// D. Lemire, O. Kaser and R. Godin, 2016).
#[derive(Clone, Default, PartialEq)]
pub struct Sparse(RoaringTreemap);

impl Sparse {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Inserts a number. Returns false if the set already had it.
    pub fn insert(&mut self, number: u64) -> bool {
        self.0.insert(number)
    }

    /// Removes a number. Returns false if the set did not have it.
    pub fn remove(&mut self, number: u64) -> bool {
        self.0.remove(number)
    }

    /// Returns true if the set has the number.
    pub fn contains(&self, number: u64) -> bool {
        self.0.contains(number)
    }

    /// Counts the numbers.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Returns true if the set has no number.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all numbers, the smallest first.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter()
    }

    /// Combines two sets into a new set.
    #[must_use]
    pub fn combined(&self, operation: Operation, other: &Self) -> Self {
        let (Self(a), Self(b)) = (self, other);
        Self(match operation {
            Operation::And => a & b,
            Operation::Or => a | b,
            Operation::Xor => a ^ b,
            Operation::AndNot => a - b,
        })
    }
}

impl FromIterator<u64> for Sparse {
    fn from_iter<I: IntoIterator<Item = u64>>(numbers: I) -> Self {
        Self(numbers.into_iter().collect())
    }
}

impl Extend<u64> for Sparse {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, numbers: I) {
        self.0.extend(numbers);
    }
}

impl fmt::Debug for Sparse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sparse").field("len", &self.len()).finish_non_exhaustive()
    }
}
