//! Optimistic locking: each row has a version, and a write to a row that changed meanwhile is
//! refused.

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
///         // `None` does not change the row.
///         Ok((amount > 0).then(|| Change::new().set("amount", amount - 1)))
///     })
///     .await?;
/// assert!(matches!(outcome, Updated::Written | Updated::Unchanged | Updated::NoRow));
/// # Ok(()) }
/// ```
///
/// During the computation no row is locked and no client waits; if two clients compute, the second
/// writer computes again. An update takes the row's lock only from its own write to the commit.
///
/// All writers must raise the version. The transaction must not read uncommitted data (at MySQL's
/// isolation level `READ UNCOMMITTED` it could read a version that is never committed).
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
#[non_exhaustive]
pub struct Seen<E: Engine> {
    /// All of its columns.
    pub row: E::Row,
    /// The version that it had.
    pub version: i64,
}

/// The result of [`Versioned::update`].
#[must_use = "perhaps nothing was written"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Updated {
    /// The row was written.
    Written,
    /// `compute` returned no change.
    Unchanged,
    /// There is no row with this key.
    NoRow,
}

impl Versioned {
    /// Uses the rows of `table` with the unique column `key`, and their version in the column
    /// `version`. Write names as the database stores them: PostgreSQL stores unquoted names in
    /// lower case.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid name.
    pub fn new(table: &str, key: &str, version: &str) -> Result<Self> {
        Ok(Self {
            table: Identifier::table(table)?,
            key: Identifier::column("key", key)?,
            version: Identifier::column("version", version)?,
            tries: Tries::default(),
            persistent: true,
        })
    }

    /// Sets how often [`update`](Self::update) tries. Default: [`Tries::default`].
    #[must_use]
    pub fn tries(mut self, tries: Tries) -> Self {
        self.tries = tries;
        self
    }

    /// As [`RowFence::persistent`](super::RowFence::persistent).
    #[must_use]
    pub fn persistent(mut self, persistent: bool) -> Self {
        self.persistent = persistent;
        self
    }

    /// Reads the row, computes, and writes it if its version has not changed. Otherwise it repeats
    /// this, with pauses, as often as [`tries`](Self::tries) allows.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if the row changed during the last try too; others as [`failure()`],
    /// or the error of `compute`. Nothing was written, except that after [`ErrorKind::Unavailable`]
    /// this is unknown.
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
            // A transaction that has read cannot write after another; one that begins with a write waits.
            transaction.rollback().await.map_err(failure)?;
            transaction = pool.begin().await.map_err(failure)?;
        }
        self.write(&mut transaction, key, seen.version, change).await?;
        transaction.commit().await.map_err(failure)?;
        Ok(Updated::Written)
    }

    /// Reads a row and its version; `None` if there is no row. For the program's own transactions,
    /// with [`write`](Self::write) and [`retry`](super::retry()). On SQLite, read before the
    /// transaction, which begins with the write.
    ///
    /// # Errors
    /// As [`failure()`]; [`ErrorKind::Invalid`] if the version is not a `BIGINT`, or is `NULL`.
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

    /// Writes a row that still has the `version` that it was read with, and raises the version.
    /// After an error the program must roll back the transaction.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if it has another version, or does not exist: read and compute
    /// again; [`ErrorKind::Foreign`] if several rows have the key; others as [`failure()`].
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
                Error::new(
                    ErrorKind::Invalid,
                    format!(
                        "{}: the version is the largest possible number; reset it",
                        self.version
                    ),
                )
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
                    let problem = format!(
                        "{table}: {column} {version} is not current: the row changed after it was read"
                    );
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
