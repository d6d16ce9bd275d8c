//! What part of a lock a hold has: all of it, a read that it shares, or slots of a semaphore.

use std::fmt;
use std::str::FromStr;

/// The slots that fit into a [`Part`].
pub(crate) const SLOTS: u32 = 64;

/// The part of a lock that a hold has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Part {
    /// A lock, or a read-write lock to write.
    #[default]
    Whole,
    /// A read-write lock to read.
    Read,
    /// Slots of a semaphore, a bit for each.
    Slots(u64),
}

impl Part {
    /// Of slots below [`SLOTS`]; others do not count.
    pub(crate) fn of_slots(slots: &[u32]) -> Self {
        let bits = slots.iter().filter(|slot| **slot < SLOTS).map(|slot| 1u64 << slot);
        Self::Slots(bits.sum())
    }

    /// Whether two holds may not be at the same time.
    pub(crate) fn conflicts(self, other: Self) -> bool {
        match (self, other) {
            (Self::Read, Self::Read) => false,
            (Self::Slots(one), Self::Slots(other)) => one & other != 0,
            _ => true,
        }
    }

    /// What has tokens of its own: each slot, or the lock.
    pub(crate) fn tracks(self) -> impl Iterator<Item = u32> {
        let bits = if let Self::Slots(bits) = self { bits } else { 1 };
        (0..SLOTS).filter(move |slot| bits >> slot & 1 == 1)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("whole"),
            Self::Read => f.write_str("read"),
            Self::Slots(bits) => write!(f, "slots-{bits:x}"),
        }
    }
}

impl FromStr for Part {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "whole" => Ok(Self::Whole),
            "read" => Ok(Self::Read),
            _ => {
                let bits = text.strip_prefix("slots-").ok_or(())?;
                u64::from_str_radix(bits, 16).map(Self::Slots).map_err(drop)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_a_lock_and_permits_a_semaphore_but_no_slot() {
        let slots = Part::of_slots;
        assert!(!Part::Read.conflicts(Part::Read) && Part::Read.conflicts(Part::Whole));
        assert!(Part::Whole.conflicts(Part::Whole) && Part::Whole.conflicts(Part::Read));
        assert!(!slots(&[0, 2]).conflicts(slots(&[1, 3])));
        assert!(slots(&[0, 2]).conflicts(slots(&[2])));
        assert_eq!(slots(&[0, 3]).tracks().collect::<Vec<_>>(), [0, 3]);
    }

    #[test]
    fn a_part_is_read_as_it_was_written() {
        for part in [Part::Whole, Part::Read, Part::of_slots(&[0, 4, 63])] {
            assert_eq!(part.to_string().parse(), Ok(part));
        }
        assert!("slots".parse::<Part>().is_err());
    }
}
