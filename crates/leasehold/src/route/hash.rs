//! The hash and the weighting that select a key's owner. Every language computes the same values.

use xxhash_rust::xxh64::xxh64;

/// A key, prepared once for all members.
pub(super) struct Key {
    bytes: Vec<u8>,
    length: usize,
}

impl Key {
    pub(super) fn new(key: &[u8]) -> Self {
        // A name has no zero byte, so two pairs never have the same bytes.
        let bytes = [key, &[0]].concat();
        Self { length: bytes.len(), bytes }
    }

    /// Returns XXH64 with seed 0 of the key, one zero byte, and the member's name in UTF-8.
    pub(super) fn with(&mut self, member: &str) -> u64 {
        self.bytes.truncate(self.length);
        self.bytes.extend_from_slice(member.as_bytes());
        xxh64(&self.bytes, 0)
    }
}

/// Returns the waiting time of a member of this weight; the member with the shortest owns the key.
///
/// The hash's upper 53 bits are a number in (0, 1]. Its negative logarithm is an exponentially
/// distributed waiting time, divided by the weight. So each member is first in proportion to its
/// weight.
pub(super) fn delay(hash: u64, weight: f64) -> f64 {
    let unit = ((hash >> 11) + 1) as f64 / (1_u64 << 53) as f64; // exact
    -unit.ln() / weight
}
