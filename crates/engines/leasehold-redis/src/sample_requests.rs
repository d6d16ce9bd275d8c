//! Requests that several tests of this crate send.
use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, Origin};
use leasehold_core::{AttemptId, ClientId, Name};

/// A request that waits for the lock `a`, as the attempt of this number.
pub(crate) fn request(number: u32) -> AcquireRequest {
    AcquireRequest::new(
        Name::new("a").unwrap(),
        AttemptId::new(ClientId::from_bits(1), number, 0),
        Duration::from_secs(30),
    )
    .with_wait(true)
    .with_origin(Origin::new("host", 1, None))
}
