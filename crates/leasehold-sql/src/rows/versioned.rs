//! Optimistic: rows carry a version, and a write of one that was changed meanwhile is refused.

use leasehold_core::{Error, ErrorKind, Result};
use sqlx::{Encode, Pool, Transaction, Type};

use super::change::Change;
use super::engine::Engine;
use super::failure::failure;
use super::fence::wrong_type;
use super::name::Identifier;
use super::retry::{Pauses, Tries};
use super::statement::Statement;

/// A table whose rows have a version: a `BIGINT NOT NULL` that each write raises by one.
///
/// ```no_run
/// # use leasehold_core::Error; use leasehold_sql::rows::*;
/// # #[cfg(feature = "postgres")]
/// # async fn example(pool: sqlx::PgPool) -> Result<(), Error> {
/// # use sqlx::Row;
/// let stock = Versioned::new("stock", "item", "version")?;
/// let outcome = stock
///     .update(&pool, 7_i64, |row| {
///         let amount: i64 = row.try_get("amount").map_err(failure)?;
///         // `None` leaves the row as it is.
///         Ok((amount > 0).then(|| Change::new().set("amount", amount - 1)))
///     })
///     .await?;
/// assert!(matches!(outcome, Updated::Written | Updated::Unchanged | Updated::NoRow));
/// # Ok(()) }
/// ```
///
/// No row is locked while it is computed, and nobody waits for that; whoever writes second computes
/// again. An update still takes the row's lock, from its own write to the commit.
///
/// All writers have to raise the version. The transaction must not read what is not committed (at
/// MySQL's isolation level `READ UNCOMMITTED` a version could be read that never comes to be).
#[derive(Clone, Debug)]
pub struct Versioned {
    table: Identifier,
    key: Identifier,
    version: Identifier,
    tries: Tries,
    persistent: bool,
}

/// A row as it was read.
#[derive(Debug)]
pub struct Seen<E: Engine> {
    /// All of its columns.
    pub row: E::Row,
    /// The version that it had.
    pub version: i64,
}

/// What [`Versioned::update`] has done.
#[must_use = "perhaps nothing was written"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updated {
    /// The row was written.
    Written,
    /// `compute` wanted no change.
    Unchanged,
    /// There is no row with this key.
    NoRow,
}

impl Versioned {
    /// Rows of `table` whose column `key` is unique and whose column `version` counts. Names are
    /// written as the database keeps them: PostgreSQL has those that were created without quotes
    /// in lower case.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for what is no name.
    pub fn new(table: &str, key: &str, version: &str) -> Result<Self> {
        Ok(Self {
            table: Identifier::table(table)?,
            key: Identifier::column("key", key)?,
            version: Identifier::column("version", version)?,
            tries: Tries::default(),
            persistent: true,
        })
    }

    /// How often [`update`](Self::update) tries. Default: [`Tries::default`].
    pub fn tries(mut self, tries: Tries) -> Self {
        self.tries = tries;
        self
    }

    /// As [`RowFence::persistent`](super::RowFence::persistent).
    pub fn persistent(mut self, persistent: bool) -> Self {
        self.persistent = persistent;
        self
    }

