//! The record of a latch: which parties have counted it down, and how often it was used before.
//!
//! An engine keeps the record as bytes and replaces it only if it is still the one that the client has read
//! (compare and set). So all rules are here, and a step that was repeated after a lost answer does nothing new: a
//! party is an element of a set, and a generation begins only when the one before is complete.

use std::collections::BTreeSet;
use std::fmt;

/// The first line of a record.
const HEADER: &str = "leasehold latch 1";
/// The first words of every version.
const KIND: &str = "leasehold latch ";

/// The state of a latch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latch {
    generation: u64,
    /// The generation that this record began with: those before it are not known to be complete.
    first: u64,
    parties: u32,
    counted: BTreeSet<String>,
}

/// What a client that names a generation learns about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// This many parties are still missing: 1 or more.
    Open(u32),
    /// All parties have counted it down.
    Complete,
    /// The record was removed or has expired before the generation was complete, as far as is known.
    Gone,
    /// No record ever had it.
    Unknown,
}

/// Returns true for the record of a latch of a newer version, or for its first 18 bytes.
pub fn is_newer(bytes: &[u8]) -> bool {
    let version = bytes.strip_prefix(KIND.as_bytes());
    version.is_some_and(|version| !version.starts_with(b"1\n"))
}

/// Bytes that are not a latch of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotALatch {
    /// They are something else, or damaged.
    Foreign,
    /// A newer version wrote them.
    Newer,
}

/// A party that may not be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAParty(String);

/// Why a generation does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotComplete {
    /// The parties that are still missing.
    pub missing: u32,
}

impl Latch {
    /// The largest number of parties.
    pub const MAX_PARTIES: u32 = 1_000;
    /// The longest name of a party, in bytes.
    pub const MAX_PARTY_BYTES: usize = 64;

    /// Begins a latch. `generation` should be larger than that of an earlier record of the same name: the time in
    /// milliseconds is.
    ///
    /// Returns `None` for a number of parties that is not allowed: 1 to [`MAX_PARTIES`](Self::MAX_PARTIES).
    pub fn new(parties: u32, generation: u64) -> Option<Self> {
        let (first, counted) = (generation, BTreeSet::new());
        (1..=Self::MAX_PARTIES).contains(&parties).then_some(Self {
            generation,
            first,
            parties,
            counted,
        })
    }

    /// Returns an error if a party may not be counted: a name has 1 to 64 bytes without control characters.
    pub fn check_party(party: &str) -> Result<(), NotAParty> {
        let fits = (1..=Self::MAX_PARTY_BYTES).contains(&party.len());
        match fits && !party.chars().any(char::is_control) {
            true => Ok(()),
            false => Err(NotAParty(party.to_owned())),
        }
    }

    /// The number of parties that must count down.
    pub fn parties(&self) -> u32 {
        self.parties
    }

    /// The generation that is counted down now.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The parties that have counted down, in the order of their bytes.
    pub fn counted(&self) -> impl Iterator<Item = &str> {
        self.counted.iter().map(String::as_str)
    }

    /// The number of parties that have yet to count down.
    pub fn missing(&self) -> u32 {
        self.parties - self.counted.len() as u32
    }

    /// What is known of a generation.
    pub fn round(&self, generation: u64) -> Round {
        match (generation.cmp(&self.generation), self.missing()) {
            (std::cmp::Ordering::Greater, _) => Round::Unknown,
            (std::cmp::Ordering::Equal, 0) => Round::Complete,
            (std::cmp::Ordering::Equal, missing) => Round::Open(missing),
            _ if generation >= self.first => Round::Complete,
            _ => Round::Gone,
        }
    }

    /// Counts a party of the current generation. Returns whether the record changed: a party counts once, and
    /// nothing counts below zero.
    ///
    /// # Errors
    /// As [`check_party`](Self::check_party).
    pub fn count_down(&mut self, party: &str) -> Result<bool, NotAParty> {
        Self::check_party(party)?;
        Ok(self.missing() > 0 && self.counted.insert(party.to_owned()))
    }

    /// Begins the generation after this one. Returns whether the record changed: a repeated reset does nothing.
    ///
    /// # Errors
    /// [`NotComplete`] if this is the current generation and parties are missing.
    pub fn reset(&mut self, generation: u64) -> Result<bool, NotComplete> {
        if generation != self.generation {
            return Ok(false);
        }
        match self.missing() {
            0 => {
                self.generation += 1;
                self.counted.clear();
                Ok(true)
            }
            missing => Err(NotComplete { missing }),
        }
    }

