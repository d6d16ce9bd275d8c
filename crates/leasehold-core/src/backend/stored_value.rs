//! Values that engines store for primitives whose rules the client applies itself, such as latches.

use std::time::Duration;

use crate::{Error, ErrorKind, Name};

/// A request to replace the value of a name if it is still the one that the client has read.
///
/// It may be repeated: a repeat finds the new value, and is answered as not replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueSwap {
    /// The name that the value is stored under.
    pub name: Name,
    /// The value that the client has read; `None` if there was none.
    pub seen: Option<Vec<u8>>,
    /// The value to store, at most [`MAX_BYTES`](Self::MAX_BYTES).
    pub next: Vec<u8>,
    /// How long the store keeps the value from now on, by its own clock. It may keep it longer, but then does not
    /// show it.
    pub ttl: Duration,
}

impl ValueSwap {
    /// The most bytes of a value.
    pub const MAX_BYTES: usize = 96 * 1024;

    /// Creates a request.
    pub fn new(name: Name, seen: Option<Vec<u8>>, next: Vec<u8>, ttl: Duration) -> Self {
        Self { name, seen, next, ttl }
    }
}

pub use leasehold_proto::latch::is_newer as is_a_newer_latch;

/// Returns the error for a latch whose name is that of a lock or a semaphore.
pub fn is_no_latch() -> Error {
    let message = "the name belongs to a lock or a semaphore, and this client asks for a latch: use another name for \
                   the latch";
    Error::new(ErrorKind::Invalid, message)
}

/// Returns the error for a lock or a semaphore whose name is that of a latch.
pub fn is_a_latch() -> Error {
    let message = "the name belongs to a latch: use another name for the lock or the semaphore";
    Error::new(ErrorKind::Invalid, message)
}
