//! What a step does about other clients that change the same row.

/// What a step does about other clients that change the row before it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// It writes only if no other client wrote first.
    Nothing,
    /// It first marks the row as having waiters. No single statement takes or frees the lock then,
    /// until a step has written whether clients wait.
    Statements,
    /// It begins a transaction that locks all rows.
    Everything,
}
