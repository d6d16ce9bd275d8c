//! The state of a latch as people see it, read from its stored value.

use leasehold_proto::latch::{self as record, NotALatch};

use crate::{Error, ErrorKind};

/// The state of a latch, of [`Latch::state`](crate::Latch::state).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LatchState {
    /// The generation that is counted down now, or is complete.
    pub generation: u64,
    /// How many parties must count down.
    pub parties: u32,
    /// How many of them have yet to do so. 0: the generation is complete.
    pub missing: u32,
    /// The parties that have counted down, in the order of their bytes.
    pub counted: Vec<String>,
}

impl LatchState {
    pub(crate) fn of(latch: &record::Latch) -> Self {
        Self {
            generation: latch.generation(),
            parties: latch.parties(),
            missing: latch.missing(),
            counted: latch.counted().map(str::to_owned).collect(),
        }
    }
}

/// Reads the state of a latch from a stored value; `None` if it is no latch of this version.
pub(crate) fn state_of(bytes: &[u8]) -> Option<LatchState> {
    record::Latch::decode(bytes).ok().as_ref().map(LatchState::of)
}

/// Describes a stored value for the note of a status; engines use [`Status::of_latch`](crate::Status::of_latch).
pub fn describe(bytes: &[u8]) -> Option<String> {
    let latch = match record::Latch::decode(bytes) {
        Ok(latch) => latch,
        Err(NotALatch::Newer) => return Some(not_a_latch(NotALatch::Newer).message().to_owned()),
        Err(NotALatch::Foreign) => return None,
    };
    Some(format!(
        "the name belongs to a latch: {} of {} parties are missing in generation {}",
        latch.missing(),
        latch.parties(),
        latch.generation()
    ))
}

/// Returns the error for bytes that are not a latch of this version.
pub(crate) fn not_a_latch(why: NotALatch) -> Error {
    let what = match why {
        NotALatch::Foreign => {
            "the value under this name is not a latch of leasehold; use another name"
        }
        NotALatch::Newer => "a newer version of leasehold wrote this latch; use that version",
    };
    Error::new(ErrorKind::Foreign, what)
}
