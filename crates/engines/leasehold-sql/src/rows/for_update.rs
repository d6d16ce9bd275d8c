//! Pessimistic locking: rows are locked when they are read, until the transaction ends.

use std::time::Duration;

use leasehold_core::{Error, ErrorKind, Result};
use sqlx::{Execute, Transaction};

use super::engine::Engine;
use super::failure::failure;
use super::statement::Statement;

/// How long to wait for locks of other transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Waits as long as the setting of the connection: forever on PostgreSQL (`lock_timeout`), 50 s
    /// on MySQL and MariaDB (`innodb_lock_wait_timeout`), 5 s on SQLite (`busy_timeout`).
    #[default]
    AsSet,
    /// Does not wait: returns [`ErrorKind::Timeout`] immediately.
    No,
    /// Does not wait: skips the rows that another transaction has locked. For queues, where any row
    /// will do.
    Skip,
    /// Waits this long, from 1 ms to 24 h; then returns [`ErrorKind::Timeout`]. MySQL and MariaDB
    /// count whole seconds, and the time is rounded up.
    Within(Duration),
}

const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Runs a `SELECT`, and locks the rows that it finds until the transaction ends. Other transactions
/// that lock or write them wait until then.
///
/// ```no_run
/// # use std::time::Duration; use leasehold_core::Error; use leasehold_sql::rows::*;
/// # #[cfg(feature = "postgres")]
/// # async fn example(pool: sqlx::PgPool) -> Result<(), Error> {
/// # use sqlx::Row;
/// let mut tx = pool.begin().await.map_err(failure)?;
/// let stock = sqlx::query("SELECT amount FROM stock WHERE item = $1").bind(7_i64);
/// let rows = for_update(&mut tx, stock, Wait::Within(Duration::from_secs(1))).await?;
/// let amount: i64 = rows[0].try_get("amount").map_err(failure)?;
/// // No other transaction changes it before this one ends.
/// # Ok(()) }
/// ```
///
/// It appends `FOR UPDATE` to the statement, with `NOWAIT` or `SKIP LOCKED` if `wait` requires it.
/// A time limit applies only to this statement: the connection's own limit is restored. (On MySQL,
/// MariaDB and SQLite, the limit stays if this future is dropped half-way.)
///
/// SQLite has no row locks: one transaction writes at a time. There, this makes the transaction the
/// writer, as `BEGIN IMMEDIATE` does, and then reads; `wait` limits the wait for that, and
/// [`Wait::Skip`] is [`Wait::No`]. A transaction that has read before cannot wait: if another
/// transaction has written since, it fails with [`ErrorKind::Conflict`].
///
/// # Errors
/// [`ErrorKind::Timeout`] if the locks were not available in time; [`ErrorKind::Conflict`] for a
/// deadlock, or if the transaction's snapshot is older than a row (isolation level `REPEATABLE
/// READ` and above on PostgreSQL); others as [`failure()`]. Roll back after each of them.
pub fn for_update<'q, E: Engine>(
    transaction: &mut Transaction<'_, E>,
    select: impl Execute<'q, E>,
    wait: Wait,
) -> impl Future<Output = Result<Vec<E::Row>>> + Send {
    async move {
        let before = match wait {
            Wait::Within(limit) => units::<E>(limit).map(Some),
            Wait::No | Wait::Skip if E::ONE_WRITER => Ok(Some(0)),
            _ => Ok(None),
        };
        let locked = async {
            let Some(units) = before? else { return lock(transaction, select, wait).await };
            let before = set_patience::<E>(transaction, units).await?;
            let rows = lock(transaction, select, wait).await;
            let back = Statement::<E>::new(&E::set_patience(before)).rows(transaction, false).await;
            // After an error PostgreSQL accepts no statement, and has reset the limit anyway.
            rows.and_then(|rows| back.map(|_| rows))
        };
        locked.await.map_err(|error: Error| error.during("for_update", None))
    }
}

async fn lock<'q, E: Engine>(
    transaction: &mut Transaction<'_, E>,
    mut select: impl Execute<'q, E>,
    wait: Wait,
) -> Result<Vec<E::Row>> {
    // On a separate line: the statement may end with a comment.
    let suffix = match wait {
        _ if E::ONE_WRITER => "",
        Wait::AsSet | Wait::Within(_) => "\nFOR UPDATE",
        Wait::No => "\nFOR UPDATE NOWAIT",
        Wait::Skip => "\nFOR UPDATE SKIP LOCKED",
    };
    if E::ONE_WRITER {
        Statement::<E>::new(E::TAKE_TURN).rows(transaction, false).await?;
    }
    let statement = select.sql().trim_end().trim_end_matches(';');
    let (sql, persistent) = (format!("{statement}{suffix}"), select.persistent());
    let arguments = select.take_arguments().map_err(sqlx::Error::Encode).map_err(failure)?;
    E::rows(transaction, sql, arguments.unwrap_or_default(), persistent).await
}

/// Sets how long the following statements wait for a lock, in `units`; returns the previous value.
async fn set_patience<E: Engine>(connection: &mut E::Connection, units: i64) -> Result<i64> {
    let rows = Statement::<E>::new(E::PATIENCE).rows(connection, false).await?;
    let before = rows.first().map(|row| E::integer(row, 0)).transpose()?.flatten();
    Statement::<E>::new(&E::set_patience(units)).rows(connection, false).await?;
    Ok(before.unwrap_or_default())
}

/// Converts a limit to the engine's units, rounded up.
fn units<E: Engine>(limit: Duration) -> Result<i64> {
    if limit < Duration::from_millis(1) || limit > LONGEST {
        let problem =
            format!("wait: {limit:?} is not between 1 ms and 24 h; Wait::No does not wait");
        return Err(Error::new(ErrorKind::Invalid, problem));
    }
    let units = limit.as_micros().div_ceil(u128::from(E::PATIENCE_MS) * 1000);
    Ok(i64::try_from(units).unwrap_or(i64::MAX))
}