    /// Reads the row, computes, and writes it if its version is still the same; else again, with
    /// pauses, as often as [`tries`](Self::tries) says.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] when the last try was too late as well; else as [`failure()`], or
    /// what `compute` says. Nothing is written, but after [`ErrorKind::Unavailable`] that is open.
    pub fn update<'q, E: Engine, K>(
        &self,
        pool: &Pool<E>,
        key: K,
        mut compute: impl FnMut(&E::Row) -> Result<Option<Change<'q, E>>> + Send,
    ) -> impl Future<Output = Result<Updated>> + Send
    where
        K: Encode<'q, E> + Type<E> + Clone + Send + Sync + 'q,
    {
        async move {
            let mut pauses = Pauses::new(self.tries);
            loop {
                match self.once(pool, key.clone(), &mut compute).await {
                    Err(error) if pauses.again(&error).await => {}
                    outcome => return outcome.map_err(|error| error.during("update", None)),
                }
            }
        }
    }

    async fn once<'q, E: Engine, K>(
        &self,
        pool: &Pool<E>,
        key: K,
        compute: &mut (impl FnMut(&E::Row) -> Result<Option<Change<'q, E>>> + Send),
    ) -> Result<Updated>
    where
        K: Encode<'q, E> + Type<E> + Clone + Send + 'q,
    {
        let mut transaction = pool.begin().await.map_err(failure)?;
        let Some(seen) = self.read(&mut *transaction, key.clone()).await? else {
            return Ok(Updated::NoRow);
        };
        let Some(change) = compute(&seen.row)? else { return Ok(Updated::Unchanged) };
        if E::ONE_WRITER {
            // What has read cannot write once another has; one that begins with a write waits.
            transaction.rollback().await.map_err(failure)?;
            transaction = pool.begin().await.map_err(failure)?;
        }
        self.write(&mut transaction, key, seen.version, change).await?;
        transaction.commit().await.map_err(failure)?;
        Ok(Updated::Written)
    }

    /// Reads a row and its version; `None` when there is none. For transactions of the program's
    /// own (on SQLite it is read before the transaction, which begins with the write), with [`write`](Self::write) and
    /// [`retry`](super::retry()).
    ///
    /// # Errors
    /// As [`failure()`]; [`ErrorKind::Invalid`] when the version is no `BIGINT`, or `NULL`.
    pub fn read<'q, E: Engine, K>(
        &self,
        connection: &mut E::Connection,
        key: K,
    ) -> impl Future<Output = Result<Option<Seen<E>>>> + Send
    where
        K: Encode<'q, E> + Type<E> + Send + 'q,
    {
        async move {
            let select = Statement::<E>::new("SELECT ").name(&self.version);
            let select = select.words(", kept.* FROM ").name(&self.table).words(" AS kept WHERE ");
            let select = select.name(&self.key).words(" = ").value(key);
            let rows = select.rows(connection, self.persistent).await;
            let rows = rows.map_err(|error| error.during("read", None))?;
            let Some(row) = rows.into_iter().next() else { return Ok(None) };
            let version = E::integer(&row, 0).map_err(|error| wrong_type(&self.version, error))?;
            let version = version.ok_or_else(|| {
                let problem = format!("{}: is NULL; make it NOT NULL DEFAULT 0", self.version);
                Error::new(ErrorKind::Invalid, problem).during("read", None)
            })?;
            Ok(Some(Seen { row, version }))
        }
    }

    /// Writes a row that still has the `version` it was read with, and raises it. After an error
    /// the transaction has to be rolled back.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] when it has another, or is gone: read again and compute again;
    /// [`ErrorKind::Foreign`] when several rows have the key; else as [`failure()`].
    pub fn write<'q, E: Engine, K>(
        &self,
        transaction: &mut Transaction<'_, E>,
        key: K,
        version: i64,
        change: Change<'q, E>,
    ) -> impl Future<Output = Result<()>> + Send
    where
        K: Encode<'q, E> + Type<E> + Send + 'q,
    {
        async move {
            let raised = version.checked_add(1).ok_or_else(|| {
                Error::new(ErrorKind::Invalid, format!("{}: cannot grow any more", self.version))
            });
            let update = Statement::<E>::new("UPDATE ").name(&self.table).words(" SET ");
            let update = change.write(update)?.name(&self.version).words(" = ").integer(raised?);
            let update = update.words(" WHERE ").name(&self.key).words(" = ").value(key);
            let update = update.words(" AND ").name(&self.version).words(" = ").integer(version);
            let written = update.run(transaction, self.persistent).await;
            let problem = match written.map_err(|error| error.during("write", None))? {
                1 => return Ok(()),
                0 => {
                    let Self { table, version: column, .. } = self;
                    let problem = format!("{table}: {column} {version} is not the row's any more");
                    Error::new(ErrorKind::Conflict, problem)
                }
                many => {
                    let problem =
                        format!("{}: {many} rows have this key; it must be unique", self.key);
                    Error::new(ErrorKind::Foreign, problem)
                }
            };
            Err(problem.during("write", None))
        }
    }
}
