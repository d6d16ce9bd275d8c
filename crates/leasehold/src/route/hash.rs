//! The numbers that decide who owns a key; every language that routes computes the same ones.

use xxhash_rust::xxh64::xxh64;

/// A key, put down once for all members.
pub(super) struct Key {
    bytes: Vec<u8>,
    length: usize,
}

impl Key {
    pub(super) fn new(key: &[u8]) -> Self {
        // No name has a zero byte: two pairs never give the same bytes.
        let bytes = [key, &[0]].concat();
        Self { length: bytes.len(), bytes }
    }

    /// XXH64 with seed 0 of the key, one zero byte, and the member's name in UTF-8.
    pub(super) fn with(&mut self, member: &str) -> u64 {
        self.bytes.truncate(self.length);
        self.bytes.extend_from_slice(member.as_bytes());
        xxh64(&self.bytes, 0)
    }
}

/// How long a member of this weight takes to ask for the key; the first one gets it.
///
/// The hash's upper 53 bits are a number in (0, 1], its negative logarithm an exponential waiting
/// time, and the weight how fast that runs: members come first in proportion to their weights.
pub(super) fn delay(hash: u64, weight: f64) -> f64 {
    let unit = ((hash >> 11) + 1) as f64 / (1_u64 << 53) as f64; // exact
    -unit.ln() / weight
}
