//! The generation of a filter's data and its state, as recorded in the filter's keys.

use leasehold_cache_redis::ServerRun;
use leasehold_core::random;
use xxhash_rust::xxh64::xxh64;

use super::shape::Shape;

/// The size of the stamp at the start of each shard.
pub(super) const STAMP_BITS: u64 = 64;
/// The bits of a shard: a Redis string has at most 512 MB, and `BITFIELD` counts to 2^32.
pub(super) const SHARD_BITS: u64 = (1 << 32) - STAMP_BITS;
pub(super) const MOST_SHARDS: u64 = 64;
/// The states that a stamp stores in its last two bits.
pub(super) const BUILDING: i64 = 1;
pub(super) const READY: i64 = 2;
/// In use, and additions must also go into the next generation.
pub(super) const DOUBLED: i64 = 3;
const STATE: i64 = 3;

/// One generation of a filter: every rebuild makes a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    epoch: u64,
    /// For a rotating filter: the server run in which the generation is used. In another run it is
    /// another generation.
    run: Option<ServerRun>,
    pub(crate) shape: Shape,
}

/// The generations that exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// `None` if it was lost and is being rebuilt.
    pub(super) current: Option<Generation>,
    pub(super) next: Option<Generation>,
    /// The server run since which the current generation has every item that was added.
    pub(super) run: String,
}

/// The stamps that commands read, by shard, and the server run in which they were read.
#[derive(Debug)]
pub(super) struct Stamps(pub(super) Vec<(u64, i64)>, pub(super) ServerRun);

impl Generation {
    /// Creates a generation for a name that did not exist before.
    pub(super) fn new(shape: Shape) -> Self {
        Self { epoch: random::fresh(), run: None, shape }
    }

    pub(super) fn of_window(window: u64, run: ServerRun, shape: Shape) -> Self {
        Self { epoch: window, run: Some(run), shape }
    }

    /// Returns the part of the key names that belongs to this generation.
    pub(crate) fn name(&self) -> String {
        match self.run {
            Some(run) => format!("{:016x}-{}", self.epoch, run.text()),
            None => format!("{:016x}", self.epoch),
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn text(&self) -> String {
        let Shape { bits, shards, hashes } = self.shape;
        format!("{:016x} {bits} {shards} {hashes}", self.epoch)
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let epoch = u64::from_str_radix(words.next()?, 16).ok()?;
        let mut number = || words.next()?.parse::<u64>().ok();
        let (bits, shards) = (number()?, number()?);
        let hashes = u32::try_from(number()?).ok()?;
        let sound = (1..=SHARD_BITS).contains(&bits)
            && (1..=MOST_SHARDS).contains(&shards)
            && (1..=64).contains(&hashes);
        let generation = Self { epoch, run: None, shape: Shape { bits, shards, hashes } };
        (sound && generation.text() == text).then_some(generation)
    }

    /// Returns the stamp of a shard, which only this generation has.
    pub(super) fn stamp(&self, shard: u64, state: i64) -> i64 {
        let text = format!("leasehold-bloom 1 {} {shard}", self.text());
        xxh64(text.as_bytes(), 0) as i64 & !STATE | state
    }

    pub(crate) fn stamps(&self, state: i64) -> impl Iterator<Item = [u8; 8]> + use<'_> {
        (0..self.shape.shards).map(move |shard| self.stamp(shard, state).to_be_bytes())
    }
}

impl Stamps {
    /// Returns whether additions must also go into the next generation; `None` if a shard is
    /// missing.
    pub(super) fn all(&self, of: &Generation) -> Option<bool> {
        let own = |(shard, stamp): &(u64, i64)| stamp & !STATE == of.stamp(*shard, 0);
        let doubled = || self.0.iter().any(|(_, stamp)| stamp & STATE == DOUBLED);
        self.0.iter().all(own).then(doubled)
    }

    /// Returns true if a shard holds other data than this generation, and is not empty.
    pub(super) fn foreign(&self, of: &Generation) -> bool {
        let other =
            |(shard, stamp): &(u64, i64)| *stamp != 0 && stamp & !STATE != of.stamp(*shard, 0);
        self.0.iter().any(other)
    }

    /// Returns true if all shards are in use for checks.
    pub(super) fn used(&self, of: &Generation) -> bool {
        self.all(of).is_some() && self.0.iter().all(|(_, stamp)| stamp & STATE != BUILDING)
    }
}
