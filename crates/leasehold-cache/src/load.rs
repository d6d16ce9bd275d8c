//! A load that all callers of a missing key share, from the fill lease to the fill.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold_cache_redis::{ServerRun, draw_token};
use leasehold_core::proto::Deadline;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::SemaphorePermit;

use crate::entry::{self, Entry};
use crate::load_error::load_failed;
use crate::local_entries::Note;
use crate::remote::Answer;
use crate::settings::Mode;
use crate::single_flight::{ALL, Lead, NOBODY};
use crate::state::{Found, State};
use crate::{BoxError, Error, ErrorKind, Result};

/// How often a task that waits for a load of another process asks Redis: while messages are
/// received, and while they are not.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(25));

/// How often one load tries to replace an entry that it cannot decode, while programs with other
/// types write theirs.
const REPLACED: u32 = 3;

/// Tells a loader how it must load.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Load {
    /// The database server that the loader may read.
    pub source: Source,
}

/// Selects the database server that a loader may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The primary, or a replica that lags by at most `replica_lag`.
    Any,
    /// Only the primary: a write is in progress, or has just ended.
    Primary,
}

pub(crate) type Loading<V> =
    std::pin::Pin<Box<dyn Future<Output = Result<Option<V>, BoxError>> + Send>>;
/// A loader as a flight stores it.
pub(crate) type Loader<V> = Box<dyn FnOnce(Load) -> Loading<V> + Send>;

