//! The outbox rows that a relay reads and writes, on any database.

use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold::rows::{Engine, Statement, Wait, failure, for_update};
use leasehold_core::clock::Clock;
use leasehold_core::{Error, Result};
use sha2::{Digest, Sha256};
use sqlx::{Connection, Execute, Pool, Transaction};
use tokio::sync::Notify;

use crate::commit_notice;
use crate::table::{Outbox, Parked};
use crate::transport::Change;

/// A row that a relay has taken.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) queued_us: i64,
    pub(super) tries: i64,
    pub(super) change: Change,
    /// The reason if a number of the row cannot be read.
    pub(super) unreadable: Option<String>,
}

impl Row {
    /// Returns why the row is not a change of a cache.
    pub(super) fn problem(&self) -> Option<String> {
        self.unreadable.clone().or_else(|| self.change.problem())
    }
}

/// What happens to a refused row.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) id: i64,
    pub(super) reason: String,
    /// When it is tried again; `None` parks it.
    pub(super) again: Option<Duration>,
}

/// The table on one database. The relay does the same on all of them.
pub(super) trait Rows: Send + Sync + 'static {
    /// Takes rows that are due, oldest first; no other relay gets them for `claim`.
    fn take(&self, most: usize, claim: Duration) -> BoxFuture<'_, Result<Vec<Row>>>;
    /// Deletes delivered rows. A newer row that reuses an old number stays.
    fn delete<'a>(&'a self, rows: &'a [&'a Row]) -> BoxFuture<'a, Result<()>>;
    /// Makes these rows due again at once.
    fn put_back<'a>(&'a self, ids: &'a [i64]) -> BoxFuture<'a, Result<()>>;
    /// Records that a row was refused.
    fn refuse<'a>(&'a self, verdict: &'a Verdict) -> BoxFuture<'a, Result<()>>;
    /// Returns the age of the oldest row that is not parked, and the number of parked rows.
    fn look(&self) -> BoxFuture<'_, Result<(Duration, u64)>>;
    /// Returns parked rows, oldest first.
    fn parked(&self, most: usize) -> BoxFuture<'_, Result<Vec<Parked>>>;
    /// Makes parked rows due again; returns their number.
    fn unpark(&self) -> BoxFuture<'_, Result<u64>>;
    /// Wakes `woken` after each commit; does not end.
    fn listen<'a>(&'a self, clock: &'a Clock, woken: &'a Notify) -> BoxFuture<'a, ()>;
}

pub(super) struct Table<E: Engine> {
    pub(super) outbox: Outbox,
    pub(super) pool: Pool<E>,
}

impl<E: Engine> Table<E> {
    fn begin<'q>(&self, words: &str) -> Statement<'q, E> {
        Statement::new(words).name(&self.outbox.table)
    }

    async fn run(&self, statement: Statement<'_, E>) -> Result<u64> {
        let mut connection = self.pool.acquire().await.map_err(failure)?;
        statement.run(&mut connection, false).await
    }

    async fn rows(&self, statement: Statement<'_, E>) -> Result<Vec<E::Row>> {
        let mut connection = self.pool.acquire().await.map_err(failure)?;
        statement.rows(&mut connection, self.outbox.persistent).await
    }

    fn due<'q>(&self, words: &str) -> Statement<'q, E> {
        self.begin(words).words(" WHERE due_us <= ").words(E::NOW_US)
    }

    async fn claim(&self, most: usize, claim: Duration) -> Result<Vec<Row>> {
        // Usually there is nothing, and to see that nothing has to be locked.
        if self.rows(self.due("SELECT id FROM ").words(" LIMIT 1")).await?.is_empty() {
            return Ok(Vec::new());
        }
        let mut connection = self.pool.acquire().await.map_err(failure)?;
        let level = || Statement::<E>::new("SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
        if E::NAME == "MySQL" {
            // MySQL would lock the gaps between the rows otherwise, and with them who puts new ones in.
            level().run(&mut connection, false).await?;
        }
        let mut transaction: Transaction<'_, E> = connection.begin().await.map_err(failure)?;
        if E::NAME == "PostgreSQL" {
            // Set to another level, it would refuse rows that another relay has taken meanwhile.
            level().run(&mut transaction, false).await?;
        }
        let select = format!(
            "SELECT id, queued_us, tries, hold_ms, cache, name FROM {} WHERE due_us <= {} ORDER BY \
             due_us, id LIMIT {most}",
            self.outbox.table.quoted(E::QUOTE),
            E::NOW_US
        );
        // With one writer, the turn to write is waited for: others may write all the time.
        let wait = if E::ONE_WRITER { Wait::AsSet } else { Wait::Skip };
        let select = Select { sql: &select, persistent: self.outbox.persistent };
        let found = for_update(&mut transaction, select, wait).await?;
        let rows = found.iter().map(read::<E>).collect::<Result<Vec<Row>>>()?;
        if !rows.is_empty() {
            let take = self.begin("UPDATE ").words(" SET due_us = ").words(E::NOW_US);
            let take = take.words(" + ").integer(micros(claim)).words(" WHERE id IN (");
            let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
            list(take, &ids).words(")").run(&mut transaction, false).await?;
        }
        transaction.commit().await.map_err(failure)?;
        Ok(rows)
    }
}

/// A statement without values. As plain text it would always stay prepared.
struct Select<'q> {
    sql: &'q str,
    persistent: bool,
}

impl<'q, E: Engine> Execute<'q, E> for Select<'q> {
    fn sql(&self) -> &'q str {
        self.sql
    }

    fn statement(&self) -> Option<&E::Statement<'q>> {
        None
    }

    fn take_arguments(
        &mut self,
    ) -> std::result::Result<Option<E::Arguments<'q>>, sqlx::error::BoxDynError> {
        Ok(None)
    }

    fn persistent(&self) -> bool {
        self.persistent
    }
}

