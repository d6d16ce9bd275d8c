//! Any numbers, in this process, in as little memory as they need.

use std::fmt;

use roaring::RoaringTreemap;

use super::Operation;

/// A set of numbers by Roaring bitmaps ("Better bitmap performance with Roaring bitmaps", S. Chambi,
/// D. Lemire, O. Kaser and R. Godin, 2016).
#[derive(Clone, Default, PartialEq)]
pub struct Sparse(RoaringTreemap);

impl Sparse {
    /// No number.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a number in; false when it was there.
    pub fn insert(&mut self, number: u64) -> bool {
        self.0.insert(number)
    }

    /// Takes a number out; false when it was not there.
    pub fn remove(&mut self, number: u64) -> bool {
        self.0.remove(number)
    }

    /// Whether it is there.
    pub fn contains(&self, number: u64) -> bool {
        self.0.contains(number)
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, the smallest first.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter()
    }

    /// A set of its own.
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
