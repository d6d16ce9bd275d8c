//! Inserts invalidations into an outbox, in the transaction of the change.

use leasehold::rows::{Engine, Statement};
use sqlx::Transaction;

use crate::commit_notice;
use crate::error::database_failed;
use crate::table::{COLUMNS, Outbox};
use crate::transport::Change;
use crate::{Error, Result};

/// The most rows in one statement: databases limit the number of values.
const PAGE: usize = 1_000;

impl Outbox {
    /// Inserts a row for each change. A [`Relay`](crate::Relay) delivers it after this transaction
    /// has committed; if the transaction is rolled back, there is no row. Programs with a `Cache`
    /// of the crate `leasehold-cache` call its `invalidate_in_tx` instead.
    ///
    /// If this future is dropped, some rows may be inserted: roll the transaction back.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a change that no cache accepts;
    /// nothing was sent. [`ErrorKind::Database`](crate::ErrorKind::Database) with the error of the
    /// database, such as a missing table. Roll the transaction back after any error.
    pub async fn insert<E: Engine>(
        &self,
        transaction: &mut Transaction<'_, E>,
        changes: &[Change],
    ) -> Result<()> {
        if let Some(problem) = changes.iter().find_map(Change::problem) {
            return Err(Error::invalid(problem));
        }
        for page in changes.chunks(PAGE) {
            // In one statement with the news of it, where there is any.
            let rings = self.notify && commit_notice::is_there::<E>();
            let begin = if rings { "WITH put AS (INSERT INTO " } else { "INSERT INTO " };
            let mut insert = Statement::<E>::new(begin).name(&self.table);
            insert = insert.words(" (").words(COLUMNS).words(") VALUES ");
            for (at, change) in page.iter().enumerate() {
                let hold_ms = i64::try_from(change.hold.as_millis()).unwrap_or(i64::MAX);
                insert = insert.words(if at == 0 { "(" } else { ", (" });
                insert = insert.text(&change.cache).words(", ").text(&change.key);
                insert = insert.words(", ").integer(hold_ms);
                // Due at once, whatever the clock says later.
                insert = insert.words(", ").words(E::NOW_US).words(", 0, 0)");
            }
            if rings {
                insert = insert.words(") SELECT pg_notify('").words(commit_notice::CHANNEL);
                insert = insert.words("', '')::text");
            }
            // A statement for each number of keys is not worth keeping.
            let persistent = self.persistent && page.len() == 1;
            insert.run(transaction, persistent).await.map_err(database_failed)?;
        }
        Ok(())
    }
}
