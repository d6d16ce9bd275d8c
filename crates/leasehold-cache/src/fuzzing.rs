//! Readers of input from outside, for fuzz targets alone: a program must not use this module.

use leasehold_cache_redis::ServerRun;
use leasehold_core::fuzzing::Target;

use crate::compression::unpack;
use crate::entry::Entry;
use crate::{key, remote};

/// The targets of this crate.
pub const TARGETS: &[Target] = &[("cache-entry", entry), ("cache-reply", reply)];

/// The most bytes of a value that the target accepts.
const MOST: usize = 1 << 16;

/// The bytes of an entry.
fn entry(input: &[u8]) {
    let _ = std::str::from_utf8(input).map(|text| key::text(text).is_ok());
    let _ = unpack(input, MOST);
    let Some(entry) = Entry::read(input) else { return };
    assert!(unpack(entry.payload, MOST).is_none_or(|bytes| bytes.len() <= MOST));
    assert!(Entry::read(&entry.write()).as_ref() == Some(&entry), "an entry is read back");
}

/// The answer of a script.
fn reply(input: &[u8]) {
    if let Ok(redis::Value::Array(answer)) = redis::parse_redis_value(input) {
        let _ = remote::read(answer, ServerRun::UNKNOWN);
    }
}
