//! A value in memory, as latches need it.

use std::time::Duration;

use leasehold_proto::Now;

use crate::backend::ValueSwap;
use crate::{Name, Status};

/// A stored value, and until when it is kept.
#[derive(Debug)]
pub(super) struct Value {
    bytes: Vec<u8>,
    until_steady_ns: u64,
}

impl Value {
    /// Replaces what is stored, if it is what the client has read.
    pub(super) fn swap(stored: &mut Option<Self>, now: Now, swap: &ValueSwap) -> bool {
        let seen = stored.as_ref().and_then(|value| value.bytes(now));
        if seen != swap.seen.as_deref() {
            return false;
        }
        let ttl = u64::try_from(swap.ttl.as_nanos()).unwrap_or(u64::MAX);
        let until_steady_ns = now.steady_ns.saturating_add(ttl);
        *stored = Some(Self { bytes: swap.next.clone(), until_steady_ns });
        true
    }

    /// Returns the bytes, until they expire.
    pub(super) fn bytes(&self, now: Now) -> Option<&[u8]> {
        (now.steady_ns < self.until_steady_ns).then_some(&self.bytes)
    }

    pub(super) fn status(&self, now: Now, name: &Name) -> Status {
        let remaining = Duration::from_nanos(self.until_steady_ns.saturating_sub(now.steady_ns));
        match self.bytes(now) {
            Some(bytes) => Status::of_latch(name, bytes, Some(remaining)),
            None => Status::free(name),
        }
    }

    pub(super) fn is_idle(&self, now: Now) -> bool {
        self.bytes(now).is_none()
    }
}
