//! Readers of input from outside, for fuzz targets alone: a program must not use this module.

use leasehold_core::fuzzing::Target;

/// The targets of this crate.
pub const TARGETS: &[Target] = &[
    #[cfg(feature = "nats")]
    ("outbox-message", message),
    #[cfg(feature = "nats")]
    ("outbox-url", url),
];

/// The body of a message.
#[cfg(feature = "nats")]
fn message(input: &[u8]) {
    use crate::nats::message::{read, write};
    let Ok(change) = read(input) else { return };
    let again = write(&change).ok().map(|body| read(&body));
    assert_eq!(again, Some(Ok(change)), "a change is read back");
}

#[cfg(feature = "nats")]
fn url(input: &[u8]) {
    let text = leasehold_core::fuzzing::text(input);
    if leasehold_core::fuzzing::store_url(input).is_some() {
        let _ = crate::nats::url::NatsUrl::parse(&text);
    }
}
