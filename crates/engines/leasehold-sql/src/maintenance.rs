//! Checks, creates and cleans up the tables.

use std::time::Duration;

use leasehold_core::{Deadline, ErrorKind, Result};

use crate::dialect::Packet;
use crate::error::{Fault, What, is_about_rights};
use crate::kind::{Kind, RETENTION};
use crate::pool::Lane;
use crate::record;
use crate::store::Store;
use crate::tables::Tables;

/// How long creating the tables may take.
pub(crate) const MAKING: Duration = Duration::from_secs(30);
/// How many rows one statement of a sweep or of `forget` removes at most, and how many such
/// statements a table gets in one sweep; the next sweep continues.
pub(crate) const SWEPT: u64 = 1000;
const STATEMENTS: usize = 100;
/// The key of the table of readers, and of that of permits.
pub(crate) const READER: &str = "name, attempt";

impl Store {
    /// Returns the condition, besides `old`, that a row of records or permits is left over: its name
    /// is not that of a semaphore or a latch any more.
    pub(crate) fn no_record(&self, table: &str, old: &str) -> String {
        let (locks, kinds) = (&self.tables.locks, Kind::Semaphore.state());
        format!(
            "{old} AND NOT EXISTS (SELECT 1 FROM {locks} l WHERE l.name = {table}.name \
             AND l.state >= {kinds})"
        )
    }
}

/// Which of the tables exist that an older program does not create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Later {
    /// Those of read-write locks.
    pub(crate) readers: bool,
    /// Those of semaphores and latches.
    pub(crate) records: bool,
    /// That of observers, if the engine notifies clients.
    pub(crate) observers: bool,
}

impl Later {
    pub(crate) const ALL: Self = Self { readers: true, records: true, observers: true };
}

/// Returns statements that read each table, and find no row.
fn look_at(tables: &[&String]) -> Vec<String> {
    tables.iter().map(|table| format!("SELECT 1 FROM {table} WHERE 1 = 0")).collect()
}

impl Store {
    /// Returns the database's time, in microseconds since the Unix epoch.
    #[cfg(feature = "postgres")]
    pub(crate) async fn time(&self) -> Result<u64> {
        let dialect = self.tables.dialect;
        let packet = dialect.plain(&[format!("SELECT {}", dialect.now())]);
        let replies = self.run(Lane::Usual, &packet, self.within(MAKING)).await?;
        let row = replies.first().and_then(|reply| reply.rows.first());
        let time = row.and_then(|row| row.first()).map(crate::connection::Value::unsigned);
        time.unwrap_or_else(|| Err(crate::error::strange("no time")))
    }

    /// Checks that the tables exist and belong to this program; creates them if that is allowed.
    /// Returns which later tables are missing, in tables of an older program: the locks work
    /// without them.
    pub(crate) async fn prepare(&self) -> Result<Later> {
        let until = self.within(MAKING);
        match self.version(until).await {
            Err(fault) if fault.what == What::NoTable && self.create => self.make(until).await?,
            Err(fault) => return Err(fault.error),
            Ok(version) => self.tables.check(version)?,
        }
        let found = self.find_later(until).await?;
        if found == Later::ALL {
            return Ok(found);
        }
        // Without rights to the locks it says nothing about later tables that they are refused too. A client
        // that connects while an operator takes all rights away would have no readers until its end.
        let Tables { locks, waiters, .. } = &self.tables;
        self.run(Lane::Usual, &self.tables.dialect.plain(&look_at(&[locks, waiters])), until)
            .await
            .map_err(|fault| fault.error)?;
        let made = if self.create { self.make(until).await.err() } else { None };
        let found = self.find_later(until).await?;
        let error = made.map(tracing::field::display);
        for (has, what) in [
            (found.readers, "the tables of readers are missing, so there are no read-write locks"),
            (found.observers, "the table of observers is missing, so observers poll"),
            (
                found.records,
                "the tables of records are missing, so there are no semaphores and latches",
            ),
        ] {
            if !has {
                tracing::info!(error, "{what}; create them: leasehold init");
            }
        }
        Ok(found)
    }

    /// Returns which of the later tables exist; this user must be allowed to read them.
    async fn find_later(&self, until: Deadline) -> Result<Later> {
        let Tables { readers, read_waiters, records, permits, .. } = &self.tables;
        let readers = self.finds(&[readers, read_waiters], until).await?;
        self.set_has_readers(readers);
        let records = self.finds(&[records, permits], until).await?;
        self.set_has_records(records);
        let of_observers = [&self.tables.observers];
        let observers = !self.tables.dialect.notifies() || self.finds(&of_observers, until).await?;
        self.set_has_observers(observers && self.tables.dialect.notifies());
        Ok(Later { readers, records, observers })
    }

