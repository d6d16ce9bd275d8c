//! Checks of fencing tokens in a program's own transaction.

use std::fmt::Display;

use leasehold_core::{Announce, Error, ErrorKind, Fenced, Result, Stale, Token};
use sqlx::{Encode, Pool, Transaction, Type};

use super::engine::Engine;
use super::failure::failure;
use super::name::Identifier;
use super::statement::Statement;

/// Refuses tokens smaller than the largest token that was accepted for a row. A column of the row
/// stores the largest token.
///
/// ```no_run
/// # use leasehold_core::{Error, Token}; use leasehold_sql::rows::{RowFence, failure};
/// # #[cfg(feature = "postgres")]
/// # async fn example(pool: sqlx::PgPool, token: Token) -> Result<(), Error> {
/// // ALTER TABLE orders ADD COLUMN fence BIGINT NOT NULL DEFAULT 0
/// let fence = RowFence::new("orders", "id", "fence")?;
///
/// let mut tx = pool.begin().await.map_err(failure)?;
/// fence.check(&mut tx, 555_i64, token).await?.into_result()?; // `Stale`: a later holder was here
/// let paid = sqlx::query("UPDATE orders SET state = 'paid' WHERE id = 555");
/// paid.execute(&mut *tx).await.map_err(failure)?;
/// tx.commit().await.map_err(failure)?;
/// # Ok(()) }
/// ```
///
/// The check locks the row until the transaction ends, so that the check and all writes are one
/// step, in any tables. It must come first in the transaction: data read before it may be older
/// than the last holder's write.
///
/// It needs two statements on MySQL and MariaDB, otherwise one.
#[derive(Clone, Debug)]
pub struct RowFence {
    table: Identifier,
    key: Identifier,
    fence: Identifier,
    persistent: bool,
}

impl RowFence {
    /// Fences the rows of `table` with the unique column `key`. Their column `fence` is a `BIGINT`,
    /// and `NULL` or 0 before the first token.
    ///
    /// Write names as the database stores them: PostgreSQL stores unquoted names in lower case.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid name.
    pub fn new(table: &str, key: &str, fence: &str) -> Result<Self> {
        Ok(Self {
            table: Identifier::table(table)?,
            key: Identifier::column("key", key)?,
            fence: Identifier::column("fence", fence)?,
            persistent: true,
        })
    }

    /// Sets whether the statements stay prepared on the connection. Default: true. Set it to false
    /// behind a pooler in transaction mode that does not support prepared statements, such as
    /// pgbouncer before 1.21; each statement then costs one more round trip.
    #[must_use]
    pub fn persistent(mut self, persistent: bool) -> Self {
        self.persistent = persistent;
        self
    }

    /// Accepts `token` unless the row with this key has seen a larger one, and stores it. After
    /// [`Fenced::Stale`] the program must roll back the transaction.
    ///
    /// # Errors
    /// As [`failure`](super::failure()), and [`ErrorKind::Foreign`] if there is no such row, or the
    /// column does not contain a token. The program must roll back the transaction.
    pub fn check<'q, E: Engine, K>(
        &self,
        transaction: &mut Transaction<'_, E>,
        key: K,
        token: Token,
    ) -> impl Future<Output = Result<Fenced>> + Send
    where
        K: Encode<'q, E> + Type<E> + Display + Clone + Send + 'q,
    {
        async move {
            let resource = format!("{} {key}", self.table);
            let raise =
                Statement::<E>::new("UPDATE ").name(&self.table).words(" SET ").name(&self.fence);
            let raise =
                raise.words(" = CASE WHEN ").name(&self.fence).words(" > ").integer(value(token));
            let raise =
                raise.words(" THEN ").name(&self.fence).words(" ELSE ").integer(value(token));
            let raise = raise.words(" END WHERE ").name(&self.key).words(" = ").value(key.clone());
            let read = || {
                let read = Statement::<E>::new("SELECT ").name(&self.fence).words(" FROM ");
                read.name(&self.table).words(" WHERE ").name(&self.key).words(" = ").value(key)
            };
            let kept = raised(transaction, raise, &self.fence, read, self.persistent).await;
            answer::<E>(kept, resource, &self.fence, token)
                .map_err(|error| error.during("fence", None))
        }
    }
}

