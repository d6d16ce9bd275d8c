//! Bits in the memory of this process that many threads set and read at once, without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, Result};

/// A fixed number of bits.
#[derive(Debug)]
pub(crate) struct AtomicBits(Box<[AtomicU64]>);

impl AtomicBits {
    /// Creates `bits` bits, all 0. `field` names the setting in the error if there is not enough
    /// memory.
    pub(crate) fn new(field: &str, bits: u64) -> Result<Self> {
        let mut words = Vec::new();
        let count = usize::try_from(bits.div_ceil(64)).unwrap_or(usize::MAX);
        if count > isize::MAX as usize / 8 || words.try_reserve_exact(count).is_err() {
            let bytes = bits.div_ceil(8);
            return Err(Error::invalid(format!(
                "{field}: cannot allocate {bytes} bytes of memory; use a smaller value"
            )));
        }
        words.resize_with(count, || AtomicU64::new(0));
        Ok(Self(words.into_boxed_slice()))
    }

    /// Sets a bit. Returns true if it was 0. A thread that finds the bit set also sees what the
    /// thread that set it did before.
    pub(crate) fn set(&self, bit: u64) -> bool {
        let (word, mask) = self.at(bit);
        // Most are set already in a filter that is used; a read does not take the line from others.
        word.load(Ordering::Acquire) & mask == 0
            && word.fetch_or(mask, Ordering::AcqRel) & mask == 0
    }

    /// Clears a bit. Returns true if it was 1.
    pub(crate) fn clear(&self, bit: u64) -> bool {
        let (word, mask) = self.at(bit);
        word.fetch_and(!mask, Ordering::AcqRel) & mask != 0
    }

    pub(crate) fn get(&self, bit: u64) -> bool {
        let (word, mask) = self.at(bit);
        word.load(Ordering::Acquire) & mask != 0
    }

    /// Replaces all bits by these words.
    pub(crate) fn fill(&self, words: impl Iterator<Item = u64>) {
        self.0.iter().zip(words).for_each(|(word, new)| word.store(new, Ordering::Release));
    }

    /// Counts the bits that are 1.
    pub(crate) fn ones(&self) -> u64 {
        self.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Returns 64 bits at a time, the lowest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|word| word.load(Ordering::Acquire))
    }

    fn at(&self, bit: u64) -> (&AtomicU64, u64) {
        (&self.0[(bit / 64) as usize], 1 << (bit % 64))
    }
}
