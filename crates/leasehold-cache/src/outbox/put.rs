//! Writing invalidations into an outbox, in the transaction of the change that they belong to.

use std::time::Duration;

use leasehold::rows::{Engine, Statement};
use sqlx::Transaction;

use super::bell;
use super::table::{COLUMNS, Outbox};
use crate::cache::{Cache, Key};
use crate::write::texts;
use crate::{Error, Result};

/// Rows in one statement: the databases bound the number of values.
const PAGE: usize = 1_000;

impl<K: Key + ?Sized, V> Cache<K, V> {
    /// Invalidates the values of `keys` after this transaction has committed.
    ///
    /// It inserts a row for each key into the outbox, which a [`Relay`](super::Relay) delivers,
    /// also if this process has died by then. A transaction that is rolled back leaves no row.
    /// Redis is not used, and may be down.
    ///
    /// Readers see the change after the relay has delivered it, usually within milliseconds. To be
    /// faster, also call [`invalidate`](Cache::invalidate) after the commit. As with `invalidate`,
    /// a reader that has loaded before the change may fill until then;
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
        let (texts, cache) = (texts(keys), self.inner.remote.stem().to_owned());
        let lag = self.inner.settings.replica_lag;
        async move { put(outbox, transaction, &cache, &texts?, lag).await }
    }
}

async fn put<E: Engine>(
    outbox: &Outbox,
    transaction: &mut Transaction<'_, E>,
    cache: &str,
    keys: &[String],
    hold: Duration,
) -> Result<()> {
    let hold_ms = i64::try_from(hold.as_millis()).unwrap_or(i64::MAX);
    for page in keys.chunks(PAGE) {
        // In one statement with the news of it, where there is any.
        let rings = outbox.notify && bell::is_there::<E>();
        let begin = if rings { "WITH put AS (INSERT INTO " } else { "INSERT INTO " };
        let mut insert = Statement::<E>::new(begin).name(&outbox.table);
        insert = insert.words(" (").words(COLUMNS).words(") VALUES ");
        for (at, key) in page.iter().enumerate() {
            insert = insert.words(if at == 0 { "(" } else { ", (" });
            insert = insert.text(cache).words(", ").text(key).words(", ").integer(hold_ms);
            // Due at once, whatever the clock says later.
            insert = insert.words(", ").words(E::NOW_US).words(", 0, 0)");
        }
        if rings {
            insert =
                insert.words(") SELECT pg_notify('").words(bell::CHANNEL).words("', '')::text");
        }
        // A statement for each number of keys is not worth keeping.
        let persistent = outbox.persistent && page.len() == 1;
        insert.run(transaction, persistent).await.map_err(Error::database)?;
    }
    Ok(())
}
