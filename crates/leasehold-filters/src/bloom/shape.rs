//! The size of a filter, and the bits of each item.

use xxhash_rust::xxh64::xxh64;

use crate::{Error, Result};

/// The longest distance of the two bits of a pair, so that Redis reads them as one number of at
/// most 63 bits.
const APART: u64 = 62;

/// The size of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The bits of one shard.
    pub(super) bits: u64,
    pub(super) shards: u64,
    pub(super) hashes: u32,
}

/// Measures how full a filter is, and its error rate.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The number of all bits.
    pub bits: u64,
    /// The number of bits of an item.
    pub hashes: u32,
    /// The share of bits that are set: one half if the filter is as full as it was made for.
    pub fill: f64,
    /// The number of different items that were added, estimated from `fill` ("Mathematical
    /// Correction for Fingerprint Similarity Measures", S. J. Swamidass and P. Baldi, 2007);
    /// infinite if every bit is set.
    pub items: f64,
    /// The current error rate, estimated from `fill`.
    pub error_rate: f64,
}

/// The hash values of an item, from which all of its bits are computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hashed(u64, u64);

impl Shape {
    /// Returns the size of a filter with one shard, without an upper limit.
    pub(super) fn whole(items: u64, error_rate: f64) -> Result<Self> {
        if items == 0 {
            return Err(Error::invalid("items is 0; 1 or more is allowed"));
        }
        if !(error_rate > 0.0 && error_rate < 1.0) {
            return Err(Error::invalid(format!(
                "error_rate is {error_rate}; more than 0 and less than 1 is allowed"
            )));
        }
        let bits =
            |hashes: u32| (f64::from(hashes) * items as f64 / load(hashes, error_rate)).ceil();
        let hashes = (-error_rate.log2()).clamp(1.0, 64.0);
        let (few, many) = (hashes.floor() as u32, hashes.ceil() as u32);
        let hashes = if bits(few) <= bits(many) { few } else { many };
        // A larger result than 2^64 saturates, and is refused as too large.
        Ok(Self { bits: (bits(hashes) as u64).max(64), shards: 1, hashes })
    }

    /// Returns the size of a filter with shards of at most `most` bits each.
    pub(super) fn split(items: u64, error_rate: f64, most: u64) -> Result<Self> {
        let Self { bits, hashes, .. } = Self::whole(items, error_rate)?;
        let shards = bits.div_ceil(most);
        Ok(Self { bits: bits.div_ceil(shards), shards, hashes })
    }

    pub(crate) fn shard(&self, item: Hashed) -> u64 {
        scale(item.word(0), self.shards)
    }

    /// Returns the positions of an item's bits in its shard.
    pub(crate) fn places(&self, item: Hashed) -> impl Iterator<Item = u64> + use<> {
        self.pairs(item).flat_map(|(one, other)| [Some(one), other]).flatten()
    }

    /// Returns the same bits as numbers to read: the offset of each number and its width. The first
    /// and the last bit of each number belong to the item.
    pub(crate) fn reads(&self, item: Hashed) -> impl Iterator<Item = (u64, u64)> + use<> {
        let both = |(one, other)| match other {
            Some(other) if other > one => [Some((one, other - one + 1)), None],
            // The second is at the beginning, for the first is at the end.
            other => [Some((one, 1)), other.map(|other| (other, 1))],
        };
        self.pairs(item).flat_map(both).flatten()
    }

    /// Returns the bits in pairs; if their number is odd, the last is alone.
    fn pairs(&self, item: Hashed) -> impl Iterator<Item = (u64, Option<u64>)> + use<> {
        let (bits, hashes) = (self.bits, u64::from(self.hashes));
        (1..=hashes.div_ceil(2)).map(move |number| {
            let word = item.word(number);
            // The high bits of the word make the first, the low ones the second.
            let one = scale(word, bits);
            let other = (one + 1 + word % APART) % bits;
            (one, (2 * number <= hashes).then_some(other))
        })
    }

    /// Computes the statistics of a filter with `set` bits that are 1.
    pub(crate) fn stats(&self, set: u64) -> Stats {
        let bits = self.bits * self.shards;
        let fill = (set as f64 / bits as f64).min(1.0);
        let load = -(-fill).ln_1p();
        let items = bits as f64 / f64::from(self.hashes) * load;
        let error_rate = if fill < 1.0 { error_rate(self.hashes, load) } else { 1.0 };
        Stats { bits, hashes: self.hashes, fill, items, error_rate }
    }
}

