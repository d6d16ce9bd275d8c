//! Reads many keys at once: one command for all entries in Redis, and one load for the rest, shared
//! with every other call for the same keys.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all, try_join_all};
use leasehold_cache_redis::{ServerRun, draw_token};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cache::Cache;
use crate::entry::Entry;
use crate::key::{Key, text};
use crate::load::{Fill, Load, Source, fly};
use crate::load_error::{load_failed, loader_panicked};
use crate::local_entries::Note;
use crate::remote::Answer;
use crate::settings::Mode;
use crate::single_flight::{ALL, Flown, Follow, Lead, NOBODY, Part};
use crate::state::{Found, State};
use crate::{BoxError, Error, Result};

/// A loader of many keys, by their indexes.
type Loader<V> = Arc<dyn Fn(Vec<usize>, Load) -> Loading<V> + Send + Sync>;
type Loading<V> = BoxFuture<'static, Result<Vec<Option<V>>, BoxError>>;

/// A key for which neither this process nor Redis has a fresh value.
struct Missing<V> {
    /// The index of its value in the result.
    at: usize,
    key: String,
    note: Option<Note>,
    /// The entry, if it is no longer fresh.
    seen: Option<Found<V>>,
    /// The id of the entry to replace.
    replaces: Option<[u8; 8]>,
}

/// A key that this call loads, for all callers.
struct Wanted<V> {
    at: usize,
    lead: Lead<V>,
    seen: Option<Found<V>>,
    replaces: Option<[u8; 8]>,
    note: Option<Note>,
    /// The token of the requested fill lease.
    token: String,
    right: Right,
}

/// Where a loaded value may be kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Right {
    /// In Redis: the lease was granted in this run.
    Fill(ServerRun),
    /// Nowhere: a write is in progress, or the entry is foreign.
    None,
    /// In this process, for `down_ttl`: Redis is down.
    Alone,
}

impl Right {
    fn is_fill(self) -> bool {
        matches!(self, Self::Fill(_))
    }
}

impl<K: Key + ?Sized, V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Cache<K, V> {
    /// Returns the values of many keys, in their order.
    ///
    /// `load` receives the indexes in `keys` of the values that it must load, and returns the
    /// values in that order.
    ///
    /// Loads are shared with all concurrent calls of [`get`](Self::get) and `get_many` for the same
    /// keys, in this process and in others. One call of `load` loads all keys that no other call is
    /// loading. If another process abandons the load of a key, a separate call of `load` loads that
    /// key. As with `get`, `load` runs in its own task: if the caller is dropped, the load
    /// continues, and fills the cache. For each key, a stale value replaces a load that fails or
    /// takes longer than `soft_limit`.
    ///
    /// # Errors
    /// As [`get`](Self::get), for all keys together: one key without a value to return is enough.
    /// Also [`ErrorKind::Load`](crate::ErrorKind::Load) if `load` returns the wrong number of
    /// values.
    pub async fn get_many<F, L, E>(&self, keys: &[&K], load: F) -> Result<Vec<Option<V>>>
    where
        F: Fn(Vec<usize>, Load) -> L + Send + Sync + 'static,
        L: Future<Output = Result<Vec<Option<V>>, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let texts = keys.iter().map(|key| text(*key).map(Into::into)).collect::<Result<_>>()?;
        self.state.many(texts, shared(load)).await
    }
}

