//! Writing: a hold before the transaction, an invalidation after it.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::proto::Deadline;
use leasehold_core::random;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cache::{Cache, Inner, Key, text};
use crate::entry::{self, Entry};
use crate::hold::{Hold, State};
use crate::redrive::made;
use crate::remote::Step;
use crate::run::Run;
use crate::{Error, ErrorKind, Result};

/// A write under way: no reader fills its keys until the write or its hold ends.
///
/// End it with [`committed`](Self::committed), [`committed_with`](Self::committed_with) or
/// [`rolled_back`](Self::rolled_back); [`Cache::write`] and `Cache::write_in_tx` do so
/// themselves.
///
/// If a write is dropped instead, also by an error or a cancelled task, it is released in the
/// background. A commit may have been sent a moment before: its keys are removed again, and no
/// value is filled for one more second (and `replica_lag`). If Redis does not answer then, or the
/// process dies, the hold lasts for `write_hold` from its beginning.
#[must_use = "end it with committed(), committed_with() or rolled_back()"]
pub struct Write<V> {
    inner: Arc<Inner<V>>,
    pub(crate) hold: Hold,
    /// That the server was in when this began.
    run: Run,
}

/// The result of an invalidation with values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invalidation {
    /// How many keys have their new value in Redis; the other keys were removed.
    pub filled: usize,
}

impl<K: Key + ?Sized, V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Cache<K, V> {
    /// Begins a write: removes the values of `keys`, and prevents fills of them until the write
    /// ends.
    ///
    /// Call it before the transaction that changes the values, and call [`Write::committed`] after
    /// the commit. If this future is dropped, the hold is released in the background.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a key that is not allowed. [`ErrorKind::Unavailable`] if Redis
    /// did not accept the hold: do not write then, or put the invalidation into an outbox.
    pub async fn begin_write(&self, keys: &[&K]) -> Result<Write<V>> {
        let mut write = self.inner.begin(texts(keys)?).await?;
        write.hold.state = State::Open;
        Ok(write)
    }

    /// Runs `work`, which writes to the database and commits, under a hold over `keys`, and returns
    /// what `work` returns.
    ///
    /// It calls [`begin_write`](Self::begin_write) before `work` and [`Write::committed`] after it.
    /// For transactions of sqlx use `write_in_tx` (with the feature of a database).
    ///
    /// If `work` fails or panics, or this future is dropped, a commit may have been sent or not:
    /// the keys are released as those of a dropped [`Write`]. If Redis does not answer after the
    /// commit, the result is still that of `work`, and the invalidation is repeated in the
    /// background.
    ///
    /// # Errors
    /// The error of `work`. [`ErrorKind::Invalid`] for a key that is not allowed, and
    /// [`ErrorKind::Unavailable`] if Redis did not accept the hold: then `work` did not run.
    pub async fn write<T, E, F>(&self, keys: &[&K], work: F) -> Result<T, E>
    where
        F: AsyncFnOnce(&Write<V>) -> Result<T, E>,
        E: From<Error>,
    {
        let write = self.begin_write(keys).await?;
        let done = work(&write).await?;
        write.committed_at_last().await;
        Ok(done)
    }