impl<E: Engine> Rows for Table<E> {
    fn take(&self, most: usize, claim: Duration) -> BoxFuture<'_, Result<Vec<Row>>> {
        Box::pin(self.claim(most, claim))
    }

    fn delete<'a>(&'a self, rows: &'a [&'a Row]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
            let mut times: Vec<i64> = rows.iter().map(|row| row.queued_us).collect();
            times.sort_unstable();
            times.dedup();
            let delete = list(self.begin("DELETE FROM ").words(" WHERE id IN ("), &ids);
            let delete = list(delete.words(") AND queued_us IN ("), &times).words(")");
            self.run(delete).await.map(drop)
        })
    }

    fn put_back<'a>(&'a self, ids: &'a [i64]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let update = self.begin("UPDATE ").words(" SET due_us = 0 WHERE due_us IS NOT NULL");
            let update = update.words(" AND id IN (");
            self.run(list(update, ids).words(")")).await.map(drop)
        })
    }

    fn refuse<'a>(&'a self, verdict: &'a Verdict) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let update = self.begin("UPDATE ").words(" SET tries = tries + 1, problem = ");
            let update = update.text(&verdict.reason).words(", due_us = ");
            let update = match verdict.again {
                Some(pause) => update.words(E::NOW_US).words(" + ").integer(micros(pause)),
                None => update.words("NULL"),
            };
            self.run(update.words(" WHERE id = ").integer(verdict.id)).await.map(drop)
        })
    }

    fn look(&self) -> BoxFuture<'_, Result<(Duration, u64)>> {
        Box::pin(async move {
            let oldest = self.begin(&format!("SELECT {}, queued_us FROM ", E::NOW_US));
            let oldest = oldest.words(" WHERE due_us IS NOT NULL ORDER BY id LIMIT 1");
            let oldest = self.rows(oldest).await?;
            let number =
                |row: &E::Row, column| Ok::<_, Error>(E::integer(row, column)?.unwrap_or(0));
            // The clock may have stepped back since, and any number may stand there.
            let age = |row| Ok::<_, Error>(number(row, 0)?.abs_diff(number(row, 1)?));
            let age = oldest.first().map(age).transpose()?.unwrap_or(0);
            let parked = self.begin("SELECT COUNT(*) FROM ").words(" WHERE due_us IS NULL");
            let parked = self.rows(parked).await?;
            let parked = parked.first().map(|row| number(row, 0)).transpose()?.unwrap_or(0);
            Ok((Duration::from_micros(age), u64::try_from(parked).unwrap_or(0)))
        })
    }

    fn parked(&self, most: usize) -> BoxFuture<'_, Result<Vec<Parked>>> {
        Box::pin(async move {
            let select = self.begin("SELECT id, cache, name, COALESCE(problem, '') FROM ");
            let select = select.words(" WHERE due_us IS NULL ORDER BY id LIMIT ");
            let rows = self.rows(select.integer(i64::try_from(most).unwrap_or(i64::MAX))).await?;
            let parked = |row: &E::Row| {
                let id = E::integer(row, 0)?.unwrap_or_default();
                // What is no text is shown as none: such a row is parked because of that.
                let text = |column| E::text(row, column).unwrap_or_default();
                Ok(Parked { id, cache: text(1), key: text(2), problem: text(3) })
            };
            rows.iter().map(parked).collect()
        })
    }

    fn unpark(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let update = self.begin("UPDATE ").words(" SET tries = 0, due_us = 0");
            self.run(update.words(" WHERE due_us IS NULL")).await
        })
    }

    fn listen<'a>(&'a self, clock: &'a Clock, woken: &'a Notify) -> BoxFuture<'a, ()> {
        Box::pin(commit_notice::listen(&self.pool, clock, woken))
    }
}

fn read<E: Engine>(row: &E::Row) -> Result<Row> {
    // What is no number or no text was not written by us; the row shall not stand in the way of the
    // others.
    let mut unreadable = None;
    let mut number = |column, name| {
        let read = E::integer(row, column);
        read.map(Option::unwrap_or_default).unwrap_or_else(|error| {
            unreadable.get_or_insert_with(|| format!("{name} is not a whole number: {error}"));
            0
        })
    };
    let (queued_us, tries, hold) =
        (number(1, "queued_us"), number(2, "tries"), number(3, "hold_ms"));
    let hold = Duration::from_millis(u64::try_from(hold).unwrap_or(0));
    let text = |column| E::text(row, column).unwrap_or_default();
    let id = E::integer(row, 0)?.unwrap_or_default();
    let (cache, key) = (text(4), text(5));
    let change = Change { id: name(id, queued_us, &cache, &key, hold), cache, key, hold };
    Ok(Row { id, queued_us, tries, change, unreadable })
}

/// Returns an id that no other row has, of this table or of another.
fn name(id: i64, queued_us: i64, cache: &str, key: &str, hold: Duration) -> u128 {
    let text = format!("{id} {queued_us} {} {cache} {key}", hold.as_millis());
    let digest = Sha256::digest(text);
    digest.iter().take(16).fold(0, |name, byte| name << 8 | u128::from(*byte))
}

fn list<'q, E: Engine>(statement: Statement<'q, E>, ids: &[i64]) -> Statement<'q, E> {
    ids.iter().enumerate().fold(statement, |statement, (at, id)| {
        statement.words(if at == 0 { "" } else { ", " }).integer(*id)
    })
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