    /// Returns true if these tables exist, and this user may read them.
    async fn finds(&self, tables: &[&String], until: Deadline) -> Result<bool> {
        match self.run(Lane::Usual, &self.tables.dialect.plain(&look_at(tables)), until).await {
            Ok(_) => Ok(true),
            Err(fault) if matches!(fault.what, What::NoTable | What::NoRoutine) => Ok(false),
            // Another refusal, such as that of a login while passwords change, says nothing about the tables.
            Err(fault) if is_about_rights(&fault.error) => Ok(false),
            Err(fault) => Err(fault.error),
        }
    }

    /// Creates the missing tables, unless they have another version. It reads the version first, so
    /// that it changes no table of another version. It creates the tables in one transaction, and
    /// writes the version last. MySQL commits each statement on its own: after a crash in between
    /// there is no version, and the next call creates the rest.
    pub(crate) async fn make(&self, until: Deadline) -> Result<()> {
        let packet = self.tables.making();
        loop {
            match self.version(until).await {
                Ok(version) => self.tables.check(version)?,
                Err(fault) if fault.what == What::NoTable => {}
                Err(fault) => return Err(fault.error),
            }
            let made = self.pool.run(Lane::Usual, &packet, until, &mut false).await;
            match (self.version(until).await, made) {
                (Ok(version), _) => {
                    self.tables.check(version)?;
                    self.make_routines(until).await;
                    return Ok(());
                }
                // Two clients that create them at once conflict.
                (Err(_), Err(fault)) if fault.what == What::Conflict && !self.is_over(until) => {
                    self.pause(10).await;
                }
                (Err(_), Err(fault)) | (Err(fault), Ok(_)) => return Err(fault.error),
            }
        }
    }

    /// Creates the functions, if the engine has any; without them locks are slower. Returns true if
    /// they exist.
    pub(crate) async fn make_routines(&self, until: Deadline) -> bool {
        let routines = self.tables.routines();
        if routines.is_empty() {
            return true;
        }
        let packet = self.tables.dialect.atomic(&routines);
        match self.pool.run(Lane::Usual, &packet, until, &mut false).await {
            Ok(_) => true,
            Err(fault) => {
                tracing::warn!(error = %fault.error, "cannot create the functions: locks need \
                                                      more round trips");
                false
            }
        }
    }

    async fn version(&self, until: Deadline) -> Result<i64, Fault> {
        let packet = self.tables.dialect.plain(&[self.tables.ask_version()]);
        let replies = self.run(Lane::Usual, &packet, until).await?;
        let row = replies.first().and_then(|reply| reply.rows.first());
        match row.and_then(|row| row.first()).map(crate::connection::Value::number) {
            Some(Ok(version)) => Ok(version),
            _ => Err(Fault::new(What::NoTable, ErrorKind::Refused, crate::error::NO_TABLE)),
        }
    }