    /// Removes the values of `keys` after they have changed, without a hold.
    ///
    /// A reader that loaded before the change may still fill between the change and this call. If
    /// that matters, use [`begin_write`](Self::begin_write). If this future is dropped, some values may
    /// not be removed: call it again.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if Redis did not accept the invalidation of some keys. It is
    /// repeated for those keys in the background while this process lives.
    pub async fn invalidate(&self, keys: &[&K]) -> Result<()> {
        let keys = texts(keys)?;
        let lag = self.inner.settings.replica_lag;
        self.inner.step(&keys, &token(), |_| Step::Committed(lag)).await.map(drop)
    }
}

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Write<V> {
    /// Returns how long the hold still lasts. The transaction must commit before the hold ends:
    /// check this just before the commit.
    pub fn remaining(&self) -> Duration {
        self.hold.until.remaining(self.inner.clock.now())
    }

    /// Ends a write whose transaction has committed: readers load the new value (`replica_lag`
    /// later, if it is set).
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if Redis did not accept it. It is repeated in the background.
    /// `begin_write` has removed the values, and no reader fills them until the hold ends.
    ///
    /// If this future is dropped, it continues in the background.
    pub async fn committed(self) -> Result<()> {
        let lag = self.inner.settings.replica_lag;
        self.end(|_| Step::Committed(lag)).await.map(drop)
    }

    /// The same for a transaction that is reported as committed in any case.
    pub(crate) async fn committed_at_last(self) {
        if let Err(error) = self.committed().await {
            tracing::warn!(%error, "an invalidation is repeated until Redis takes it");
        }
    }

    /// Ends a write whose transaction has committed these values, one for each key of
    /// `begin_write`, in that order.
    ///
    /// A value is put into Redis if no other write of its key came meanwhile. Otherwise the key is
    /// removed, since the order of the writes is not known.
    ///
    /// # Errors
    /// As [`committed`](Self::committed). [`ErrorKind::Invalid`] for another number of values, or a
    /// value that cannot be encoded: then the keys were invalidated.
    pub async fn committed_with(self, values: &[Option<V>]) -> Result<Invalidation> {
        let inner = Arc::clone(&self.inner);
        if values.len() != self.hold.keys.len() {
            let (values, keys) = (values.len(), self.hold.keys.len());
            self.committed().await?;
            return Err(Error::invalid(format!("{values} values for {keys} keys; one for each")));
        }
        let mut entries = Vec::with_capacity(values.len());
        for value in values {
            match inner.entry(value.as_ref(), self.run) {
                Ok(entry) => entries.push(entry),
                Err(error) => {
                    self.committed().await?;
                    return Err(error);
                }
            }
        }
        let lag = inner.settings.replica_lag;
        let step = |at: usize| Step::CommittedWith(lag, &entries[at].0, entries[at].1);
        let filled = self.end(step).await?;
        Ok(Invalidation { filled })
    }

    /// Ends a write that changed no value: readers may fill again.
    ///
    /// # Errors
    /// As [`committed`](Self::committed).
    pub async fn rolled_back(self) -> Result<()> {
        self.end(|_| Step::Committed(Duration::ZERO)).await.map(drop)
    }

    /// The last step. A step that fails is repeated in the background; so is one that is dropped.
    async fn end<'s>(mut self, step: impl Fn(usize) -> Step<'s>) -> Result<usize> {
        let done = self.inner.step(&self.hold.keys, &self.hold.token, step).await;
        self.hold.state = State::Ended;
        done
    }
}

impl<V> std::fmt::Debug for Write<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Write").field("keys", &self.hold.keys).finish_non_exhaustive()
    }
}

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Inner<V> {
    /// Begins a write whose transaction cannot be committed yet. Dropped, it holds nothing.
    pub(crate) async fn begin(self: &Arc<Self>, keys: Vec<String>) -> Result<Write<V>> {
        let span = self.settings.write_hold;
        let until = Deadline::after(self.clock.now(), span);
        // Before the hold: what this write puts is not of a later run than its hold.
        let run = self.remote.run().await.unwrap_or(Run::UNKNOWN);
        let hold = Hold::new(keys, until, Arc::clone(self) as _);
        let mut write = Write { inner: Arc::clone(self), hold, run };
        let Hold { keys, token, .. } = &write.hold;
        let begun = self.step(keys, token, |_| Step::Begin(span)).await;
        if begun.is_err() {
            write.hold.state = State::Ended;
        }
        begun.map(|_| write)
    }

    /// One step for many keys at once, Redis first, then this process. How many new entries were
    /// taken. What was to be invalidated and was not is tried again in the background.
    pub(crate) async fn step<'s>(
        self: &Arc<Self>,
        keys: &[String],
        token: &str,
        step: impl Fn(usize) -> Step<'s>,
    ) -> Result<usize> {
        let begins = matches!(step(0), Step::Begin(_));
        if !begins {
            self.recent.note(&self.clock, self.settings.write_hold, keys);
        }
        let lag = match step(0) {
            Step::Committed(lag) | Step::CommittedWith(lag, ..) => lag,
            Step::Begin(_) | Step::Settled => Duration::ZERO,
        };
        let (filled, failed, error) = self.try_step(keys, token, step).await;
        self.hold_for_lag(&made(keys, &failed), token, lag);
        let Some(error) = error else { return Ok(filled) };
        let what = format!(
            "{} of {} keys not invalidated, {} first: {error}",
            failed.len(),
            keys.len(),
            failed[0]
        );
        match begins {
            // The caller does not get the token that ends these holds.
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
    fn entry(&self, value: Option<&V>, run: Run) -> Result<(Vec<u8>, Duration)> {
        let (payload, compressed) = self.payload(value)?;
        let null = value.is_none();
        let fresh = self.settings.fresh(null, fastrand::f64());
        let soft_unix_ms = self.clock.now().unix_ms() + fresh.as_millis() as u64;
        let id = entry::id(run);
        let (schema, payload) = (self.settings.schema, &payload[..]);
        let entry = Entry { null, compressed, id, soft_unix_ms, load_us: 0, schema, payload };
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
