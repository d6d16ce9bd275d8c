//! How large a filter is, and which of its bits are an item's.

use xxhash_rust::xxh64::xxh64;

use crate::{Error, Result};

/// The size of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Of one shard.
    pub(super) bits: u64,
    pub(super) shards: u64,
    pub(super) hashes: u32,
}

/// How full a filter is, and what that means.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// All of its bits.
    pub bits: u64,
    /// How many bits an item has.
    pub hashes: u32,
    /// The share of bits that are set: half of them when it is as full as it was made for.
    pub fill: f64,
    /// How many different items were added, estimated from that ("Mathematical Correction for
    /// Fingerprint Similarity Measures", S. J. Swamidass and P. Baldi, 2007); infinite when every
    /// bit is set.
    pub items: f64,
    /// The error rate by now, estimated from that.
    pub error_rate: f64,
}

/// The hashes of an item, from which all of its bits come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashed(u64, u64);

impl Shape {
    /// One shard of any size.
    pub(super) fn whole(items: u64, error_rate: f64) -> Result<Self> {
        if items == 0 {
            return Err(Error::invalid("items is 0; allowed is 1 or more"));
        }
        if !(error_rate > 0.0 && error_rate < 1.0) {
            return Err(Error::invalid(format!(
                "error_rate is {error_rate}; allowed is more than 0 and less than 1"
            )));
        }
        let bits = |hashes: f64| {
            (-hashes * items as f64 / (-error_rate.powf(1.0 / hashes)).ln_1p()).ceil()
        };
        let hashes = (-error_rate.log2()).clamp(1.0, 64.0);
        let (few, many) = (hashes.floor(), hashes.ceil());
        let hashes = if bits(few) <= bits(many) { few } else { many };
        // Beyond 2^64 it is as many as there are: too many for anybody.
        let (bits, hashes) = (bits(hashes) as u64, hashes as u32);
        Ok(Self { bits: bits.max(64), shards: 1, hashes })
    }

    /// Shards of `most` bits each at most.
    pub(super) fn split(items: u64, error_rate: f64, most: u64) -> Result<Self> {
        let Self { bits, hashes, .. } = Self::whole(items, error_rate)?;
        let shards = bits.div_ceil(most);
        Ok(Self { bits: bits.div_ceil(shards), shards, hashes })
    }

    pub(super) fn shard(&self, item: Hashed) -> u64 {
        scale(item.word(0), self.shards)
    }

    /// The bits of an item in its shard.
    pub(super) fn places(&self, item: Hashed) -> impl Iterator<Item = u64> + use<> {
        let bits = self.bits;
        (1..=u64::from(self.hashes)).map(move |index| scale(item.word(index), bits))
    }

    /// What follows from so many set bits.
    pub(super) fn stats(&self, set: u64) -> Stats {
        let bits = self.bits * self.shards;
        let fill = (set as f64 / bits as f64).min(1.0);
        let hashes = f64::from(self.hashes);
        let items = bits as f64 / hashes * -(-fill).ln_1p();
        Stats { bits, hashes: self.hashes, fill, items, error_rate: fill.powf(hashes) }
    }
}

impl Hashed {
    pub(super) fn of(item: &[u8]) -> Self {
        Self(xxh64(item, 0), xxh64(item, 1))
    }

    fn word(self, index: u64) -> u64 {
        mix(self.0.wrapping_add(index.wrapping_mul(self.1)))
    }
}

/// The finalizer of MurmurHash3 (A. Appleby, public domain): every bit of it depends on all.
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    word = (word ^ (word >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ (word >> 33)
}

/// Evenly into `0..range` ("Fast Random Integer Generation in an Interval", D. Lemire, 2019).
fn scale(word: u64, range: u64) -> u64 {
    ((u128::from(word) * u128::from(range)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_formula() {
        for (items, rate, bits, hashes) in [
            (1_000_000, 0.01, 9_592_955, 7),
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
        assert_eq!((split.shards, split.bits), (10, 959_296));
    }

    #[test]
    fn what_makes_no_filter_is_named() {
        for rate in [0.0, 1.0, -0.1, 1.1, f64::NAN, f64::INFINITY] {
            let error = Shape::whole(10, rate).unwrap_err().to_string();
            assert!(error.starts_with("error_rate"), "{error}");
        }
        assert!(Shape::whole(0, 0.1).unwrap_err().to_string().starts_with("items"));
    }

    /// Computed by another program, from the page of the module alone.
    #[test]
    fn other_languages_find_the_same_bits() {
        let shape = Shape { bits: 959_296, shards: 10, hashes: 4 };
        let bits = |item: &str| {
            let item = Hashed::of(item.as_bytes());
            (shape.shard(item), shape.places(item).collect::<Vec<_>>())
        };
        assert_eq!(bits(""), (6, vec![190_242, 529_462, 924_999, 821_227]));
        assert_eq!(bits("user/42"), (2, vec![124_924, 490_935, 680_761, 236_826]));
        assert_eq!(bits("库存"), (6, vec![839_748, 336_276, 411_629, 138_758]));
    }
}
