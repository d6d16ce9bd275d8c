//! The cache as programs hold it, and what it is made of.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use leasehold_core::clock::Clock;
use leasehold_core::proto::{Deadline, Now};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::builder::{Builder, Mode, Settings};
use crate::codec;
use crate::entry::Entry;
use crate::flight::{Flights, Wakes};
use crate::listen::{Listener, listen};
use crate::local::{Kept, Local, Note};
use crate::redrive::{Owed, Recent};
use crate::remote::Remote;
use crate::server::Server;
use crate::stats::{Counters, Stats};
use crate::{Error, Result};

/// The longest key in bytes.
const MAX_KEY: usize = 512;

/// What values are looked up by: its text, at most 512 bytes without control characters.
pub trait Key {
    /// The text; different for different keys.
    fn text(&self) -> Cow<'_, str>;
}

impl Key for str {
    fn text(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }
}

impl Key for String {
    fn text(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }
}

macro_rules! numbers {
    ($($number:ty)*) => {
        $(impl Key for $number {
            fn text(&self) -> Cow<'_, str> {
                Cow::Owned(self.to_string())
            }
        })*
    };
}
numbers!(u32 u64 u128 i32 i64 i128);

/// A cache of values of type `V` by keys of type `K`: this process, Redis, and a loader.
///
/// Clones share everything.
pub struct Cache<K: ?Sized, V> {
    pub(crate) inner: Arc<Inner<V>>,
    types: PhantomData<fn(&K)>,
}

impl<K: ?Sized, V> Clone for Cache<K, V> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), types: PhantomData }
    }
}

impl<K: ?Sized, V> fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("name", &self.inner.settings.name).finish_non_exhaustive()
    }
}

impl<K: ?Sized, V> Cache<K, V> {
    /// Settings for a cache of this name: 1 to 64 letters, digits, `_`, `.`, `-`. Values of caches with
    /// the same name and prefix are shared; change the name when the type of the values changes.
    pub fn builder(name: &str) -> Builder<K, V> {
        Builder::new(name)
    }

    pub(crate) fn new(inner: Arc<Inner<V>>) -> Self {
        Self { inner, types: PhantomData }
    }

    /// What it has done so far.
    pub fn stats(&self) -> Stats {
        self.inner.counters.stats()
    }

    /// Tells the recorder of the crate `metrics` the same, as counters `leasehold_cache_*_total`.
    pub fn record_metrics(&self) {
        self.inner.counters.tell(&self.inner.settings.name);
    }
}

pub(crate) struct Inner<V> {
    pub(crate) settings: Settings,
    pub(crate) remote: Remote,
    pub(crate) local: Option<Local<V>>,
    pub(crate) flights: Flights<V>,
    pub(crate) wakes: Wakes,
    /// Whether invalidations and fills of others are heard.
    pub(crate) hearing: AtomicBool,
    /// How often it was begun to hear them.
    pub(crate) connects: AtomicU64,
    pub(crate) loads: Semaphore,
    pub(crate) recent: Recent,
    pub(crate) owed: Owed,
    pub(crate) counters: Arc<Counters>,
    pub(crate) clock: Clock,
}

