//! How a cache is invalidated: the keys of an entry, the script of every writer, and the messages
//! to other processes. Caches use it, and relays do the same for them.
//!
//! **Unstable**: the module is for the crates of this repository, and its items may change in any minor release. Its enums
//! stay exhaustive, so that the script and its callers have the same steps.

mod lag_holds;
mod listen;
mod recent;
mod write_script;

use std::time::Duration;

use redis::ScriptInvocation;

pub use lag_holds::{LOST_HOLD, LagHolds, end_holds_when_over};
pub use listen::{Listener, listen, try_to_listen};
pub use recent::RecentWrites;
pub use write_script::{Step, WriteScript};

/// How many keys are sent in one round trip.
pub const PAGE: usize = 256;
/// The first and the longest pause between two tries.
pub const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Adds the keys that belong to `key` in the cache with this stem, in the order of the scripts: the
/// entry, its fill lease, and if `holds` is true, the writes in progress.
pub fn add_keys(call: &mut ScriptInvocation<'_>, stem: &str, key: &str, holds: bool) {
    let entry = entry_key(stem, key);
    let (lease, writes) = (format!("{entry}:l"), format!("{entry}:h"));
    call.key(entry).key(lease);
    if holds {
        call.key(writes);
    }
}

/// Returns the key of the entry of `key` in the cache with this stem (`prefix:name`).
pub fn entry_key(stem: &str, key: &str) -> String {
    format!("{{{stem}:{key}}}")
}

/// Returns the channel of invalidations and fills of the cache with this stem.
pub fn channel(stem: &str) -> String {
    format!("{stem}:changes")
}

/// Returns a duration in whole milliseconds, for the scripts.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