/// Refuses tokens smaller than the largest token seen for a resource, in a separate table: for rows
/// without a column for it, or for resources that are not rows.
///
/// ```no_run
/// # use leasehold_core::{Error, Token}; use leasehold_sql::rows::{FenceTable, failure};
/// # #[cfg(feature = "postgres")]
/// # async fn example(pool: sqlx::PgPool, token: Token) -> Result<(), Error> {
/// let fence = FenceTable::new("leasehold_fences")?;
/// fence.create(&pool).await?; // once; does nothing when it is there
///
/// let mut tx = pool.begin().await.map_err(failure)?;
/// fence.check(&mut tx, "orders/555", token).await?.into_result()?;
/// // ... the writes that this protects
/// tx.commit().await.map_err(failure)?;
/// # Ok(()) }
/// ```
///
/// Otherwise it works like [`RowFence`]. A resource stays in the table until the program deletes
/// it, which forgets its token.
#[derive(Clone, Debug)]
pub struct FenceTable {
    table: Identifier,
    token: Identifier,
    persistent: bool,
}

/// In bytes; indexes of the databases support no more.
const LONGEST_RESOURCE: usize = 2048;

impl FenceTable {
    /// Uses a table with the columns `resource` (text, the primary key) and `token` (`BIGINT`).
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid name.
    pub fn new(table: &str) -> Result<Self> {
        let token = Identifier::column("token", "token")?;
        Ok(Self { table: Identifier::table(table)?, token, persistent: true })
    }

    /// As [`RowFence::persistent`].
    #[must_use]
    pub fn persistent(mut self, persistent: bool) -> Self {
        self.persistent = persistent;
        self
    }

    /// Creates the table unless it exists.
    ///
    /// # Errors
    /// As [`failure`](super::failure()).
    pub fn create<E: Engine>(
        &self,
        pool: &sqlx::Pool<E>,
    ) -> impl Future<Output = Result<()>> + Send {
        async move {
            let mut connection = pool.acquire().await.map_err(super::failure)?;
            let create = Statement::<E>::new("CREATE TABLE IF NOT EXISTS ").name(&self.table);
            let create = create.words(" (resource ").words(E::RESOURCE);
            let create = create.words(" NOT NULL PRIMARY KEY, token BIGINT NOT NULL)");
            let create = create.words(E::TABLE_OPTIONS);
            create
                .run(&mut connection, false)
                .await
                .map_err(|error| error.during("create", None))?;
            Ok(())
        }
    }

    /// Accepts `token` unless a larger one was seen for `resource` (1 to 2048 bytes of text without
    /// NUL), and stores it. After [`Fenced::Stale`] the program must roll back the transaction.
    ///
    /// # Errors
    /// As [`RowFence::check`].
    pub fn check<E: Engine>(
        &self,
        transaction: &mut Transaction<'_, E>,
        resource: &str,
        token: Token,
    ) -> impl Future<Output = Result<Fenced>> + Send {
        async move {
            if resource.is_empty() || resource.len() > LONGEST_RESOURCE || resource.contains('\0') {
                let problem = "resource: 1 to 2048 bytes without NUL are allowed";
                return Err(Error::new(ErrorKind::Invalid, problem).during("fence", None));
            }
            // Only PostgreSQL and SQLite have `AS`, and only they need it to separate old from new.
            let alias = if E::RETURNING { " AS kept" } else { "" };
            let raise = Statement::<E>::new("INSERT INTO ").name(&self.table).words(alias);
            let raise = raise.words(" (resource, token) VALUES (").text(resource).words(", ");
            let raise = raise.integer(value(token)).words(")").words(E::OR_RAISE);
            let read = || {
                let read = Statement::<E>::new("SELECT token FROM ").name(&self.table);
                read.words(" WHERE resource = ").text(resource)
            };
            let kept = raised(transaction, raise, &self.token, read, self.persistent).await;
            answer::<E>(kept, resource.to_owned(), &self.token, token)
                .map_err(|error| error.during("fence", None))
        }
    }
}

