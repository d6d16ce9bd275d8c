//! Reading many keys at once: one command for all that are in Redis, one load for the rest.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::proto::Deadline;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::builder::Mode;
use crate::cache::{Cache, Found, Inner, Key, text};
use crate::get::{Fill, Load, Source};
use crate::local::Note;
use crate::remote::Answer;
use crate::write::token;
use crate::{BoxError, Error, ErrorKind, Result};

/// How long keys that somebody else loads are left before they are asked for again.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// A key that is still looked for.
struct Missing {
    /// Where its value belongs.
    at: usize,
    key: String,
    note: Option<Note>,
    /// The entry that is to be replaced: it is no longer fresh.
    seen: Option<[u8; 8]>,
    /// Whether a load may fill it, and under which lease.
    lease: Option<Lease>,
}

/// A fill lease that was won; given back when it is dropped unused, since the call may be dropped at
/// any point.
struct Lease(Option<(String, GiveBack)>);

/// Tells Redis that a lease of this token is over.
type GiveBack = Box<dyn FnOnce(String) + Send + Sync>;

impl Lease {
    fn token(&self) -> Option<&str> {
        self.0.as_ref().map(|(token, _)| token.as_str())
    }

    /// There is nothing to give back.
    fn used(mut self) {
        self.0 = None;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some((token, give_back)) = self.0.take() {
            give_back(token);
        }
    }
}