    /// Writes the record: a header, a line of numbers, and a line for each party that has counted down.
    pub fn encode(&self) -> Vec<u8> {
        let Self { generation, first, parties, counted } = self;
        let mut text = format!("{HEADER}\n{generation} {first} {parties}\n");
        for party in counted {
            text.push_str(party);
            text.push('\n');
        }
        text.into_bytes()
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`NotALatch`] for bytes that [`encode`](Self::encode) does not write.
    pub fn decode(bytes: &[u8]) -> Result<Self, NotALatch> {
        let text = str::from_utf8(bytes).map_err(|_| NotALatch::Foreign)?;
        let Some(rest) = text.strip_prefix(HEADER).and_then(|rest| rest.strip_prefix('\n')) else {
            return Err(if text.starts_with(KIND) { NotALatch::Newer } else { NotALatch::Foreign });
        };
        Self::body(rest).ok_or(NotALatch::Foreign)
    }

    fn body(rest: &str) -> Option<Self> {
        let (numbers, names) = rest.split_once('\n')?;
        let mut numbers = numbers.split(' ').map(|number| number.parse::<u64>().ok());
        let mut number = || numbers.next().flatten();
        let (generation, first, parties) = (number()?, number()?, number()?);
        let mut latch = Self::new(u32::try_from(parties).ok()?, generation)?;
        latch.first = first;
        let ends = names.is_empty() || names.ends_with('\n');
        for party in names.lines() {
            if !latch.count_down(party).ok()? {
                return None;
            }
        }
        // The next generation must have a number too.
        let in_order = first <= generation && generation < u64::MAX;
        let is_written = numbers.next().is_none() && ends && in_order;
        is_written.then_some(latch)
    }
}

impl fmt::Display for NotAParty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (party, most) = (&self.0, Latch::MAX_PARTY_BYTES);
        match party.len() {
            bytes if bytes == 0 || bytes > most => {
                write!(f, "party: must have 1 to {most} bytes, got {bytes}")
            }
            _ => write!(f, "party: {party:?} has control characters; use text without them"),
        }
    }
}

impl std::error::Error for NotAParty {}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn a_party_counts_once_however_often_it_is_repeated() {
        let mut latch = Latch::new(2, 7).unwrap();
        assert_eq!(latch.count_down("a"), Ok(true));
        assert_eq!(latch.count_down("a"), Ok(false));
        assert_eq!(latch.round(7), Round::Open(1));
        assert_eq!(latch.count_down("b"), Ok(true));
        assert_eq!((latch.round(7), latch.missing()), (Round::Complete, 0));
        assert_eq!(latch.count_down("c"), Ok(false), "nothing counts below zero");
    }

    #[test]
    fn a_generation_begins_only_at_zero_and_only_once() {
        let mut latch = Latch::new(1, 7).unwrap();
        assert_eq!(latch.reset(7), Err(NotComplete { missing: 1 }));
        latch.count_down("a").unwrap();
        assert_eq!(latch.reset(7), Ok(true));
        assert_eq!(latch.reset(7), Ok(false), "the repeat of a lost answer");
        assert_eq!(latch.round(7), Round::Complete);
        assert_eq!(latch.round(8), Round::Open(1));
        assert_eq!(latch.round(9), Round::Unknown);
        assert_eq!(latch.round(6), Round::Gone);
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let mut latch = Latch::new(3, 1_795_533_000_123).unwrap();
        latch.count_down("b b").unwrap();
        latch.count_down("a\u{2028}é").unwrap();
        let bytes = latch.encode();
        assert_eq!(Latch::decode(&bytes), Ok(latch.clone()));
        for end in 0..bytes.len() {
            let cut = Latch::decode(&bytes[..end]);
            assert_ne!(cut, Ok(latch.clone()), "cut at {end}");
        }
        for (bad, why) in [
            ("leasehold latch 2\n1 1 1\n", NotALatch::Newer),
            ("L1 something", NotALatch::Foreign),
            ("leasehold latch 1\n1 1 0\n", NotALatch::Foreign),
            ("leasehold latch 1\n1 2 1\n", NotALatch::Foreign),
            ("leasehold latch 1\n1 1 1 1\n", NotALatch::Foreign),
            ("leasehold latch 1\n1 1 2\na\na\n", NotALatch::Foreign),
            ("leasehold latch 1\n1 1 1\na\nb\n", NotALatch::Foreign),
            ("leasehold latch 1\n1 1 2\na", NotALatch::Foreign),
            ("leasehold latch 1\n1 1 99999999999\n", NotALatch::Foreign),
        ] {
            assert_eq!(Latch::decode(bad.as_bytes()), Err(why), "{bad:?}");
        }
    }

    #[test]
    fn bad_parties_and_numbers_change_nothing() {
        assert_eq!(Latch::new(0, 1), None);
        assert_eq!(Latch::new(1_001, 1), None);
        let mut latch = Latch::new(1, 1).unwrap();
        for party in ["", "a\nb", &"x".repeat(65)] {
            let error = latch.count_down(party).unwrap_err();
            assert!(error.to_string().starts_with("party: "), "{error}");
        }
        assert_eq!(latch.missing(), 1);
    }
}
