//! Readers of input from outside, for fuzz targets alone: a program must not use this module.

use leasehold_core::fuzzing::{Target, text};

use crate::Codec;
use crate::server_run::ServerRun;

/// The targets of this crate.
pub const TARGETS: &[Target] = &[("cache-value", value)];

/// What a value may be: parts of every kind.
type Parts = (u64, i32, String, Option<Vec<u16>>, Vec<(bool, f64)>);

/// An encoded value, and what a server says about itself.
fn value(input: &[u8]) {
    let _ = ServerRun::read(&text(input));
    if let Some(parts) = Codec::Postcard.decode::<Parts>(input) {
        assert!(Codec::Postcard.encode(&parts).is_ok(), "what was read can be written");
    }
    #[cfg(feature = "json")]
    let _ = Codec::Json.decode::<Parts>(input);
}
