//! The stored limit of a semaphore: reads and changes it.

use std::time::Duration;

use leasehold_core::backend::{self, LimitChange, LimitChanged, is_a_latch, is_a_lock};
use leasehold_core::proto::semaphore::{Conflict, Limit};
use leasehold_core::{Error, ErrorKind, Name, Result};
use leasehold_etcd_api::{Compare, CompareOp, KeyValue, Txn, TxnOp};
use serde::{Deserialize, Serialize};

use crate::engine::{Engine, LIMIT};
use crate::transaction::{any, count, kv_at, none};

/// How long a limit that was never changed stays after its last use.
pub(crate) const KEEP: Duration = Duration::from_secs(2 * 3600);
/// The number of changes by others that may come first before a change fails.
const ROUNDS: usize = 32;

/// The limit, its version, and the key's lease and last change.
#[derive(Clone, Debug)]
pub(crate) struct StoredLimit {
    pub(crate) limit: Limit,
    pub(crate) version: u64,
    pub(crate) lease: i64,
    pub(crate) changed: i64,
}

#[derive(Deserialize, Serialize)]
struct Stored {
    limit: u32,
    version: u64,
}

impl StoredLimit {
    /// Reads the key of a limit.
    pub(crate) fn read(kv: &KeyValue) -> Result<Self> {
        let stored = serde_json::from_slice::<Stored>(&kv.value).ok();
        let read = stored.and_then(|stored| Some((Limit::new(stored.limit).ok()?, stored.version)));
        let Some((limit, version)) = read else {
            return Err(Error::new(
                ErrorKind::Foreign,
                format!(
                    "the value of the key {:?} is not a limit of leasehold; delete the key while no client holds a \
                     permit, or update leasehold if a newer version wrote it",
                    String::from_utf8_lossy(&kv.key)
                ),
            ));
        };
        Ok(Self { limit, version, lease: kv.lease, changed: kv.mod_revision })
    }
}

/// Returns the id of the lease of the limit with this key: the same for all clients, so that those that find no limit at the same
/// time, end, or get no answer leave one lease at most. It is the FNV-1a hash of the key.
pub(crate) fn lease_id(key: &[u8]) -> i64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    let hash = key.iter().fold(0xCBF2_9CE4_8422_2325, mix);
    (hash >> 1).max(1).cast_signed()
}

/// Returns the value to store.
pub(crate) fn write(limit: Limit, version: u64) -> Vec<u8> {
    serde_json::to_vec(&Stored { limit: limit.get(), version }).unwrap_or_default()
}

/// Reads the limit of a name; `None` if none is stored. Another kind under the name is an error.
async fn read(engine: &Engine, name: &Name) -> Result<Option<StoredLimit>> {
    let keys = &engine.keys;
    let gets = [
        TxnOp::get(keys.limit(name), None),
        any(keys.lock(name)),
        TxnOp::get(keys.latch(name), None),
    ];
    let answer = engine.txn(LIMIT, Txn::new().and_then(gets)).await?;
    if let Some(kv) = kv_at(&answer, 0, 0) {
        return StoredLimit::read(&kv).map(Some);
    }
    let is_there = |op| count(&answer, op).is_some_and(|count| count > 0);
    match (is_there(1), is_there(2)) {
        (true, _) => Err(is_a_lock()),
        (_, true) => Err(is_a_latch()),
        (false, false) => Ok(None),
    }
}

/// Returns the limit of a semaphore.
pub(crate) async fn limit(engine: &Engine, name: &Name) -> Result<Option<backend::StoredLimit>> {
    let stored = read(engine, name).await?;
    Ok(stored.map(|stored| backend::StoredLimit::new(stored.limit, stored.version)))
}

/// Changes the limit of a semaphore if it has the named version. A changed limit stays without an end.
pub(crate) async fn set_limit(engine: &Engine, change: &LimitChange) -> Result<LimitChanged> {
    let LimitChange { name, version, limit, .. } = change;
    let keys = &engine.keys;
    for _ in 0..ROUNDS {
        let stored = read(engine, name).await?;
        let now = stored.as_ref().map_or(0, |stored| stored.version);
        let current = stored.as_ref().map(|stored| stored.limit);
        if version.checked_add(1) == Some(now) && current == Some(*limit) {
            return Ok(LimitChanged::Changed(now));
        }
        if *version != now {
            return Ok(LimitChanged::Conflict(Conflict { limit: current, version: now }));
        }
        let (key, next) = (keys.limit(name), now.saturating_add(1));
        let changed = stored.as_ref().map_or(0, |stored| stored.changed);
        let mut when = vec![Compare::mod_revision(&*key, CompareOp::Equal, changed)];
        if stored.is_none() {
            when.extend([
                none(keys.lock(name)),
                Compare::create_revision(keys.latch(name), CompareOp::Equal, 0),
            ]);
        }
        let txn = Txn::new().when(when).and_then([TxnOp::put(&*key, write(*limit, next), None)]);
        if engine.txn(LIMIT, txn).await?.succeeded {
            return Ok(LimitChanged::Changed(next));
        }
    }
    Err(Error::new(ErrorKind::Unavailable, "other clients changed the limit each time; try again"))
}