/// Returns the error rate of a filter whose bits were set `load` times on average: the bits of all
/// items divided by the number of bits.
fn error_rate(hashes: u32, load: f64) -> f64 {
    let (pairs, alone) = (hashes / 2, hashes % 2);
    // That one bit is not set, and that two are not that may be a pair: a little likelier than twice by
    // chance, since some pairs are those very two.
    let one = (-load).exp();
    let among = f64::from(pairs) / f64::from(hashes) / APART as f64;
    let both = one * one * (load * among).exp();
    (1.0 - 2.0 * one + both).powf(f64::from(pairs)) * (1.0 - one).powf(f64::from(alone))
}

/// Returns the load at which a filter has this error rate.
fn load(hashes: u32, rate: f64) -> f64 {
    let (mut low, mut high) = (0.0, 800.0);
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return high;
        }
        if error_rate(hashes, middle) < rate { low = middle } else { high = middle }
    }
}

impl Hashed {
    pub(crate) fn of(item: &[u8]) -> Self {
        Self(xxh64(item, 0), xxh64(item, 1))
    }

    fn word(self, index: u64) -> u64 {
        mix(self.0.wrapping_add(index.wrapping_mul(self.1)))
    }
}

/// The finalizer of MurmurHash3 (A. Appleby, public domain): each output bit depends on all input
/// bits.
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    word = (word ^ (word >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ (word >> 33)
}

/// Maps a number evenly to `0..range` ("Fast Random Integer Generation in an Interval", D. Lemire,
/// 2019).
fn scale(word: u64, range: u64) -> u64 {
    ((u128::from(word) * u128::from(range)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_formula() {
        for (items, rate, bits, hashes) in [
            (1_000_000, 0.01, 9_619_568, 7),
            (1_000, 0.5, 1_443, 1),
            (1_000, 0.9, 435, 1),
            (1, 0.01, 64, 6),
        ] {
            let shape = Shape::whole(items, rate).unwrap();
            assert_eq!((shape.bits, shape.hashes), (bits, hashes), "{items} at {rate}");
        }
        let tiny = Shape::whole(10, f64::MIN_POSITIVE).unwrap();
        assert_eq!(tiny.hashes, 64);
        let split = Shape::split(1_000_000, 0.01, 1 << 20).unwrap();
        assert_eq!((split.shards, split.bits), (10, 961_957));
    }

    #[test]
    fn what_makes_no_filter_is_named() {
        for rate in [0.0, 1.0, -0.1, 1.1, f64::NAN, f64::INFINITY] {
            let error = Shape::whole(10, rate).unwrap_err().to_string();
            assert!(error.starts_with("error_rate"), "{error}");
        }
        assert!(Shape::whole(0, 0.1).unwrap_err().to_string().starts_with("items"));
    }

    #[test]
    fn what_is_read_are_the_bits_of_an_item() {
        for (bits, hashes) in [(64, 6), (70, 7), (1_000, 1), (961_957, 10)] {
            let shape = Shape { bits, shards: 1, hashes };
            for item in 0..2_000_u32 {
                let item = Hashed::of(&item.to_be_bytes());
                let ends = |(place, width): (u64, u64)| {
                    assert!(
                        width <= 63 && place + width <= bits,
                        "{width} bits at {place} of {bits}"
                    );
                    [Some(place), (width > 1).then_some(place + width - 1)]
                };
                let read: Vec<u64> = shape.reads(item).flat_map(ends).flatten().collect();
                assert_eq!(read, shape.places(item).collect::<Vec<_>>());
                assert_eq!(read.len(), hashes as usize);
            }
        }
    }

    /// Computed by another program, from the page of the module alone.
    #[test]
    fn other_languages_find_the_same_bits() {
        let shape = Shape { bits: 959_296, shards: 10, hashes: 5 };
        let bits = |item: &str| {
            let item = Hashed::of(item.as_bytes());
            (shape.shard(item), shape.places(item).collect::<Vec<_>>())
        };
        assert_eq!(bits(""), (6, vec![190_242, 190_286, 529_462, 529_467, 924_999]));
        assert_eq!(bits("user/42"), (2, vec![124_924, 124_973, 490_935, 490_965, 680_761]));
        assert_eq!(bits("库存"), (6, vec![839_748, 839_799, 336_276, 336_304, 411_629]));
    }
}