impl<K: Key + ?Sized, V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Cache<K, V> {
    /// The values of many keys, in their order. `load` is called with the positions in `keys` of
    /// those that it shall bring, and returns their values in that order; it may be called again for
    /// keys that another process was loading and gave up.
    ///
    /// # Errors
    /// As [`get`](Self::get), for all of them together; and [`ErrorKind::Load`] when `load` brings
    /// another number of values than it was asked for. Stale values are not used.
    pub async fn get_many<F, L, E>(&self, keys: &[&K], load: F) -> Result<Vec<Option<V>>>
    where
        F: Fn(Vec<usize>, Load) -> L,
        L: Future<Output = Result<Vec<Option<V>>, E>>,
        E: Into<BoxError>,
    {
        let inner = &self.inner;
        let limit = inner.settings.hard_limit;
        let deadline = Deadline::after(inner.clock.now(), limit);
        let texts = keys.iter().map(|key| text(*key).map(Into::into)).collect::<Result<_>>()?;
        let brought = inner.clock.within(Some(deadline), inner.many(texts, &load)).await;
        brought.unwrap_or_else(|| {
            Err(Error::new(ErrorKind::Timeout, format!("not all values within {limit:?}")))
        })
    }
}

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Inner<V> {
    async fn many<F, L, E>(self: &Arc<Self>, keys: Vec<String>, load: &F) -> Result<Vec<Option<V>>>
    where
        F: Fn(Vec<usize>, Load) -> L,
        L: Future<Output = Result<Vec<Option<V>>, E>>,
        E: Into<BoxError>,
    {
        let mut values: HashMap<usize, Option<V>> = HashMap::with_capacity(keys.len());
        let count = keys.len();
        let mut missing = self.here(keys, &mut values);
        self.gate(&mut missing, &mut values).await;
        self.there(&mut missing, &mut values).await;
        while !missing.is_empty() {
            let (mut own, others) = self.ask(missing, &mut values).await;
            if !own.is_empty() {
                let (brought, took) = self.load_many(&own, load).await?;
                let fills = own.iter_mut().zip(&brought).filter_map(|(missing, value)| {
                    let lease = missing.lease.take()?;
                    let (key, note) = (&missing.key, missing.note);
                    Some(async move {
                        let token = lease.token().unwrap_or_default();
                        self.fill(&Fill::new(key, token, note), value.as_ref(), took).await;
                        lease.used();
                    })
                });
                futures_util::future::join_all(fills).await;
                values.extend(own.drain(..).map(|missing| missing.at).zip(brought));
            } else if !others.is_empty() {
                self.clock.sleep(ASK_AGAIN).await;
            }
            missing = others;
        }
        Ok((0..count).map(|at| values.remove(&at).flatten()).collect())
    }

    /// Takes what this process has.
    fn here(&self, keys: Vec<String>, values: &mut HashMap<usize, Option<V>>) -> Vec<Missing> {
        let now = self.clock.now();
        let mut missing = Vec::new();
        for (at, key) in keys.into_iter().enumerate() {
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
                    lease: None,
                }),
            }
        }
        missing
    }

    /// Leaves out what the filter says has no value.
    async fn gate(&self, missing: &mut Vec<Missing>, values: &mut HashMap<usize, Option<V>>) {
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

    /// Takes what Redis has, by one command.
    async fn there(&self, missing: &mut Vec<Missing>, values: &mut HashMap<usize, Option<V>>) {
        if missing.is_empty() {
            return;
        }
        let keys: Vec<&str> = missing.iter().map(|missing| missing.key.as_str()).collect();
        let Ok(entries) = self.remote.get_many(&keys).await else { return };
        let (now, mut entries) = (self.clock.now().unix_ms(), entries.into_iter());
        missing.retain_mut(|missing| {
            let entry = entries.next().flatten();
            let found: Option<Found<V>> = entry.and_then(|bytes| self.read(&bytes));
            missing.seen = found.as_ref().map(|found| found.id);
            let Some(found) = found.filter(|found| found.soft_unix_ms > now) else {
                self.counters.misses.add();
                return true;
            };
            self.counters.remote_hits.add();
            self.keep(&missing.key, missing.note, &found);
            values.insert(missing.at, found.value);
            false
        });
    }

    /// Asks for each whether it may be loaded: those to load, and those that somebody else loads.
    async fn ask(
        self: &Arc<Self>,
        missing: Vec<Missing>,
        values: &mut HashMap<usize, Option<V>>,
    ) -> (Vec<Missing>, Vec<Missing>) {
        let asks = missing.into_iter().map(|mut missing| async move {
            missing.note = self.note(&missing.key);
            // Dropped before the answer, it may have been won.
            let lease = self.lease(&missing.key);
            let token = lease.token().unwrap_or_default();
            let span = self.settings.lease;
            let answer = self.remote.acquire(&missing.key, token, span, missing.seen).await;
            match answer {
                Ok(Answer::Won) => missing.lease = Some(lease),
                // Perhaps.
                Err(_) => drop(lease),
                Ok(_) => lease.used(),
            }
            (missing, answer)
        });
        let (mut own, mut others) = (Vec::new(), Vec::new());
        let now = self.clock.now().unix_ms();
        for (mut missing, answer) in futures_util::future::join_all(asks).await {
            match answer {
                Ok(Answer::Won) => own.push(missing),
                Ok(Answer::Busy(_)) => others.push(missing),
                Ok(Answer::Fresh(bytes)) => match self.read(&bytes) {
                    // It is to be loaded anew.
                    Some(found) if found.soft_unix_ms <= now => {
                        missing.seen = Some(found.id);
                        others.push(missing);
                    }
                    Some(found) => {
                        self.keep(&missing.key, missing.note, &found);
                        values.insert(missing.at, found.value);
                    }
                    None => own.push(missing),
                },
                Ok(Answer::Held | Answer::Foreign) | Err(_) => {
                    self.counters.bypasses.add();
                    own.push(missing);
                }
            }
        }
        (own, others)
    }

    /// One load for all of these; and how long it took, in microseconds.
    async fn load_many<F, L, E>(&self, own: &[Missing], load: &F) -> Result<(Vec<Option<V>>, u32)>
    where
        F: Fn(Vec<usize>, Load) -> L,
        L: Future<Output = Result<Vec<Option<V>>, E>>,
        E: Into<BoxError>,
    {
        let _permit = self.permit().await?;
        let past = own.iter().any(|missing| missing.lease.is_none());
        let strong = self.settings.mode == Mode::Strong;
        let source = if past && strong { Source::Primary } else { Source::Any };
        let wanted: Vec<usize> = own.iter().map(|missing| missing.at).collect();
        self.timed(load(wanted, Load { source }), |values| {
            if values.len() == own.len() {
                return Ok(values);
            }
            let (brought, asked) = (values.len(), own.len());
            Err(Error::load(format!("it brought {brought} values for {asked} keys").into()))
        })
        .await
    }

    /// A lease to be asked for.
    fn lease(self: &Arc<Self>, key: &str) -> Lease {
        let (inner, key) = (Arc::clone(self), key.to_owned());
        let give_back: GiveBack = Box::new(move |token| {
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move {
                    let _ = inner.remote.fill(&key, &token, b"", Duration::ZERO).await;
                });
            }
        });
        Lease(Some((token(), give_back)))
    }
}
