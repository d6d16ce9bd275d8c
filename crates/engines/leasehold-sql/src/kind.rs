//! What a name is: a lock, a semaphore or a latch. The row of the name in the table of locks decides,
//! so that a client of an earlier build, which knows locks alone, refuses the others.

use std::time::Duration;

use leasehold_core::Error;
use leasehold_core::backend::{is_a_latch, is_a_lock, is_a_semaphore, is_no_latch};

/// How long a name stays what it is after its last use, at least.
pub(crate) const RETENTION: Duration = Duration::from_secs(3600);

/// The kind of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Lock,
    Semaphore,
    Latch,
}

impl Kind {
    /// The states of the row of a semaphore, and of a latch. Locks have lower ones.
    const SEMAPHORE: i64 = 3;
    const LATCH: i64 = 4;

    /// Returns the kind of a state in a row.
    pub(crate) fn of_state(state: i64) -> Self {
        match state {
            Self::SEMAPHORE => Self::Semaphore,
            Self::LATCH => Self::Latch,
            _ => Self::Lock,
        }
    }

    /// Returns the state in the row of a semaphore or a latch.
    pub(crate) fn state(self) -> i64 {
        match self {
            Self::Lock => 0,
            Self::Semaphore => Self::SEMAPHORE,
            Self::Latch => Self::LATCH,
        }
    }

    /// Returns the error for a lock of a name that has this kind.
    pub(crate) fn refuses_lock(self) -> Error {
        match self {
            Self::Semaphore => is_a_semaphore(),
            Self::Lock | Self::Latch => is_a_latch(),
        }
    }

    /// Returns the error for a permit of a name that has this kind.
    pub(crate) fn refuses_permit(self) -> Error {
        match self {
            Self::Lock | Self::Semaphore => is_a_lock(),
            Self::Latch => is_a_latch(),
        }
    }

    /// Returns the error for a latch of a name that has this kind.
    pub(crate) fn refuses_latch(self) -> Error {
        is_no_latch()
    }
}
