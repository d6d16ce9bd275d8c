//! Writes: a hold before the transaction, an invalidation after it.

use std::sync::Arc;
use std::time::Duration;

use leasehold_cache_redis::invalidation::Step;
use leasehold_cache_redis::{ServerRun, draw_token};
use leasehold_core::proto::Deadline;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cache::Cache;
use crate::entry::{self, Entry};
use crate::key::{Key, texts};
use crate::state::State;
use crate::write_hold::{Commit, Hold};
use crate::{Error, Result};

/// A write in progress: no reader fills its keys until the write or its hold ends.
///
/// End it with [`committed`](Self::committed), [`committed_with`](Self::committed_with) or
/// [`rolled_back`](Self::rolled_back); [`Cache::write`] and `Cache::write_in_tx` do so
/// themselves.
///
/// If a write is dropped instead, also by an error or a cancelled task, it is released in the
/// background. A commit may have been sent just before: its keys are removed again, and no value is
/// filled for one more second (plus `replica_lag`). If Redis does not answer then, or the process
/// dies, the hold lasts until `write_hold` after it began.
#[must_use = "end it with committed(), committed_with() or rolled_back()"]
pub struct Write<V> {
    state: Arc<State<V>>,
    pub(crate) hold: Hold,
    /// The server's run when this write began.
    run: ServerRun,
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
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a key that is not allowed.
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if Redis did not accept the hold:
    /// do not write, or put the invalidation into an outbox.
    pub async fn begin_write(&self, keys: &[&K]) -> Result<Write<V>> {
        let mut write = self.state.begin(texts(keys)?).await?;
        write.hold.commit = Commit::Open;
        Ok(write)
    }

    /// Holds `keys`, runs `work`, which writes to the database and commits, and returns its result.
    ///
    /// It calls [`begin_write`](Self::begin_write) before `work` and [`Write::committed`] after it.
    /// For transactions of sqlx use `write_in_tx` (with the feature of a database).
    ///
    /// If `work` fails or panics, or this future is dropped, the commit may have been sent: the
    /// keys are released like those of a dropped [`Write`]. If Redis does not answer after the
    /// commit, the result is still that of `work`, and the invalidation is repeated in the
    /// background.
    ///
    /// # Errors
    /// The error of `work`. [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a key that is not allowed, and
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if Redis did not accept the hold: then `work` did not run.
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
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if Redis did not accept the invalidation of some keys. It is
    /// repeated for those keys in the background while this process lives.
    pub async fn invalidate(&self, keys: &[&K]) -> Result<()> {
        let keys = texts(keys)?;
        let lag = self.state.settings.replica_lag;
        self.state.step(&keys, &draw_token(), |_| Step::Committed(lag)).await.map(drop)
    }
}

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Write<V> {
    /// Returns how long the hold still lasts. The transaction must commit before the hold ends:
    /// check this just before the commit.
    pub fn remaining(&self) -> Duration {
        self.hold.until.remaining(self.state.clock.now())
    }

    /// Ends a write whose transaction has committed: readers load the new value (`replica_lag`
    /// later, if it is set).
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if Redis did not accept it. It is repeated in the background.
    /// `begin_write` has removed the values, and no reader fills them until the hold ends.
    ///
    /// If this future is dropped, it continues in the background.
    pub async fn committed(self) -> Result<()> {
        let lag = self.state.settings.replica_lag;
        self.end(|_| Step::Committed(lag)).await.map(drop)
    }

    /// Ends a write whose result is "committed" even if this fails.
    pub(crate) async fn committed_at_last(self) {
        if let Err(error) = self.committed().await {
            tracing::warn!(%error, "cannot invalidate yet; retrying until Redis accepts it");
        }
    }

    /// Ends a write whose transaction has committed these values, one for each key of
    /// `begin_write`, in that order.
    ///
    /// A value is put into Redis unless another write of its key was in progress meanwhile. In that
    /// case the key is removed, because the order of the writes is unknown.
    ///
    /// # Errors
    /// As [`committed`](Self::committed). [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for the
    /// wrong number of values, or a value that cannot be encoded: in both cases the keys were
    /// invalidated.
    pub async fn committed_with(self, values: &[Option<V>]) -> Result<Invalidation> {
        let state = Arc::clone(&self.state);
        if values.len() != self.hold.keys.len() {
            let (values, keys) = (values.len(), self.hold.keys.len());
            self.committed().await?;
            return Err(Error::invalid(format!(
                "{values} values for {keys} keys; give one value for each key"
            )));
        }
        let mut entries = Vec::with_capacity(values.len());
        for value in values {
            match state.entry(value.as_ref(), self.run) {
                Ok(entry) => entries.push(entry),
                Err(error) => {
                    self.committed().await?;
                    return Err(error);
                }
            }
        }
        let lag = state.settings.replica_lag;
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

    /// Runs the last step. A step that fails or is dropped is repeated in the background.
    async fn end<'s>(mut self, step: impl Fn(usize) -> Step<'s>) -> Result<usize> {
        let done = self.state.step(&self.hold.keys, &self.hold.token, step).await;
        self.hold.commit = Commit::Ended;
        done
    }
}

impl<V> std::fmt::Debug for Write<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Write").field("keys", &self.hold.keys).finish_non_exhaustive()
    }
}

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> State<V> {
    /// Begins a write whose transaction cannot commit yet. If it is dropped, it holds nothing.
    pub(crate) async fn begin(self: &Arc<Self>, keys: Vec<String>) -> Result<Write<V>> {
        let span = self.settings.write_hold;
        let until = Deadline::after(self.clock.now(), span);
        // Before the hold: what this write puts is not of a later run than its hold.
        let run = self.remote.run().await.unwrap_or(ServerRun::UNKNOWN);
        let hold = Hold::new(keys, until, Arc::clone(self) as _);
        let mut write = Write { state: Arc::clone(self), hold, run };
        let Hold { keys, token, .. } = &write.hold;
        let begun = self.step(keys, token, |_| Step::Begin(span)).await;
        if begun.is_err() {
            write.hold.commit = Commit::Ended;
        }
        begun.map(|_| write)
    }

    /// Returns an entry that was written, not loaded, with its time to live.
    fn entry(&self, value: Option<&V>, run: ServerRun) -> Result<(Vec<u8>, Duration)> {
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