/// Wraps the loader for flights; a panic becomes an error.
fn shared<V: Send + 'static, F, L, E>(load: F) -> Loader<V>
where
    F: Fn(Vec<usize>, Load) -> L + Send + Sync + 'static,
    L: Future<Output = Result<Vec<Option<V>>, E>> + Send + 'static,
    E: Into<BoxError>,
{
    Arc::new(move |at, how| {
        let failed = |panic: Box<dyn std::any::Any + Send>| loader_panicked(panic.as_ref()).into();
        match catch_unwind(AssertUnwindSafe(|| load(at, how))) {
            Ok(loading) => {
                let loading = AssertUnwindSafe(async { loading.await.map_err(Into::into) });
                let caught = loading.catch_unwind();
                Box::pin(async move { caught.await.unwrap_or_else(|panic| Err(failed(panic))) })
            }
            Err(panic) => std::future::ready(Err(failed(panic))).boxed(),
        }
    })
}

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> State<V> {
    async fn many(self: &Arc<Self>, keys: Vec<String>, load: Loader<V>) -> Result<Vec<Option<V>>> {
        let mut values: HashMap<usize, Option<V>> = HashMap::with_capacity(keys.len());
        let (keys, places) = distinct(keys);
        let mut missing = self.here(keys, &mut values);
        self.gate(&mut missing, &mut values).await;
        let answered = self.there(&mut missing, &mut values).await;
        let flights = self.join_all(&missing, &load);
        let came = self.clock.now().steady_ns;
        let fetches = missing.iter().zip(flights).map(|(missing, flight)| {
            let flight = self.land(missing, flight, came, &load);
            self.fetch(&missing.key, missing.seen.clone(), answered, flight)
        });
        let brought = try_join_all(fetches).await?;
        values.extend(missing.iter().map(|missing| missing.at).zip(brought));
        Ok(places.into_iter().map(|at| values.get(&at).cloned().flatten()).collect())
    }

    /// Takes the values that this process has.
    fn here(
        &self,
        keys: Vec<(usize, String)>,
        values: &mut HashMap<usize, Option<V>>,
    ) -> Vec<Missing<V>> {
        let now = self.clock.now();
        let mut missing = Vec::new();
        for (at, key) in keys {
            match self.local.as_ref().and_then(|local| local.get(&key, now)) {
                _ if !self.settings.gate.has_form(&key, &self.counters) => {
                    values.insert(at, None);
                }
                Some((kept, true)) => {
                    self.counters.local_hits.add();
                    values.insert(at, kept.value);
                }
                _ => missing.push(Missing {
                    at,
                    note: self.note(&key),
                    key,
                    seen: None,
                    replaces: None,
                }),
            }
        }
        missing
    }

    /// Removes the keys that the filter excludes.
    async fn gate(&self, missing: &mut Vec<Missing<V>>, values: &mut HashMap<usize, Option<V>>) {
        if missing.is_empty() {
            return;
        }
        let keys: Vec<&str> = missing.iter().map(|missing| missing.key.as_str()).collect();
        let mut absent = self.settings.gate.absent(&keys, &self.counters).await.into_iter();
        missing.retain(|missing| {
            let absent = absent.next().unwrap_or(false);
            if absent {
                values.insert(missing.at, None);
            }
            !absent
        });
    }

    /// Takes the values that Redis has, by one command. Returns whether Redis answered.
    async fn there(
        &self,
        missing: &mut Vec<Missing<V>>,
        values: &mut HashMap<usize, Option<V>>,
    ) -> bool {
        if missing.is_empty() {
            return true;
        }
        let keys: Vec<&str> = missing.iter().map(|missing| missing.key.as_str()).collect();
        let answer = self.remote.get_many(&keys).await;
        let answered = answer.is_ok();
        let (entries, run) = answer.unwrap_or((Vec::new(), ServerRun::UNKNOWN));
        let (now, mut entries) = (self.clock.now().unix_ms(), entries.into_iter());
        missing.retain_mut(|missing| {
            let bytes = entries.next().flatten();
            // Of another type of values, it is replaced too.
            missing.replaces = bytes.as_ref().and_then(|bytes| Some(Entry::read(bytes)?.id));
            let found = bytes.and_then(|bytes| self.read(&bytes, run));
            match found {
                Some(found) if found.soft_unix_ms > now => {
                    self.counters.remote_hits.add();
                    self.keep(&missing.key, missing.note, &found);
                    values.insert(missing.at, found.value);
                    false
                }
                found => {
                    self.counters.misses.add();
                    missing.seen = found;
                    true
                }
            }
        });
        answered
    }

    /// Joins the flights of these keys, and starts one flight for the keys that have none. The
    /// second value tells whether a key is in the new flight.
    fn join_all(
        self: &Arc<Self>,
        missing: &[Missing<V>],
        load: &Loader<V>,
    ) -> Vec<(Follow<V>, bool)> {
        let mut wanted = Vec::new();
        let joined = missing.iter().map(|missing| match self.flights.join(&missing.key) {
            Part::Follow(flight) => (flight, false),
            Part::Lead(lead, own) => {
                let (at, seen, replaces) = (missing.at, missing.seen.clone(), missing.replaces);
                let (token, right) = (draw_token(), Right::None);
                wanted.push(Wanted { at, lead, seen, replaces, note: None, token, right });
                (own, true)
            }
        });
        let joined = joined.collect();
        if !wanted.is_empty() {
            tokio::spawn(fly_many(Arc::clone(self), wanted, Arc::clone(load)));
        }
        joined
    }

    /// Takes the result of a flight that was joined at `came`.
    async fn land(
        self: &Arc<Self>,
        missing: &Missing<V>,
        (mut flight, mut own): (Follow<V>, bool),
        came: u64,
        load: &Loader<V>,
    ) -> Result<Option<V>> {
        loop {
            let Flown { outcome, for_before_ns } = flight.landed().await;
            // A flight of others may not know of a write that was over when this call came.
            if own || came <= for_before_ns || self.settings.mode == Mode::Eventual {
                return outcome;
            }
            match self.join_all(std::slice::from_ref(missing), load).pop() {
                Some(joined) => (flight, own) = joined,
                None => return outcome,
            }
        }
    }

    /// Requests a fill lease for each key. Returns the keys that this flight loads, and the keys
    /// that another process loads.
    async fn ask(&self, wanted: Vec<Wanted<V>>) -> (Vec<Wanted<V>>, Vec<Wanted<V>>) {
        let asks = wanted.into_iter().map(|mut wanted| async move {
            wanted.note = self.note(wanted.lead.key());
            let seen = wanted.replaces;
            let (lease, asked) = (self.settings.lease, self.clock.now());
            let key = wanted.lead.key();
            let answer = self.remote.acquire(key, &wanted.token, lease, seen).await;
            (wanted, answer, asked)
        });
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for (mut wanted, answer, asked) in join_all(asks).await {
            wanted.right = match answer {
                Ok(Answer::Won(run)) => Right::Fill(run),
                Ok(Answer::Held | Answer::Foreign) => Right::None,
                Err(_) => Right::Alone,
                Ok(Answer::Fresh(bytes, run)) => match self.read(&bytes, run) {
                    Some(found) if found.soft_unix_ms > asked.unix_ms() => {
                        self.keep(wanted.lead.key(), wanted.note, &found);
                        wanted.lead.land(Ok(found.value), asked.steady_ns);
                        continue;
                    }
                    // It is to be loaded anew.
                    Some(found) => {
                        wanted.seen = Some(found);
                        others.push(wanted);
                        continue;
                    }
                    // Of another type of values, since this call has looked.
                    None => {
                        others.push(wanted);
                        continue;
                    }
                },
                Ok(Answer::Busy(_)) => {
                    others.push(wanted);
                    continue;
                }
            };
            own.push(wanted);
        }
        (own, others)
    }

    /// Loads these keys by one call, and fills the entries that may be filled.
    async fn load_many(&self, mut own: Vec<Wanted<V>>, load: &Loader<V>) {
        let strong = self.settings.mode == Mode::Strong;
        let mut source = Source::Any;
        for past in own.iter_mut().filter(|wanted| !wanted.right.is_fill()) {
            self.counters.bypasses.add();
            if strong {
                // Those who ask from now on may know of a write that this load does not see.
                past.lead.close();
                source = Source::Primary;
            }
        }
        let loaded = match self.permit().await {
            Ok(_permit) => {
                for alone in own.iter_mut().filter(|wanted| wanted.right == Right::Alone) {
                    alone.note = self.note(alone.lead.key());
                }
                let asked = own.len();
                let loading = load(own.iter().map(|wanted| wanted.at).collect(), Load { source });
                self.timed(loading, |values| match values.len() {
                    brought if brought == asked => Ok(values),
                    brought => {
                        let what = format!("the loader returned {brought} values for {asked} keys");
                        Err(load_failed(what.into()))
                    }
                })
                .await
            }
            Err(error) => Err(error),
        };
        match loaded {
            Ok((values, took)) => {
                let kept = own.into_iter().zip(values).map(|(wanted, value)| async move {
                    self.land_value(wanted, value, took).await;
                });
                join_all(kept).await;
            }
            Err(error) => {
                let ended = own.into_iter().map(|wanted| self.land_error(wanted, error.clone()));
                join_all(ended).await;
            }
        }
    }

    async fn land_value(&self, wanted: Wanted<V>, value: Option<V>, took: u32) {
        let Wanted { lead, note, token, right, .. } = wanted;
        match right {
            Right::Fill(run) => {
                let asked = self.clock.now().steady_ns;
                let fill = Fill::new(lead.key(), &token, note, run);
                let filled = self.fill(&fill, value.as_ref(), took).await;
                lead.land(Ok(value), if filled { asked } else { NOBODY });
            }
            Right::None => lead.land(Ok(value), ALL),
            Right::Alone => {
                let key = lead.key().to_owned();
                self.keep_alone(&key, note, value.clone(), took);
                lead.land(Ok(value), ALL);
                self.give_back(&key, &token).await;
            }
        }
    }

    async fn land_error(&self, wanted: Wanted<V>, error: Error) {
        let Wanted { lead, seen, token, right, .. } = wanted;
        if right != Right::None {
            self.give_back(lead.key(), &token).await;
        }
        match seen.filter(|_| right.is_fill()) {
            // Only for those who had seen it: a write may have come since.
            Some(seen) => {
                self.counters.stale.add();
                lead.land(Ok(seen.value), NOBODY);
            }
            None => lead.land(Err(error), ALL),
        }
    }

    /// Releases a fill lease without a value, so that others may load. The lease may have been
    /// granted even though the reply was lost.
    async fn give_back(&self, key: &str, token: &str) {
        let _ = self.remote.give_back(key, token).await;
    }
}

