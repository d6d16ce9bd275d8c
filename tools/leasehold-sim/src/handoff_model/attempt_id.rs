//! The ids of attempts, which say whose they are.

use leasehold_proto::{AttemptId, ClientId};

/// The client that an attempt belongs to; ids are made by [`attempt`].
pub(super) fn client_of(attempt: AttemptId) -> u8 {
    attempt.to_bytes()[7]
}

/// The attempt number `sequence` of a client.
pub(super) fn attempt(client: u8, sequence: u32) -> AttemptId {
    AttemptId::new(ClientId::from_bits(u64::from(client)), sequence, 0)
}
