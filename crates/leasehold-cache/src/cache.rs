//! The cache as programs use it, and its parts.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::proto::{Deadline, Now};
use redis::RedisError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::builder::{Builder, Mode, Settings};
use crate::codec;
use crate::entry::Entry;
use crate::flight::{Flights, Wakes};
use crate::health::Health;
use crate::hearing::Hearing;
use crate::lag::{Hold, Lags};
use crate::listen::{Listener, listen, try_to_listen};
use crate::local::{Kept, Local, Note};
use crate::redrive::{Owed, Recent};
use crate::remote::Remote;
use crate::run::Run;
use crate::server::Server;
use crate::stats::{Counters, Stats};
use crate::user::{Kind, User};
use crate::{Error, Result};

/// The longest key in bytes.
const MAX_KEY: usize = 512;

/// A key of a cache, identified by its text: at most 512 bytes without control characters.
pub trait Key {
    /// Returns the text, which must differ between different keys.
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

/// A cache of values of type `V` by keys of type `K`, in this process and in Redis, in front of a
/// loader.
///
/// Clones share all state.
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
    /// Returns the settings for a cache of this name: 1 to 64 letters, digits, `_`, `.`, `-`.
    ///
    /// Caches with the same name and prefix share their values. Raise [`Builder::schema`] when the
    /// type of the values changes.
    pub fn builder(name: &str) -> Builder<K, V> {
        Builder::new(name)
    }

    pub(crate) fn new(inner: Arc<Inner<V>>) -> Self {
        Self { inner, types: PhantomData }
    }

    /// Returns the counts of this cache since it was opened. The crate `metrics` receives the same
    /// counts as they happen, and more: [`Stats::METRICS`].
    pub fn stats(&self) -> Stats {
        self.inner.counters.stats()
    }
}