/// Runs one flight for many keys, in its own task. Keys that another process loads are waited for
/// one by one.
async fn fly_many<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static>(
    state: Arc<State<V>>,
    wanted: Vec<Wanted<V>>,
    load: Loader<V>,
) {
    let (own, others) = state.ask(wanted).await;
    for Wanted { at, lead, seen, .. } in others {
        let load = Arc::clone(&load);
        let one = move |how| -> BoxFuture<'static, Result<Option<V>, BoxError>> {
            Box::pin(async move { one_value(load(vec![at], how).await?) })
        };
        tokio::spawn(fly(Arc::clone(&state), lead, Box::new(one), seen));
    }
    if !own.is_empty() {
        state.load_many(own, &load).await;
    }
}

fn one_value<V>(values: Vec<Option<V>>) -> Result<Option<V>, BoxError> {
    let brought = values.len();
    let mut values = values.into_iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(value),
        _ => Err(format!("the loader returned {brought} values for 1 key").into()),
    }
}

/// Returns each key once, with the index of its first occurrence, and for every given key the index
/// of its distinct key.
fn distinct(keys: Vec<String>) -> (Vec<(usize, String)>, Vec<usize>) {
    let mut first = HashMap::with_capacity(keys.len());
    let places = keys.into_iter().enumerate().map(|(at, key)| match first.entry(key) {
        Occupied(known) => *known.get(),
        Vacant(new) => *new.insert(at),
    });
    let places = places.collect();
    let mut keys: Vec<(usize, String)> = first.into_iter().map(|(key, at)| (at, key)).collect();
    keys.sort_unstable_by_key(|(at, _)| *at);
    (keys, places)
}