/// An entry that was read.
#[derive(Clone, Debug)]
pub(crate) struct Found<V> {
    pub(crate) value: Option<V>,
    pub(crate) id: [u8; 8],
    pub(crate) soft_unix_ms: u64,
    pub(crate) load_us: u32,
}

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Inner<V> {
    /// Begins to listen.
    pub(crate) fn start(settings: Settings, server: Server, clock: Clock) -> Arc<Self> {
        let counters = Arc::<Counters>::default();
        let stem = format!("{}:{}", settings.prefix, settings.name);
        let remote = Remote::new(
            server.clone(),
            stem.clone(),
            settings.redis_limit,
            clock.clone(),
            counters.clone(),
        );
        let kept = settings.mode == Mode::Eventual && settings.local_size > 0;
        let inner = Arc::new(Self {
            remote,
            local: kept.then(|| Local::new(settings.local_size)),
            flights: Flights::default(),
            wakes: Wakes::default(),
            hearing: AtomicBool::new(false),
            connects: AtomicU64::new(0),
            loads: Semaphore::new(settings.max_loads),
            recent: Recent::default(),
            owed: Owed::default(),
            counters,
            clock: clock.clone(),
            settings,
        });
        tokio::spawn(listen(server, stem, clock, Arc::downgrade(&inner)));
        inner
    }

    /// Reads an entry; what cannot be read is a miss.
    pub(crate) fn read(&self, bytes: &[u8]) -> Option<Found<V>> {
        let entry = Entry::read(bytes)?;
        let value = if entry.null {
            None
        } else if entry.compressed {
            let payload = codec::unpack(entry.payload, self.settings.max_value)?;
            Some(self.settings.codec.decode(&payload)?)
        } else {
            Some(self.settings.codec.decode(entry.payload)?)
        };
        let Entry { id, soft_unix_ms, load_us, .. } = entry;
        Some(Found { value, id, soft_unix_ms, load_us })
    }

    /// The bytes of a value; an error when it cannot be encoded, or is too long.
    pub(crate) fn payload(&self, value: Option<&V>) -> Result<(Vec<u8>, bool)> {
        let Some(value) = value else { return Ok((Vec::new(), false)) };
        let payload = self.settings.codec.encode(value)?;
        let most = self.settings.max_value;
        if payload.len() > most {
            let bytes = payload.len();
            return Err(Error::invalid(format!(
                "value: {bytes} bytes encoded; max_value allows {most}"
            )));
        }
        #[cfg(feature = "compression")]
        if let Some(from) = self.settings.compress_from {
            return Ok(codec::pack(payload, from));
        }
        Ok((payload, false))
    }

    /// Keeps in this process what was read or filled since `note`.
    pub(crate) fn keep(&self, key: &str, note: Option<Note>, found: &Found<V>) {
        let (Some(local), Some(note)) = (&self.local, note) else { return };
        let now = self.clock.now();
        let left =
            std::time::Duration::from_millis(found.soft_unix_ms.saturating_sub(now.unix_ms()));
        let fresh = Deadline::after(now, left.min(self.settings.local_ttl));
        let stale = Deadline::after(now, left + self.settings.stale(found.value.is_none()));
        let Found { value, id, soft_unix_ms, load_us } = found.clone();
        local.keep(key, note, Kept::new(value, id, load_us, soft_unix_ms, fresh, stale));
    }

    /// Keeps what was loaded since `note` while Redis is down, for a short time.
    pub(crate) fn keep_alone(&self, key: &str, note: Option<Note>, value: Option<V>, load_us: u32) {
        let (Some(local), Some(note)) = (&self.local, note) else { return };
        let (now, ttl) = (self.clock.now(), self.settings.down_ttl);
        let fresh = Deadline::after(now, ttl);
        let stale = Deadline::after(now, ttl + self.settings.stale(value.is_none()));
        let soft_unix_ms = now.unix_ms() + ttl.as_millis() as u64;
        local.keep_alone(key, note, Kept::new(value, [0; 8], load_us, soft_unix_ms, fresh, stale));
    }

    /// What is to be known before something is fetched that shall be kept.
    pub(crate) fn note(&self, key: &str) -> Option<Note> {
        self.local.as_ref().map(|local| local.note(key))
    }

    /// The value has changed, or may have: nobody in this process gets what was loaded before.
    pub(crate) fn forget(&self, key: &str) {
        if let Some(local) = &self.local {
            local.invalidate(key);
        }
        self.flights.detach(key);
    }

    /// What this process has kept and may stand in for a value that cannot be had; see
    /// [`Local::stale`].
    pub(crate) fn stale(&self, key: &str, now: Now, heard: bool) -> Option<Option<V>> {
        self.local.as_ref()?.stale(key, now, heard)
    }
}

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Listener for Inner<V> {
    fn invalidated(&self, key: &str) {
        self.counters.invalidations.add();
        self.forget(key);
        // Whoever loads may not fill any more, and so says nothing.
        self.wakes.wake(key);
    }

    fn filled(&self, key: &str) {
        self.wakes.wake(key);
    }

    fn hears(self: &Arc<Self>, hears: bool) {
        self.hearing.store(hears, Ordering::SeqCst);
        if let Some(local) = &self.local {
            local.hears(hears);
        }
        self.wakes.wake_all();
        if hears {
            self.connects.fetch_add(1, Ordering::SeqCst);
            self.redrive_recent();
        }
    }

    fn answered(&self, asked: Now) {
        self.recent.good(asked);
    }
}

/// The text of a key that may be sent.
pub(crate) fn text<K: Key + ?Sized>(key: &K) -> Result<Cow<'_, str>> {
    let text = key.text();
    check_key(&text)?;
    Ok(text)
}

/// Whether this may be a key.
pub(crate) fn check_key(text: &str) -> Result<()> {
    if text.is_empty() || text.len() > MAX_KEY {
        let bytes = text.len();
        return Err(Error::invalid(format!("key: {bytes} bytes; allowed are 1 to {MAX_KEY}")));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::invalid(format!("key: {text:?} has a control character")));
    }
    Ok(())
}
