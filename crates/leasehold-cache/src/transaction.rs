//! Writes and invalidations in a SQL transaction that changes the values.

use leasehold_outbox::{Change, Engine, Outbox, database_error};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::{Connection, Pool, Transaction};

use crate::cache::Cache;
use crate::key::{Key, texts};
use crate::write::Write;
use crate::write_hold::Commit;
use crate::{Error, ErrorKind, Result};

impl<K: Key + ?Sized, V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Cache<K, V> {
    /// Runs `work` in a transaction of `pool` that changes the values of `keys`.
    ///
    /// It begins the write and the transaction, commits if `work` succeeds and rolls back if it
    /// fails, then ends the write. Readers see the change when this returns, or `replica_lag` later
    /// if that is set.
    ///
    /// Cancel safety: if the future is dropped before the commit is sent, the transaction is rolled
    /// back, and the keys are released in the background at once. If it is dropped later, the
    /// transaction may be committed, and the keys are released like those of a dropped [`Write`]. A
    /// panic of `work` has the same effect as a drop.
    ///
    /// If Redis does not answer after the commit, the result is still that of `work`, and the
    /// invalidation is repeated in the background.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")]
    /// # async fn example(
    /// #     users: leasehold_cache::Cache<u64, String>,
    /// #     pool: sqlx::SqlitePool,
    /// # ) -> Result<(), leasehold_cache::BoxError> {
    /// let rename = async |tx: &mut sqlx::SqliteTransaction<'_>| {
    ///     sqlx::query("UPDATE users SET name = 'Ada' WHERE id = 42").execute(&mut **tx).await?;
    ///     Ok::<_, leasehold_cache::BoxError>(())
    /// };
    /// users.write_in_tx(&pool, &[&42], rename).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The error of `work`: the transaction was rolled back. Other errors:
    ///
    /// - [`ErrorKind::Invalid`] for a key that is not allowed; [`ErrorKind::Unavailable`] if Redis
    ///   did not accept the hold. `work` did not run.
    /// - [`ErrorKind::Database`] if the transaction could not begin, or its commit failed. If the
    ///   commit had no answer, the outcome is unknown.
    /// - [`ErrorKind::Timeout`] if `work` took longer than `write_hold`: the transaction was rolled
    ///   back.
    pub async fn write_in_tx<D, T, E, F>(
        &self,
        pool: &Pool<D>,
        keys: &[&K],
        work: F,
    ) -> Result<T, E>
    where
        D: Engine,
        F: AsyncFnOnce(&mut Transaction<'_, D>) -> Result<T, E>,
        E: From<Error>,
    {
        let keys = texts(keys)?;
        let failed = database_error;
        // Before the hold: a pool may let its callers wait.
        let mut connection = pool.acquire().await.map_err(failed)?;
        let mut write = self.state.begin(keys).await?;
        let mut transaction = connection.begin().await.map_err(failed)?;
        let done = match work(&mut transaction).await {
            Ok(done) if write.remaining().is_zero() => {
                drop(done);
                Err(E::from(late(&write)))
            }
            done => done,
        };
        if done.is_ok() {
            write.hold.commit = Commit::Open;
            transaction.commit().await.map_err(failed)?;
            write.committed_at_last().await;
        } else {
            // A rollback that fails is one too: no commit was sent.
            let _ = transaction.rollback().await;
            if let Err(error) = write.rolled_back().await {
                tracing::debug!(%error, "cannot end the hold of a rolled-back write yet; retrying");
            }
        }
        done
    }
}

impl<K: Key + ?Sized, V> Cache<K, V> {
    /// Invalidates the values of `keys` after this transaction has committed.
    ///
    /// It inserts a row for each key into the outbox. A [`Relay`](leasehold_outbox::Relay) delivers
    /// the row, even if this process has died. A transaction that is rolled back leaves no row.
    /// Redis is not used, and may be down.
    ///
    /// Readers see the change after the relay has delivered it, usually within milliseconds. To be
    /// faster, also call [`invalidate`](Cache::invalidate) after the commit. As with `invalidate`,
    /// a reader that loaded before the change may fill until the delivery;
    /// [`begin_write`](Cache::begin_write) before the transaction prevents that.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a key that is not allowed;
    /// [`ErrorKind::Database`](crate::ErrorKind::Database) with the error of the database, such as
    /// a missing table. Roll the transaction back then.
    pub fn invalidate_in_tx<'a, 't, E: Engine>(
        &self,
        outbox: &'a Outbox,
        transaction: &'a mut Transaction<'t, E>,
        keys: &[&K],
    ) -> impl Future<Output = Result<()>> + Send + use<'a, 't, E, K, V> {
        // Borrowed keys in a future of a generic database are more than the compiler can see to be
        // `Send`, which handlers of requests have to be.
        let (cache, lag) = (self.state.remote.stem(), self.state.settings.replica_lag);
        let changes = texts(keys).map(|keys| {
            keys.into_iter().map(|key| Change::new(cache, key, lag)).collect::<Vec<_>>()
        });
        async move { outbox.insert(transaction, &changes?).await }
    }
}

fn late<V>(write: &Write<V>) -> Error {
    let keys = &write.hold.keys;
    Error::new(
        ErrorKind::Timeout,
        format!(
            "the transaction that writes {:?} ({} keys) took longer than write_hold and was \
             rolled back; make it shorter, or raise write_hold",
            keys.first().map_or("", |key| key),
            keys.len()
        ),
    )
}
