//! Reads a value: from this process, from Redis, or by a load that all callers of a missing key
//! share.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use leasehold_core::proto::Deadline;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cache::Cache;
use crate::early_refresh;
use crate::key::{Key, text};
use crate::load::{Load, Loader, fly};
use crate::load_error::loader_panicked;
use crate::settings::Mode;
use crate::single_flight::{Flown, Part};
use crate::state::{Found, State};
use crate::{BoxError, Error, ErrorKind, Result};

impl<K: Key + ?Sized, V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Cache<K, V> {
    /// Returns the value of `key`, or `None` if there is no such value.
    ///
    /// If neither this process nor Redis has the value, one of the concurrent callers calls `load`.
    /// `load` runs in its own task: if its caller is dropped, the load continues, and fills the
    /// cache.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a key that is not allowed. The other errors are returned only if
    /// there is no stale value: [`ErrorKind::Load`] if the loader failed or panicked,
    /// [`ErrorKind::Overloaded`] and [`ErrorKind::Timeout`] if there was no value within the hard
    /// time limit. An outage of Redis is not an error.
    pub async fn get<F, L, E>(&self, key: &K, load: F) -> Result<Option<V>>
    where
        F: FnOnce(Load) -> L + Send + 'static,
        L: Future<Output = Result<Option<V>, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let key = text(key)?;
        let state = &self.state;
        let gate = &state.settings.gate;
        if !gate.has_form(&key, &state.counters) {
            // A caller in a loop yields to other tasks.
            tokio::task::consume_budget().await;
            return Ok(None);
        }
        let now = state.clock.now();
        if let Some((kept, true)) = state.local.as_ref().and_then(|local| local.get(&key, now)) {
            state.counters.local_hits.add();
            tokio::task::consume_budget().await;
            let found = Found {
                value: kept.value,
                id: kept.id,
                soft_unix_ms: kept.soft_unix_ms,
                load_us: kept.load_us,
            };
            if kept.load_us > 0 && state.is_due(&found, now.unix_ms()) {
                state.refresh(&key, found.clone(), boxed(load));
            }
            return Ok(found.value);
        }
        if gate.has_filter() && gate.absent(&[&key], &state.counters).await == [true] {
            tokio::task::consume_budget().await;
            return Ok(None);
        }
        let note = state.note(&key);
        let answer = state.remote.get(&key).await;
        let answered = answer.is_ok();
        let found = answer.ok().flatten().and_then(|(bytes, run)| state.read(&bytes, run));
        let stale = match found {
            Some(found) if found.soft_unix_ms > now.unix_ms() => {
                state.counters.remote_hits.add();
                state.keep(&key, note, &found);
                if state.is_due(&found, now.unix_ms()) {
                    state.refresh(&key, found.clone(), boxed(load));
                }
                return Ok(found.value);
            }
            Some(found) => Some(found),
            None => None,
        };
        state.counters.misses.add();
        let flight = state.join(&key, stale.clone(), boxed(load));
        state.fetch(&key, stale, answered, flight).await
    }
}

fn boxed<V, F, L, E>(load: F) -> Loader<V>
where
    F: FnOnce(Load) -> L + Send + 'static,
    L: Future<Output = Result<Option<V>, E>> + Send + 'static,
    E: Into<BoxError>,
{
    Box::new(|how| {
        let loading = AssertUnwindSafe(async move { load(how).await.map_err(Into::into) });
        Box::pin(async {
            let loaded = loading.catch_unwind().await;
            loaded.unwrap_or_else(|panic| Err(loader_panicked(panic.as_ref()).into()))
        })
    })
}

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> State<V> {
    fn is_due(&self, found: &Found<V>, now_ms: u64) -> bool {
        let dice = 1.0 - fastrand::f64();
        early_refresh::is_due(now_ms, found.soft_unix_ms, found.load_us, self.settings.early, dice)
    }

    /// Starts to reload a value that is still served, unless a task of this process already does.
    fn refresh(self: &Arc<Self>, key: &str, seen: Found<V>, load: Loader<V>) {
        if let Part::Lead(lead, _) = self.flights.join(key) {
            tokio::spawn(fly(Arc::clone(self), lead, load, Some(seen)));
        }
    }

    /// Waits for a flight of this or another task. If a stale value exists (an entry in Redis, or a
    /// value that this process has kept), it shortens the wait and replaces a failure. If Redis has
    /// `answered` that there is no entry, a kept value is used only if this process received every
    /// invalidation since. If Redis has not answered, the process may have missed an invalidation:
    /// then a kept value replaces a slow load for `down_ttl`, and a failed load for `stale_for`.
    pub(crate) async fn fetch(
        &self,
        key: &str,
        stale: Option<Found<V>>,
        answered: bool,
        flight: impl Future<Output = Result<Option<V>>>,
    ) -> Result<Option<V>> {
        let start = self.clock.now();
        let stand_in = |doubt: Duration| match &stale {
            Some(found) => Some(found.value.clone()),
            None => self.stale(key, (!answered).then_some(doubt)),
        };
        let (down_ttl, stale_for) = (self.settings.down_ttl, self.settings.stale_for);
        let hard = self.settings.hard_limit;
        let until = |limit| Some(Deadline::after(start, limit));
        let mut flight = pin!(flight);
        let mut flown = None;
        if stand_in(down_ttl).is_some() {
            let soft = self.settings.soft_limit.min(hard);
            flown = self.clock.within(until(soft), flight.as_mut()).await;
            if flown.is_none()
                && let Some(value) = stand_in(down_ttl)
            {
                self.counters.stale.add();
                return Ok(value);
            }
        }
        // What could have stood in may have been invalidated meanwhile.
        if flown.is_none() {
            flown = self.clock.within(until(hard), flight).await;
        }
        let failed = match flown {
            Some(Ok(value)) => return Ok(value),
            Some(Err(error)) => error,
            None => Error::new(
                ErrorKind::Timeout,
                format!("timed out after {hard:?}; the load continues in the background"),
            ),
        };
        match stand_in(stale_for) {
            Some(value) => {
                self.counters.stale.add();
                Ok(value)
            }
            None => Err(failed),
        }
    }

    async fn join(
        self: &Arc<Self>,
        key: &str,
        stale: Option<Found<V>>,
        load: Loader<V>,
    ) -> Result<Option<V>> {
        let came = self.clock.now().steady_ns;
        loop {
            match self.flights.join(key) {
                Part::Lead(lead, own) => {
                    tokio::spawn(fly(Arc::clone(self), lead, load, stale));
                    return own.landed().await.outcome;
                }
                Part::Follow(flight) => {
                    let Flown { outcome, for_before_ns } = flight.landed().await;
                    // It may not know of a write that was over when we came.
                    if came <= for_before_ns || self.settings.mode == Mode::Eventual {
                        return outcome;
                    }
                }
            }
        }
    }
}