    /// Removes rows that are not needed any more. A lock's row stays until the clock has passed its
    /// last token: without the row, the next token would start at the clock, and clocks may go
    /// back.
    pub(crate) async fn sweep(&self) -> Result<()> {
        let until = self.within(MAKING);
        for packet in self.sweeping() {
            for _ in 0..STATEMENTS {
                let replies = self.run(Lane::Usual, &packet, until).await?;
                if replies.first().is_none_or(|reply| reply.affected < SWEPT) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the statements of a sweep, one for each table.
    fn sweeping(&self) -> Vec<Packet> {
        let Tables { dialect, locks, ended, waiters, read_waiters, readers, .. } = &self.tables;
        let Tables { records, permits, observers, .. } = &self.tables;
        let (clock, retention) = (dialect.now(), record::us(RETENTION));
        let patience = record::us(record::PATIENCE);
        let over = format!("until_us < {clock}");
        let left = format!("seen_us < {clock} - {patience} - {retention}");
        let none = |queue: &str| {
            format!("NOT EXISTS (SELECT 1 FROM {queue} w WHERE w.name = {locks}.name)")
        };
        let mut unused = format!(
            "until_us < {clock} - {retention} AND ended_us < {clock} AND top < {clock} AND {}",
            none(waiters)
        );
        let old = clock.to_owned() + " - until_us > " + &retention.to_string();
        let old = self.no_reader(&old);
        let of_readers = [(read_waiters, "attempt", left.clone()), (readers, READER, old)];
        let mut swept = vec![(ended, "attempt", over), (waiters, "attempt", left)];
        // The tables of an older program have no readers.
        if self.has_readers() {
            unused += &format!(" AND {}", none(read_waiters));
            swept.extend(of_readers);
        }
        if self.has_records() {
            let old = format!("until_us < {clock} - {retention}");
            swept.push((records, "name", self.no_record(records, &old)));
            swept.push((permits, READER, self.no_record(permits, &old)));
        }
        if self.notifies_observers() {
            swept.push((observers, "name, channel", format!("until_us < {clock}")));
        }
        swept.push((locks, "name", unused));
        let packet = |(table, key, condition): (&String, &str, String)| {
            dialect.plain(&[dialect.delete_some(table, key, &condition, key, SWEPT)])
        };
        swept.into_iter().map(packet).collect()
    }
}

impl Store {
    /// Returns the condition, besides `old`, that a row of readers is left over: its lock is gone,
    /// or its phase is over and the row is not the one about the last phase.
    pub(crate) fn no_reader(&self, old: &str) -> String {
        let Tables { dialect, locks, readers, .. } = &self.tables;
        let nobody = dialect.bytes(&record::nobody().to_bytes());
        format!(
            "{old} AND NOT EXISTS (SELECT 1 FROM {locks} l WHERE l.name = {readers}.name \
             AND ({readers}.attempt = {nobody} OR l.base = {readers}.base))"
        )
    }
}

#[cfg(all(test, feature = "mysql", feature = "postgres", feature = "sqlite"))]
#[allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]
mod tests {
    use leasehold_core::StoreUrl;
    use leasehold_core::clock::Clock;
    use leasehold_test_servers::{MariaDb, Needs, Postgres};

    use super::*;
    use crate::address::Address;

    #[tokio::test]
    async fn one_statement_of_a_sweep_removes_a_bounded_number_of_rows() {
        let place = tempfile::tempdir().unwrap();
        sweeps_in_parts(&format!("sqlite:{}", place.path().join("locks.db").display())).await;
        if !Needs::Postgres.is_skipped() {
            let server = Postgres::start(&[]).unwrap();
            sweeps_in_parts(&server.url()).await;
        }
        if !Needs::MySql.is_skipped() {
            let server = MariaDb::start(&[]).unwrap();
            sweeps_in_parts(&server.url()).await;
        }
    }

    async fn sweeps_in_parts(url: &str) {
        let address = Address::parse(StoreUrl::parse(url).unwrap()).unwrap();
        let store = Store::new(&address, Clock::system());
        store.prepare().await.unwrap();
        let Tables { dialect, ended, .. } = &store.tables;
        let until = store.within(MAKING);
        let rows: Vec<String> = (0..2500_u32)
            .map(|row| {
                format!("({}, {}, 1)", dialect.bytes(&row.to_be_bytes()), dialect.bytes(b"a"))
            })
            .collect();
        let insert =
            format!("INSERT INTO {ended} (attempt, name, until_us) VALUES {}", rows.join(", "));
        store.run(Lane::Usual, &dialect.plain(&[insert]), until).await.unwrap();
        let packets = store.sweeping();
        let mut removed = Vec::new();
        for _ in 0..2 {
            let replies = store.run(Lane::Usual, &packets[0], until).await.unwrap();
            removed.push(replies.first().unwrap().affected);
        }
        assert_eq!(removed, [SWEPT, SWEPT]);
        store.sweep().await.unwrap();
        let replies = store.run(Lane::Usual, &packets[0], until).await.unwrap();
        assert_eq!(replies.first().unwrap().affected, 0, "the sweep left some rows");
    }

    #[tokio::test]
    async fn what_nobody_waits_for_is_swept_whatever_its_row_says() {
        let place = tempfile::tempdir().unwrap();
        sweeps(&format!("sqlite:{}", place.path().join("locks.db").display())).await;
        if !Needs::Postgres.is_skipped() {
            let server = Postgres::start(&[]).unwrap();
            sweeps(&server.url()).await;
        }
        if !Needs::MySql.is_skipped() {
            let server = MariaDb::start(&[]).unwrap();
            sweeps(&server.url()).await;
        }
    }

    async fn sweeps(url: &str) {
        let address = Address::parse(StoreUrl::parse(url).unwrap()).unwrap();
        let store = Store::new(&address, Clock::system());
        store.prepare().await.unwrap();
        let Tables { dialect, locks, waiters, .. } = &store.tables;
        let [left, waited_for, nothing] =
            [&b"left"[..], b"waited for", b""].map(|b| dialect.bytes(b));
        let lock = |name: &str| {
            format!(
                "INSERT INTO {locks} (name, stamp, state, attempt, person, base, top, lost, until_us, \
                 since_us, confirmed, line, ended_us, ticket) \
                 VALUES ({name}, 1, 0, {nothing}, {nothing}, 1, 1, 0, 1, 1, 1, 1, 1, 1)"
            )
        };
        let waiter = format!(
            "INSERT INTO {waiters} (attempt, name, ticket, client, holder, ttl_us, tokens, person, \
             asked_us, seen_us) \
             VALUES ({nothing}, {waited_for}, 1, 1, 1, 1, 1, {nothing}, 1, {})",
            dialect.now()
        );
        let until = store.within(MAKING);
        let made = dialect.atomic(&[lock(&left), lock(&waited_for), waiter]);
        store.run(Lane::Usual, &made, until).await.unwrap();
        store.sweep().await.unwrap();
        let names = dialect.plain(&[format!("SELECT name FROM {locks}")]);
        let replies = store.run(Lane::Usual, &names, until).await.unwrap();
        let names = &replies.first().unwrap().rows;
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(names[0][0].bytes().unwrap(), b"waited for");
    }
}

#[cfg(all(test, feature = "mysql", feature = "postgres", feature = "sqlite"))]
#[path = "maintenance_clock_tests.rs"]
#[allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]
mod clock_tests;