/// Why a value is loaded without the cache.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Past {
    Held,
    Foreign,
    Down,
}

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> State<V> {
    /// Gets the value from Redis or from the loader. The second value tells which callers may use
    /// it ([`Flown::for_before_ns`]).
    async fn bring(
        &self,
        key: &str,
        lead: &Lead<V>,
        load: Loader<V>,
        mut seen: Option<Found<V>>,
    ) -> (Result<Option<V>>, u64) {
        let token = draw_token();
        let wake = self.wakes.register(key);
        // An entry that is to be replaced although it is not a value of this cache.
        let (mut replaces, mut replaced) = (None, 0);
        loop {
            let seen_id = replaces.or(seen.as_ref().map(|seen| seen.id));
            let note = self.note(key);
            let mut told = pin!(wake.next());
            told.as_mut().enable();
            let (lease, asked) = (self.settings.lease, self.clock.now());
            match self.remote.acquire(key, &token, lease, seen_id).await {
                Ok(Answer::Won(run)) => {
                    return self.load_and_fill(Fill::new(key, &token, note, run), load, seen).await;
                }
                Ok(Answer::Fresh(bytes, run)) => match self.read(&bytes, run) {
                    // It is to be loaded anew.
                    Some(found) if found.soft_unix_ms <= asked.unix_ms() => {
                        (replaces, seen) = (None, Some(found));
                    }
                    Some(found) => {
                        self.keep(key, note, &found);
                        return (Ok(found.value), asked.steady_ns);
                    }
                    None => match Entry::read(&bytes) {
                        Some(entry) if replaced < REPLACED => {
                            (replaces, seen) = (Some(entry.id), None);
                            replaced += 1;
                        }
                        _ => return self.past(key, lead, load, Past::Foreign).await,
                    },
                },
                Ok(Answer::Held) => return self.past(key, lead, load, Past::Held).await,
                Ok(Answer::Foreign) => return self.past(key, lead, load, Past::Foreign).await,
                Err(_) => {
                    let brought = self.past(key, lead, load, Past::Down).await;
                    // It may have been ours: others shall not wait for it.
                    let _ = self.remote.give_back(key, &token).await;
                    return brought;
                }
                Ok(Answer::Busy(left)) => {
                    if let Some(seen) = seen {
                        self.counters.stale.add();
                        return (Ok(seen.value), NOBODY);
                    }
                    let is_active = self.subscription.is_active();
                    let pause = if is_active { ASK_AGAIN.0 } else { ASK_AGAIN.1 };
                    let pause = pause.min(left + Duration::from_millis(1));
                    tokio::select! {
                        () = told => {}
                        () = self.clock.sleep(pause) => {}
                    }
                }
            }
        }
    }

    async fn load_and_fill(
        &self,
        fill: Fill<'_>,
        load: Loader<V>,
        seen: Option<Found<V>>,
    ) -> (Result<Option<V>>, u64) {
        let loaded = match self.permit().await {
            Ok(_permit) => self.timed(load(Load { source: Source::Any }), Ok).await,
            Err(error) => Err(error),
        };
        let (value, load_us) = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                // A waiter may try.
                let _ = self.remote.give_back(fill.key, fill.token).await;
                return match seen {
                    // Only for who had seen it: a write may have come since.
                    Some(seen) => {
                        self.counters.stale.add();
                        (Ok(seen.value), NOBODY)
                    }
                    None => (Err(error), ALL),
                };
            }
        };
        let asked = self.clock.now().steady_ns;
        let filled = self.fill(&fill, value.as_ref(), load_us).await;
        (Ok(value), if filled { asked } else { NOBODY })
    }

    /// Puts a loaded value into Redis and keeps it in this process, unless Redis refuses it.
    pub(crate) async fn fill(&self, fill: &Fill<'_>, value: Option<&V>, load_us: u32) -> bool {
        let Fill { key, token, note, run } = *fill;
        let id = entry::id(run);
        let (payload, compressed) = match self.payload(value) {
            Ok(payload) => payload,
            Err(error) => {
                tracing::warn!(cache = self.settings.name, key, %error, "cannot cache a value");
                let _ = self.remote.give_back(key, token).await;
                return false;
            }
        };
        let null = value.is_none();
        let fresh = self.settings.fresh(null, fastrand::f64());
        let soft_unix_ms = self.clock.now().unix_ms() + fresh.as_millis() as u64;
        let (schema, payload) = (self.settings.schema, &payload[..]);
        let entry = Entry { null, compressed, id, soft_unix_ms, load_us, schema, payload };
        let ttl = fresh + self.settings.stale(null);
        match self.remote.fill(run, key, token, &entry.write(), ttl).await {
            Ok(true) => {
                let value = value.cloned();
                self.keep(key, note, &Found { value, id, soft_unix_ms, load_us });
                true
            }
            Ok(false) => {
                self.counters.refused_fills.add();
                false
            }
            Err(_) => false,
        }
    }

    /// Loads a value without filling the cache.
    async fn past(
        &self,
        key: &str,
        lead: &Lead<V>,
        load: Loader<V>,
        why: Past,
    ) -> (Result<Option<V>>, u64) {
        self.counters.bypasses.add();
        let permit = match self.permit().await {
            Ok(permit) => permit,
            Err(error) => return (Err(error), ALL),
        };
        let strong = self.settings.mode == Mode::Strong;
        if strong {
            // Those who ask from now on may know of a write that this load does not see.
            lead.close();
        }
        let source = if strong { Source::Primary } else { Source::Any };
        let note = self.note(key);
        let loaded = self.timed(load(Load { source }), Ok).await;
        drop(permit);
        match loaded {
            Ok((value, load_us)) => {
                if why == Past::Down {
                    self.keep_alone(key, note, value.clone(), load_us);
                }
                (Ok(value), ALL)
            }
            Err(error) => (Err(error), ALL),
        }
    }

    /// Runs one load, and measures its duration in microseconds.
    pub(crate) async fn timed<T, U, E: Into<BoxError>>(
        &self,
        loading: impl Future<Output = Result<T, E>>,
        check: impl FnOnce(T) -> Result<U>,
    ) -> Result<(U, u32)> {
        self.counters.loads.add();
        let start = self.clock.now().steady_ns;
        let loaded = loading.await.map_err(|error| load_failed(error.into())).and_then(check);
        if loaded.is_err() {
            self.counters.failed_loads.add();
        }
        let took = self.clock.now().steady_ns.saturating_sub(start) / 1_000;
        Ok((loaded?, u32::try_from(took).unwrap_or(u32::MAX)))
    }

    pub(crate) async fn permit(&self) -> Result<SemaphorePermit<'_>> {
        let limit = self.settings.hard_limit;
        let deadline = Deadline::after(self.clock.now(), limit);
        let permit = self.clock.within(Some(deadline), self.loads.acquire()).await;
        permit.and_then(Result::ok).ok_or_else(|| {
            let most = self.settings.max_loads;
            let what = format!(
                "{most} loads (max_loads) were running for {limit:?}; raise max_loads, or make \
                 loads faster"
            );
            Error::new(ErrorKind::Overloaded, what)
        })
    }
}

/// A granted fill.
#[derive(Clone, Copy)]
pub(crate) struct Fill<'a> {
    key: &'a str,
    token: &'a str,
    note: Option<Note>,
    run: ServerRun,
}

impl<'a> Fill<'a> {
    /// Creates the fill of the lease `token`, which was granted in `run`; `note` was taken before
    /// the request.
    pub(crate) fn new(key: &'a str, token: &'a str, note: Option<Note>, run: ServerRun) -> Self {
        Self { key, token, note, run }
    }
}

/// Runs one flight, in its own task.
pub(crate) async fn fly<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static>(
    state: Arc<State<V>>,
    lead: Lead<V>,
    load: Loader<V>,
    seen: Option<Found<V>>,
) {
    let key = lead.key().to_owned();
    let (outcome, for_before_ns) = state.bring(&key, &lead, load, seen).await;
    lead.land(outcome, for_before_ns);
}
