//! What a filter's keys tell of themselves: which filling they belong to, and what state it is in.

use leasehold_cache_redis::ServerRun;
use leasehold_core::random;
use xxhash_rust::xxh64::xxh64;

use super::shape::Shape;

/// Before the bits of each shard.
pub(super) const STAMP_BITS: u64 = 64;
/// A string of Redis is 512 MB at most, and `BITFIELD` counts to 2^32.
pub(super) const SHARD_BITS: u64 = (1 << 32) - STAMP_BITS;
pub(super) const MOST_SHARDS: u64 = 64;
/// The states that a stamp tells in its last two bits.
pub(super) const BUILDING: i64 = 1;
pub(super) const READY: i64 = 2;
/// Used, and to be added to beside the next.
pub(super) const DOUBLED: i64 = 3;
const STATE: i64 = 3;

/// One filling of a filter: a rebuilt filter is another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Generation {
    epoch: u64,
    /// Of a window: the run of the server in which it is used. In another run it is another one.
    run: Option<ServerRun>,
    pub(super) shape: Shape,
}

/// Which generations there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// `None`: it was lost, and is being built anew.
    pub(super) current: Option<Generation>,
    pub(super) next: Option<Generation>,
    /// The server's run since which the current one has taken all that was added.
    pub(super) run: String,
}

/// The stamps that commands have seen, by shard, and in which run of the server.
#[derive(Debug)]
pub(super) struct Stamps(pub(super) Vec<(u64, i64)>, pub(super) ServerRun);

impl Generation {
    /// Of a name that was not there before.
    pub(super) fn new(shape: Shape) -> Self {
        Self { epoch: random::fresh(), run: None, shape }
    }

    pub(super) fn of_window(window: u64, run: ServerRun, shape: Shape) -> Self {
        Self { epoch: window, run: Some(run), shape }
    }

    /// What its keys are named by.
    pub(super) fn name(&self) -> String {
        match self.run {
            Some(run) => format!("{:016x}-{}", self.epoch, run.text()),
            None => format!("{:016x}", self.epoch),
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn text(&self) -> String {
        let Shape { bits, shards, hashes } = self.shape;
        format!("{:016x} {bits} {shards} {hashes}", self.epoch)
    }

    pub(super) fn read(text: &str) -> Option<Self> {
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

    /// What stands at the beginning of a shard: of this generation alone.
    pub(super) fn stamp(&self, shard: u64, state: i64) -> i64 {
        let text = format!("leasehold-bloom 1 {} {shard}", self.text());
        xxh64(text.as_bytes(), 0) as i64 & !STATE | state
    }

    pub(super) fn stamps(&self, state: i64) -> impl Iterator<Item = [u8; 8]> + use<'_> {
        (0..self.shape.shards).map(move |shard| self.stamp(shard, state).to_be_bytes())
    }
}

impl Stamps {
    /// Whether the generation is also to be added to beside the next; `None` when not all that
    /// was asked is there.
    pub(super) fn all(&self, of: &Generation) -> Option<bool> {
        let own = |(shard, stamp): &(u64, i64)| stamp & !STATE == of.stamp(*shard, 0);
        let doubled = || self.0.iter().any(|(_, stamp)| stamp & STATE == DOUBLED);
        self.0.iter().all(own).then(doubled)
    }

    /// Whether one is neither of this generation nor none at all.
    pub(super) fn foreign(&self, of: &Generation) -> bool {
        let other =
            |(shard, stamp): &(u64, i64)| *stamp != 0 && stamp & !STATE != of.stamp(*shard, 0);
        self.0.iter().any(other)
    }

    /// Whether all are used for questions.
    pub(super) fn used(&self, of: &Generation) -> bool {
        self.all(of).is_some() && self.0.iter().all(|(_, stamp)| stamp & STATE != BUILDING)
    }
}
