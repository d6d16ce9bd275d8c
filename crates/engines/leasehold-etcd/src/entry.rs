//! The value of an attempt's key: who it is, and what it has.

use leasehold_core::backend::{AcquireRequest, Mode, Origin};
use leasehold_core::{AttemptId, Holder};
use leasehold_etcd_api::KeyValue;
use serde::{Deserialize, Serialize};

use crate::key::{Keys, Part};

/// The value of a key, stored as JSON.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Stored {
    host: String,
    pid: u32,
    /// When the attempt asked for the lock, by its client's clock, in milliseconds since the Unix
    /// epoch.
    since: u64,
    /// The attempt, if the key does not name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempt: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<String>,
    /// The attempt that holds the lock by a conversion in the place of the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    converted: Option<Converted>,
    /// Its client holds the lock in another format too.
    #[serde(default, skip_serializing_if = "is_false")]
    also: bool,
    /// How many slots of a semaphore it wants.
    #[serde(default, skip_serializing_if = "is_zero")]
    wants: u32,
    /// The slots that it holds; none while it waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    slots: Vec<u32>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Converted {
    attempt: String,
    reads: bool,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_false(also: &bool) -> bool {
    !also
}

/// An attempt's key.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// Its create revision, which is its place.
    pub(crate) created: i64,
    /// The revision of its last change.
    pub(crate) changed: i64,
    pub(crate) lease: i64,
    /// The attempt that it is for now, and its mode.
    pub(crate) attempt: AttemptId,
    pub(crate) mode: Mode,
    /// How many slots of a semaphore it wants, and which it has.
    pub(crate) wants: u32,
    pub(crate) slots: Vec<u32>,
    /// The client, and since when it waits or holds; `None` if another program wrote the value.
    pub(crate) shown: Option<(Holder, u64)>,
}

impl Entry {
    /// Reads a key; `None` if it is not that of an attempt.
    pub(crate) fn read(keys: &Keys, kv: &KeyValue) -> Option<Self> {
        let (attempt, mode) = match keys.read(&kv.key)?.1 {
            Part::Queued(attempt, mode) => (attempt, mode),
            Part::Permit(attempt) => (attempt, Mode::Permit),
            Part::Latch | Part::Limit | Part::Phase | Part::Wire => return None,
        };
        let stored = serde_json::from_slice::<Stored>(&kv.value).ok();
        let converted = stored.as_ref().and_then(|stored| stored.converted.as_ref());
        let converted = converted.and_then(|converted| {
            let mode = if converted.reads { Mode::Shared } else { Mode::Exclusive };
            Some((AttemptId::parse(&converted.attempt)?, mode))
        });
        let (attempt, mode) = converted.unwrap_or((attempt, mode));
        let (mut wants, mut slots) = (0, Vec::new());
        let shown = stored.map(|stored| {
            (wants, slots) = (stored.wants, stored.slots);
            let origin = Origin::new(stored.host, stored.pid, stored.metadata);
            (origin.holder(attempt), stored.since)
        });
        let (key, value) = (kv.key.clone(), kv.value.clone());
        let (created, changed) = (kv.create_revision, kv.mod_revision);
        let lease = kv.lease;
        Some(Self { key, value, created, changed, lease, attempt, mode, wants, slots, shown })
    }

    pub(crate) fn reads(&self) -> bool {
        self.mode == Mode::Shared
    }
}

fn stored(request: &AcquireRequest, unix_ms: u64) -> Stored {
    let Holder { host, pid, metadata, .. } = request.origin.holder(request.attempt);
    Stored { host, pid, since: unix_ms, metadata, also: request.also, ..Stored::default() }
}

fn written(stored: &Stored) -> Vec<u8> {
    serde_json::to_vec(stored).unwrap_or_default()
}

/// Returns the value of an attempt in the queue of a lock.
pub(crate) fn write(request: &AcquireRequest, unix_ms: u64) -> Vec<u8> {
    written(&stored(request, unix_ms))
}

/// Returns the value of an attempt whose key does not name it.
pub(crate) fn write_named(request: &AcquireRequest, unix_ms: u64) -> Vec<u8> {
    let attempt = Some(request.attempt.to_string());
    written(&Stored { attempt, ..stored(request, unix_ms) })
}

/// Reads the value of an attempt whose key does not name it: the client, and since when it waits or holds. `None` if
/// another program wrote it.
pub(crate) fn read_named(value: &[u8]) -> Option<(Holder, u64)> {
    let stored = serde_json::from_slice::<Stored>(value).ok()?;
    let attempt = AttemptId::parse(&stored.attempt?)?;
    Some((Origin::new(stored.host, stored.pid, stored.metadata).holder(attempt), stored.since))
}

/// Returns true if the value is that of a client that holds the lock in another format too.
pub(crate) fn is_also(value: &[u8]) -> bool {
    serde_json::from_slice::<Stored>(value).is_ok_and(|stored| stored.also)
}

/// Returns the value of a key that this request takes over by a conversion.
pub(crate) fn write_converted(request: &AcquireRequest, unix_ms: u64) -> Vec<u8> {
    let (attempt, reads) = (request.attempt.to_string(), request.mode == Mode::Shared);
    let converted = Some(Converted { attempt, reads });
    written(&Stored { converted, ..stored(request, unix_ms) })
}

/// Returns the value of a permit, or of an attempt that waits for one.
pub(crate) fn write_permit(request: &AcquireRequest, unix_ms: u64, slots: Vec<u32>) -> Vec<u8> {
    let wants = request.demand.map_or(0, |demand| demand.slots());
    written(&Stored { wants, slots, ..stored(request, unix_ms) })
}
