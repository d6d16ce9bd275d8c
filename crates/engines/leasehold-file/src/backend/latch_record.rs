//! The record of a latch: its value, and until when it is kept.

use leasehold_core::Now;
use leasehold_core::backend::ValueSwap;
use serde::{Deserialize, Serialize};

/// The version of the record of a latch.
pub(crate) const LATCH: u64 = 3;

/// A latch, stored as JSON in the place of a lock's record. A client from before there were latches refuses
/// it as a newer version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LatchRecord {
    version: u64,
    pub(crate) name: String,
    latch: Value,
    /// By the wall clock, which survives a restart of the machine.
    until_unix_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Bytes(Vec<u8>),
}

impl LatchRecord {
    /// Returns the record after this change.
    pub(crate) fn new(swap: &ValueSwap, now: Now) -> Self {
        let latch = match String::from_utf8(swap.next.clone()) {
            Ok(text) => Value::Text(text),
            Err(bytes) => Value::Bytes(bytes.into_bytes()),
        };
        let ttl = u64::try_from(swap.ttl.as_millis()).unwrap_or(u64::MAX);
        let until_unix_ms = now.unix_ms().saturating_add(ttl);
        Self { version: LATCH, name: swap.name.as_str().to_owned(), latch, until_unix_ms }
    }

    /// Returns the value, until it expires.
    pub(crate) fn value(&self, now: Now) -> Option<&[u8]> {
        (now.unix_ms() < self.until_unix_ms).then_some(match &self.latch {
            Value::Text(text) => text.as_bytes(),
            Value::Bytes(bytes) => bytes,
        })
    }

    /// Returns when it expires, in milliseconds since the Unix epoch.
    pub(crate) fn until_unix_ms(&self) -> u64 {
        self.until_unix_ms
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_core::Name;

    use super::*;

    #[test]
    fn a_value_is_read_as_it_was_written_until_it_expires() {
        let at = |ms: u64| Now { steady_ns: 0, wall_ns: ms * 1_000_000 };
        for value in [&b"leasehold latch 1\n\xe2\x80\xa8"[..], b"", b"\xff\x00"] {
            let (name, ttl) = (Name::new("a").unwrap(), Duration::from_millis(5));
            let record = LatchRecord::new(&ValueSwap::new(name, None, value.to_vec(), ttl), at(7));
            let bytes = serde_json::to_vec(&record).unwrap();
            let read: LatchRecord = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(read, record);
            assert_eq!((read.value(at(11)), read.value(at(12))), (Some(value), None));
        }
    }
}
