//! Writing: a hold before the transaction, an invalidation after it.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::proto::Deadline;
use leasehold_core::random;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cache::{Cache, Inner, Key, text};
use crate::entry::Entry;
use crate::remote::Step;
use crate::{Error, ErrorKind, Result};

/// A write under way: no reader fills these keys until it has ended, or its hold has.
///
/// Dropped without an end (the program has crashed, or does not know whether it has committed), the
/// hold lasts for `write_hold` from its beginning; after that readers load what the database says.
#[must_use = "end it with committed(), committed_with() or rolled_back()"]
pub struct Write<V> {
    inner: Arc<Inner<V>>,
    token: String,
    keys: Vec<String>,
    until: Deadline,
}

/// What became of an invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invalidation {
    /// Keys whose new value was put into Redis; the others were removed.
    pub filled: usize,
}

impl<K: Key + ?Sized, V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Cache<K, V> {
    /// To be called before the transaction that changes the values of `keys`: removes them, and lets
    /// nobody fill them until the write has ended. End it by [`Write::committed`] after the commit.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a key that is not allowed; [`ErrorKind::Unavailable`] when Redis
    /// did not take it: do not write then, or put the invalidation into an outbox.
    pub async fn begin_write(&self, keys: &[&K]) -> Result<Write<V>> {
        let keys = texts(keys)?;
        let inner = Arc::clone(&self.inner);
        let hold = inner.settings.write_hold;
        let until = Deadline::after(inner.clock.now(), hold);
        let token = token();
        inner.step(&keys, &token, |_| Step::Begin(hold)).await?;
        Ok(Write { inner, token, keys, until })
    }

    /// Removes the values of `keys`, which have changed: the second half of a write alone. A reader
    /// that loaded before the change may still fill between the change and this call; where that
    /// matters, use [`begin_write`](Self::begin_write).
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when Redis did not take it for some keys. For those it is tried
    /// again in the background while this process lives.
    pub async fn invalidate(&self, keys: &[&K]) -> Result<()> {
        let keys = texts(keys)?;
        let lag = self.inner.settings.replica_lag;
        self.inner.step(&keys, &token(), |_| Step::Committed(lag)).await.map(drop)
    }
}

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Write<V> {
    /// How long the hold lasts. A transaction must have committed before it is over: look at it
    /// just before the commit.
    pub fn remaining(&self) -> Duration {
        self.until.remaining(self.inner.clock.now())
    }

    /// The transaction has committed: readers load anew (`replica_lag` later, where that is set).
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when Redis did not take it. It is tried again in the background;
    /// and the values were removed by `begin_write` and nobody fills them until the hold is over.
    pub async fn committed(self) -> Result<()> {
        let lag = self.inner.settings.replica_lag;
        self.inner.step(&self.keys, &self.token, |_| Step::Committed(lag)).await.map(drop)
    }

    /// The transaction has committed these values, one for each key of `begin_write` and in their
    /// order: they are put into Redis where nobody else wrote meanwhile, and removed where somebody
    /// did, since nobody knows then whose came last.
    ///
    /// # Errors
    /// As [`committed`](Self::committed); [`ErrorKind::Invalid`] for another number of values, or
    /// one that cannot be encoded: then the keys were invalidated.
    pub async fn committed_with(self, values: &[Option<V>]) -> Result<Invalidation> {
        let inner = Arc::clone(&self.inner);
        if values.len() != self.keys.len() {
            let (values, keys) = (values.len(), self.keys.len());
            self.committed().await?;
            return Err(Error::invalid(format!("{values} values for {keys} keys; one for each")));
        }
        let mut entries = Vec::with_capacity(values.len());
        for value in values {
            match inner.entry(value.as_ref()) {
                Ok(entry) => entries.push(entry),
                Err(error) => {
                    self.committed().await?;
                    return Err(error);
                }
            }
        }
        let lag = inner.settings.replica_lag;
        let step = |at: usize| Step::CommittedWith(lag, &entries[at].0, entries[at].1);
        let filled = inner.step(&self.keys, &self.token, step).await?;
        Ok(Invalidation { filled })
    }

    /// Nothing was changed: readers may fill again.
    ///
    /// # Errors
    /// As [`committed`](Self::committed).
    pub async fn rolled_back(self) -> Result<()> {
        let step = |_| Step::Committed(Duration::ZERO);
        self.inner.step(&self.keys, &self.token, step).await.map(drop)
    }
}

impl<V> std::fmt::Debug for Write<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Write").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Inner<V> {
    /// One step for many keys at once, Redis first, then this process. How many new entries were
    /// taken. What was to be invalidated and was not is tried again in the background.
    async fn step<'s>(
        self: &Arc<Self>,
        keys: &[String],
        token: &str,
        step: impl Fn(usize) -> Step<'s>,
    ) -> Result<usize> {
        let begins = matches!(step(0), Step::Begin(_));
        if !begins {
            self.recent.note(&self.clock, self.settings.write_hold, keys);
        }
        let (filled, failed, error) = self.try_step(keys, token, step).await;
        let Some(error) = error else { return Ok(filled) };
        let what = format!(
            "{} of {} keys not invalidated, {} first: {error}",
            failed.len(),
            keys.len(),
            failed[0]
        );
        match begins {
            // Nobody has the token to end them by.
            true => self.end_holds(keys.to_vec(), token.to_owned()),
            false => self.redrive(failed),
        }
        Err(Error::new(ErrorKind::Unavailable, what))
    }

    /// The same, once: how many new entries were taken, and which keys failed of what.
    pub(crate) async fn try_step<'s>(
        &self,
        keys: &[String],
        token: &str,
        step: impl Fn(usize) -> Step<'s>,
    ) -> (usize, Vec<String>, Option<Error>) {
        let calls = keys.iter().enumerate().map(|(at, key)| {
            let step = step(at);
            async move { self.remote.write(key, token, &step).await }
        });
        let done = futures_util::future::join_all(calls).await;
        let (mut filled, mut failed, mut why) = (0, Vec::new(), None);
        for (key, done) in keys.iter().zip(done) {
            self.forget(key);
            match done {
                Ok(taken) => filled += usize::from(taken),
                Err(error) => {
                    failed.push(key.clone());
                    why.get_or_insert(error);
                }
            }
        }
        (filled, failed, why)
    }

    /// An entry that was not loaded but written, with its time to live.
    fn entry(&self, value: Option<&V>) -> Result<(Vec<u8>, Duration)> {
        let (payload, compressed) = self.payload(value)?;
        let null = value.is_none();
        let fresh = self.settings.fresh(null, fastrand::f64());
        let soft_unix_ms = self.clock.now().unix_ms() + fresh.as_millis() as u64;
        let id = random::fresh().to_be_bytes();
        let entry = Entry { null, compressed, id, soft_unix_ms, load_us: 0, payload: &payload };
        Ok((entry.write(), fresh + self.settings.stale(null)))
    }
}

pub(crate) fn texts<K: Key + ?Sized>(keys: &[&K]) -> Result<Vec<String>> {
    if keys.is_empty() {
        return Err(Error::invalid("keys: none; name those whose values change"));
    }
    keys.iter().map(|key| text(*key).map(Into::into)).collect()
}

/// The name of one write.
pub(crate) fn token() -> String {
    format!("{:016x}", random::fresh())
}