impl<'q, E: Engine, K> Announce<(&'q Pool<E>, K)> for RowFence
where
    K: Encode<'q, E> + Type<E> + Display + Clone + Send + 'q,
{
    fn announce(
        &self,
        (pool, key): (&'q Pool<E>, K),
        token: Token,
    ) -> impl Future<Output = Result<Fenced>> + Send {
        async move {
            let mut transaction = pool.begin().await.map_err(failure)?;
            let fenced = self.check(&mut transaction, key, token).await?;
            committed(transaction, fenced).await
        }
    }
}

impl<'q, E: Engine> Announce<(&'q Pool<E>, &'q str)> for FenceTable {
    fn announce(
        &self,
        (pool, resource): (&'q Pool<E>, &'q str),
        token: Token,
    ) -> impl Future<Output = Result<Fenced>> + Send {
        async move {
            let mut transaction = pool.begin().await.map_err(failure)?;
            let fenced = self.check(&mut transaction, resource, token).await?;
            committed(transaction, fenced).await
        }
    }
}

/// Ends the transaction of an announcement: a refused one has nothing to commit.
async fn committed<E: Engine>(transaction: Transaction<'_, E>, fenced: Fenced) -> Result<Fenced> {
    let end = match fenced {
        Fenced::Stale(_) => transaction.rollback().await,
        _ => transaction.commit().await,
    };
    end.map_err(failure)?;
    Ok(fenced)
}

/// Raises the stored token to this token, if it is smaller, and reads it.
async fn raised<'q, E: Engine>(
    transaction: &mut Transaction<'_, E>,
    raise: Statement<'q, E>,
    column: &Identifier,
    read: impl FnOnce() -> Statement<'q, E>,
    persistent: bool,
) -> Result<Vec<E::Row>> {
    if E::RETURNING {
        return raise.words(" RETURNING ").name(column).rows(transaction, persistent).await;
    }
    raise.run(transaction, persistent).await?;
    // A plain SELECT may return data from before other writes, and an update without a change does
    // not lock the row.
    read().words(" FOR UPDATE").rows(transaction, persistent).await
}

fn answer<E: Engine>(
    kept: Result<Vec<E::Row>>,
    resource: String,
    column: &Identifier,
    offered: Token,
) -> Result<Fenced> {
    let foreign = |problem: String| Err(Error::new(ErrorKind::Foreign, problem));
    let kept = match kept?.as_slice() {
        [row] => E::integer(row, 0).map_err(|error| wrong_type(column, error))?,
        [] => return foreign(format!("no row with key {resource}; insert it before the check")),
        _ => return foreign(format!("several rows have the key {resource}; it must be unique")),
    };
    let token = kept.and_then(|kept| u64::try_from(kept).ok()).and_then(Token::new);
    match token {
        Some(kept) if kept == offered => Ok(Fenced::Written),
        Some(highest) if highest > offered => {
            Ok(Fenced::Stale(Stale::new(resource, offered, highest)))
        }
        _ => foreign(format!("{column}: holds {kept:?} for {resource}, which is not a token")),
    }
}

pub(super) fn wrong_type(column: &Identifier, error: Error) -> Error {
    let problem = format!("{column}: make it BIGINT: {}", error.message());
    Error::new(ErrorKind::Invalid, problem).with_source(error)
}

/// Converts the token, which is below 2^53, to an `i64`.
fn value(token: Token) -> i64 {
    i64::try_from(token.get()).unwrap_or(i64::MAX)
}
