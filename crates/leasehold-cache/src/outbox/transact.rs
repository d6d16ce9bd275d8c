//! Runs a write as a closure in its own transaction.

use leasehold::rows::{Engine, failure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::{Connection, Pool, Transaction};

use crate::cache::{Cache, Key};
use crate::hold::State;
use crate::write::{Write, texts};
use crate::{Error, ErrorKind};

impl<K: Key + ?Sized, V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Cache<K, V> {
    /// Runs `work` in a transaction of `pool` that changes the values of `keys`.
    ///
    /// It begins the write and the transaction, commits if `work` succeeds and rolls back if it
    /// fails, then ends the write. Readers see the change when this returns (`replica_lag` later,
    /// if it is set).
    ///
    /// Cancel safety: if the future is dropped before the commit is sent, the transaction is rolled
    /// back, and the keys are released in the background at once. If it is dropped later, the
    /// transaction may be committed, and the keys are released as those of a dropped [`Write`]. A
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
    /// The error of `work`: the transaction was rolled back. Else:
    ///
    /// - [`ErrorKind::Invalid`] for a key that is not allowed; [`ErrorKind::Unavailable`] when Redis did not
    ///   take the hold. `work` was not run.
    /// - [`ErrorKind::Database`] when the transaction could not be begun, or its commit failed: after a
    ///   commit without an answer the outcome is not known.
    /// - [`ErrorKind::Timeout`] when `work` took longer than `write_hold`: the transaction was rolled back.
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
        let failed = |error| Error::database(failure(error));
        // Before the hold: a pool may let its callers wait.
        let mut connection = pool.acquire().await.map_err(failed)?;
        let mut write = self.inner.begin(keys).await?;
        let mut transaction = connection.begin().await.map_err(failed)?;
        let done = match work(&mut transaction).await {
            Ok(done) if write.remaining().is_zero() => {
                drop(done);
                Err(E::from(late(&write)))
            }
            done => done,
        };
        if done.is_ok() {
            write.hold.state = State::Open;
            transaction.commit().await.map_err(failed)?;
            write.committed_at_last().await;
        } else {
            // A rollback that fails is one too: no commit was sent.
            let _ = transaction.rollback().await;
            if let Err(error) = write.rolled_back().await {
                tracing::debug!(%error, "the hold of a write that was rolled back is ended later");
            }
        }
        done
    }
}

fn late<V>(write: &Write<V>) -> Error {
    let keys = &write.hold.keys;
    Error::new(
        ErrorKind::Timeout,
        format!(
            "the transaction that writes {:?} ({} keys) took longer than write_hold, and was rolled back; \
             make it shorter, or set write_hold to more than it takes",
            keys.first().map_or("", |key| key),
            keys.len()
        ),
    )
}
