//! The numbers that decide who owns a key; every language that routes computes the same ones.

use xxhash_rust::xxh64::Xxh64;

/// A key, hashed as far as it is the same for all members.
pub(super) struct Key(Xxh64);

impl Key {
    pub(super) fn new(key: &[u8]) -> Self {
        let mut state = Xxh64::new(0);
        state.update(key);
        state.update(&[0]); // No name has a zero byte: two pairs never give the same bytes.
        Self(state)
    }

    /// XXH64 with seed 0 of the key, one zero byte, and the member's name in UTF-8.
    pub(super) fn with(&self, member: &str) -> u64 {
        let mut state = self.0.clone();
        state.update(member.as_bytes());
        state.digest()
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
