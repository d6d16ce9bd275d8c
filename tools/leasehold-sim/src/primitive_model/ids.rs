//! The ids of attempts, which name their clients.

use leasehold_proto::{AttemptId, ClientId};

/// The id of the operator, among those of clients.
pub(super) const OPERATOR: u8 = u8::MAX;

/// The attempt number `sequence` of a client.
pub(super) fn attempt(client: u8, sequence: u32) -> AttemptId {
    AttemptId::new(ClientId::from_bits(u64::from(client)), sequence, 0)
}

/// The client that an attempt belongs to.
pub(super) fn client_of(attempt: AttemptId) -> u8 {
    attempt.to_bytes()[7]
}
