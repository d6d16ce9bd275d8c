//! The state that all clones of a cache share: reads entries and keeps values. It sends nothing to
//! Redis.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Once};
use std::time::Duration;

use leasehold_cache_redis::invalidation::{LagHolds, RecentWrites};
use leasehold_cache_redis::{Consumer, Server, ServerRun};
use leasehold_core::clock::Clock;
use leasehold_core::proto::Deadline;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::compression;
use crate::entry::Entry;
use crate::local_entries::{Kept, Local, Note};
use crate::owed::Owed;
use crate::remote::Remote;
use crate::settings::Settings;
use crate::single_flight::{Flights, Wakes};
use crate::stats::Counters;
use crate::subscription::Subscription;
use crate::{Error, Result};

/// A hold that lasts until the replicas have caught up: key and token.
pub(crate) type LagHold = (String, String);

/// The state that all clones of a cache share.
pub(crate) struct State<V> {
    pub(crate) settings: Settings,
    pub(crate) remote: Remote,
    pub(crate) local: Option<Local<V>>,
    pub(crate) flights: Flights<V>,
    pub(crate) wakes: Wakes,
    /// Whether invalidations and fills of other processes are received.
    pub(crate) subscription: Subscription,
    /// How often the subscription started.
    pub(crate) connects: AtomicU64,
    pub(crate) loads: Semaphore,
    pub(crate) recent: RecentWrites,
    pub(crate) owed: Owed,
    pub(crate) lags: LagHolds<LagHold>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) consumer: Arc<Consumer>,
    /// Set when the warning about an undecodable entry was logged.
    pub(crate) warned: Once,
    /// Set when the warning about a lost hold was logged.
    pub(crate) lost: Once,
    pub(crate) clock: Clock,
    pub(crate) server: Server,
}

/// An entry that was read.
#[derive(Clone, Debug)]
pub(crate) struct Found<V> {
    pub(crate) value: Option<V>,
    pub(crate) id: [u8; 8],
    pub(crate) soft_unix_ms: u64,
    pub(crate) load_us: u32,
}

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> State<V> {
    /// Reads an entry of this run; an entry that cannot be decoded, or is of another run, is a
    /// miss.
    pub(crate) fn read(&self, bytes: &[u8], run: ServerRun) -> Option<Found<V>> {
        let entry = Entry::read(bytes)?;
        if !run.begins(&entry.id) {
            self.counters.doubtful.add();
            return None;
        }
        let Some(value) = self.decode(&entry) else {
            self.counters.undecodable.add();
            self.warned.call_once(|| {
                let (cache, theirs, ours) =
                    (&self.settings.name, entry.schema, self.settings.schema);
                tracing::warn!(
                    cache,
                    theirs,
                    ours,
                    "an entry has another type or schema than the values of this cache and is \
                     reloaded; while both programs run, they overwrite each other's entries"
                );
            });
            return None;
        };
        let Entry { id, soft_unix_ms, load_us, .. } = entry;
        Some(Found { value, id, soft_unix_ms, load_us })
    }

    /// Decodes the value, or that it does not exist; `None` if the entry does not belong to this
    /// cache.
    fn decode(&self, entry: &Entry<'_>) -> Option<Option<V>> {
        let Settings { schema, codec, max_value, .. } = &self.settings;
        match entry {
            _ if entry.schema != *schema => None,
            Entry { null: true, .. } => Some(None),
            Entry { compressed: true, payload, .. } => {
                codec.decode(&compression::unpack(payload, *max_value)?).map(Some)
            }
            Entry { payload, .. } => codec.decode(payload).map(Some),
        }
    }

    /// Encodes a value; an error if it cannot be encoded or is too long.
    pub(crate) fn payload(&self, value: Option<&V>) -> Result<(Vec<u8>, bool)> {
        let Some(value) = value else { return Ok((Vec::new(), false)) };
        let payload = self.settings.codec.encode(value)?;
        let most = self.settings.max_value;
        if payload.len() > most {
            let bytes = payload.len();
            return Err(Error::invalid(format!(
                "value: has {bytes} encoded bytes; at most {most} (max_value) are allowed"
            )));
        }
        #[cfg(feature = "compression")]
        if let Some(from) = self.settings.compress_from {
            return Ok(compression::pack(payload, from));
        }
        Ok((payload, false))
    }

    /// Keeps a value that was read or filled after `note` in this process.
    pub(crate) fn keep(&self, key: &str, note: Option<Note>, found: &Found<V>) {
        let (Some(local), Some(note)) = (&self.local, note) else { return };
        let now = self.clock.now();
        let left = Duration::from_millis(found.soft_unix_ms.saturating_sub(now.unix_ms()));
        let fresh = Deadline::after(now, left.min(self.settings.local_ttl));
        let stale = Deadline::after(now, left + self.settings.stale(found.value.is_none()));
        let Found { value, id, soft_unix_ms, load_us } = found.clone();
        local.keep(key, note, Kept::new(value, id, load_us, soft_unix_ms, fresh, stale));
    }

    /// Keeps a value that was loaded after `note` while Redis is down, for a short time.
    pub(crate) fn keep_alone(&self, key: &str, note: Option<Note>, value: Option<V>, load_us: u32) {
        let (Some(local), Some(note)) = (&self.local, note) else { return };
        let (now, ttl) = (self.clock.now(), self.settings.down_ttl);
        let fresh = Deadline::after(now, ttl);
        let stale = Deadline::after(now, ttl + self.settings.stale(value.is_none()));
        let soft_unix_ms = now.unix_ms() + ttl.as_millis() as u64;
        local.keep_alone(
            key,
            note,
            now,
            Kept::new(value, [0; 8], load_us, soft_unix_ms, fresh, stale),
        );
    }

    /// Takes a note before a fetch whose value is to be kept.
    pub(crate) fn note(&self, key: &str) -> Option<Note> {
        self.local.as_ref().map(|local| local.note(key))
    }

    /// Forgets a value that has or may have changed: later callers in this process do not get an
    /// earlier load.
    pub(crate) fn forget(&self, key: &str) {
        if let Some(local) = &self.local {
            local.invalidate(key);
        }
        self.flights.detach(key);
        self.settings.gate.changed(key);
    }

    /// Returns the kept value that may replace one that cannot be loaded in time; see
    /// [`Local::stale`].
    pub(crate) fn stale(&self, key: &str, doubt: Option<Duration>) -> Option<Option<V>> {
        self.local.as_ref()?.stale(key, self.clock.now(), doubt)
    }
}
