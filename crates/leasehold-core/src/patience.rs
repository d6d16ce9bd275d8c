//! How long a caller that finds the lock taken keeps waiting.

use std::time::Duration;

use leasehold_proto::{Deadline, Now};

/// How long a caller that finds the lock taken keeps waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// It does not wait.
    None,
    /// It waits until this moment; `None` waits forever.
    Until(Option<Deadline>),
}

impl Patience {
    /// Returns until when the call may take. `once`: how long one that does not wait asks.
    pub(crate) fn end(self, start: Now, once: Duration) -> Option<Deadline> {
        match self {
            Self::None => Some(Deadline::after(start, once)),
            Self::Until(until) => until,
        }
    }
}