pub(crate) struct Inner<V> {
    pub(crate) settings: Settings,
    pub(crate) remote: Remote,
    pub(crate) local: Option<Local<V>>,
    pub(crate) flights: Flights<V>,
    pub(crate) wakes: Wakes,
    /// Whether invalidations and fills of others are heard.
    pub(crate) hearing: Hearing,
    /// How often it was begun to hear them.
    pub(crate) connects: AtomicU64,
    pub(crate) loads: Semaphore,
    pub(crate) recent: Recent,
    pub(crate) owed: Owed,
    pub(crate) lags: Lags<Hold>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) user: Arc<User>,
    /// Of an entry that is no value of this cache.
    warned: Once,
    /// Of a hold that Redis had lost.
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

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Inner<V> {
    /// Begins to listen.
    pub(crate) fn start(mut settings: Settings, server: Server, clock: Clock) -> Arc<Self> {
        settings.gate = settings.gate.for_one_cache();
        let counters = Arc::new(Counters::new(&settings.name));
        let user = Arc::new(User::new(Kind::Cache, settings.name.as_str(), &server));
        let health = Arc::new(Health::new(Arc::clone(&user)));
        let stem = format!("{}:{}", settings.prefix, settings.name);
        let remote = Remote::new(
            server.clone(),
            stem.clone(),
            settings.redis_limit,
            clock.clone(),
            counters.clone(),
            health.clone(),
        );
        let kept = settings.mode == Mode::Eventual && settings.local_size > 0;
        let inner = Arc::new(Self {
            remote,
            local: kept.then(|| Local::new(settings.local_size)),
            flights: Flights::default(),
            wakes: Wakes::default(),
            hearing: Hearing::new(health),
            connects: AtomicU64::new(0),
            loads: Semaphore::new(settings.max_loads),
            recent: Recent::default(),
            owed: Owed::default(),
            lags: Lags::default(),
            counters,
            user,
            warned: Once::new(),
            lost: Once::new(),
            clock: clock.clone(),
            server: server.clone(),
            settings,
        });
        tokio::spawn(listen(server, stem, clock, Arc::downgrade(&inner)));
        inner
    }

    /// Reads an entry of this run; what cannot be read is a miss, and so is what another run has left.
    pub(crate) fn read(&self, bytes: &[u8], run: Run) -> Option<Found<V>> {
        let entry = Entry::read(bytes)?;
        if !run.begins(&entry.id) {
            self.counters.doubtful.add();
            return None;
        }
        let Some(value) = self.decode(&entry) else {
            self.counters.undecodable.add();
            self.warned.call_once(|| {
                let (cache, theirs, ours) = (&self.settings.name, entry.schema, self.settings.schema);
                tracing::warn!(
                    cache,
                    theirs,
                    ours,
                    "an entry is of another type or schema than this cache's values, and is loaded anew; \
                     while programs of both kinds run, they overwrite each other's entries"
                );
            });
            return None;
        };
        let Entry { id, soft_unix_ms, load_us, .. } = entry;
        Some(Found { value, id, soft_unix_ms, load_us })
    }

    /// The value, or that there is none; `None` when it is not one of this cache.
    fn decode(&self, entry: &Entry<'_>) -> Option<Option<V>> {
        let Settings { schema, codec, max_value, .. } = &self.settings;
        match entry {
            _ if entry.schema != *schema => None,
            Entry { null: true, .. } => Some(None),
            Entry { compressed: true, payload, .. } => {
                codec.decode(&codec::unpack(payload, *max_value)?).map(Some)
            }
            Entry { payload, .. } => codec.decode(payload).map(Some),
        }
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
        let left = Duration::from_millis(found.soft_unix_ms.saturating_sub(now.unix_ms()));
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
        local.keep_alone(
            key,
            note,
            now,
            Kept::new(value, [0; 8], load_us, soft_unix_ms, fresh, stale),
        );
    }

    /// What is to be known before something is fetched that shall be kept.
    pub(crate) fn note(&self, key: &str) -> Option<Note> {
        self.local.as_ref().map(|local| local.note(key))
    }

    /// Forgets the value, which has or may have changed: later callers in this process do not get
    /// what was loaded before.
    pub(crate) fn forget(&self, key: &str) {
        if let Some(local) = &self.local {
            local.invalidate(key);
        }
        self.flights.detach(key);
        if let Some(filter) = self.settings.gate.per_process() {
            filter.add(key);
        }
    }

    /// The value that this process has kept, where it may replace one that cannot be loaded in
    /// time; see [`Local::stale`].
    pub(crate) fn stale(&self, key: &str, doubt: Option<Duration>) -> Option<Option<V>> {
        self.local.as_ref()?.stale(key, self.clock.now(), doubt)
    }
}

impl<K: ?Sized, V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Cache<K, V> {
    /// Checks that Redis can serve this cache: connects again, tries the commands that a cache
    /// needs, and listens.
    ///
    /// Call it at the start of a program or in its health check. `open` does not connect, and
    /// loaders serve the readers while Redis cannot be used.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) with the URL of the server,
    /// without its password, and with the reason: no answer, a refused user or password, a missing
    /// permission.
    pub async fn check(&self) -> Result<()> {
        let inner = &self.inner;
        inner.remote.check("leasehold check").await?;
        let stem = format!("{}:{}", inner.settings.prefix, inner.settings.name);
        try_to_listen(inner.server.clone(), &stem).await.map_err(|error| inner.user.error(error))
    }
}

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Listener for Inner<V> {
    fn invalidated(&self, key: &str) {
        self.counters.invalidations.add();
        self.forget(key);
        // The process that loads may not fill any more, and so sends no message.
        self.wakes.wake(key);
    }

    fn filled(&self, key: &str) {
        self.wakes.wake(key);
    }

    fn hears(self: &Arc<Self>, hears: bool) {
        self.hearing.set(hears);
        if let Some(local) = &self.local {
            local.hears(hears, self.clock.now());
        }
        if let Some(filter) = self.settings.gate.per_process() {
            filter.hears(hears, self.settings.write_hold, &self.clock);
        }
        self.wakes.wake_all();
        if hears {
            self.connects.fetch_add(1, Ordering::SeqCst);
            self.redrive_recent();
        }
    }

    fn cannot_listen(&self, error: Option<RedisError>) {
        self.hearing.cannot_begin(error.as_ref());
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
