//! Checks, creates and cleans up the tables.

use std::time::Duration;

use leasehold_core::{Deadline, ErrorKind, Result};

use crate::dialect::Packet;
use crate::error::{Fault, What};
use crate::pool::Lane;
use crate::record;
use crate::store::Store;
use crate::tables::Tables;

/// How long creating the tables may take.
pub(crate) const MAKING: Duration = Duration::from_secs(30);
/// How long a free lock is remembered at least.
const RETENTION: Duration = Duration::from_secs(3600);
/// How many rows one statement of a sweep or of `forget` removes at most, and how many such
/// statements a table gets in one sweep; the next sweep continues.
pub(crate) const SWEPT: u64 = 1000;
const STATEMENTS: usize = 100;
/// The key of the table of readers.
pub(crate) const READER: &str = "name, attempt";

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
    /// Returns false if the tables of readers are missing, in tables of an older program: then the
    /// locks work, but no client can read them.
    pub(crate) async fn prepare(&self) -> Result<bool> {
        let until = self.within(MAKING);
        match self.version(until).await {
            Err(fault) if fault.what == What::NoTable && self.create => self.make(until).await?,
            Err(fault) => return Err(fault.error),
            Ok(version) => self.tables.check(version)?,
        }
        if self.find_readers(until).await? {
            return Ok(true);
        }
        let made = if self.create { self.make(until).await.err() } else { None };
        let shared = self.find_readers(until).await?;
        if !shared {
            let error = made.map(tracing::field::display);
            tracing::info!(
                error,
                "the tables of readers are missing, so there are no read-write locks; \
                 create them: leasehold init"
            );
        }
        Ok(shared)
    }

    /// Returns true if the tables of readers exist, and this user may read them.
    async fn find_readers(&self, until: Deadline) -> Result<bool> {
        let Tables { dialect, readers, read_waiters, .. } = &self.tables;
        let packet =
            dialect.plain(&[format!("SELECT 1 FROM {readers}, {read_waiters} WHERE 1 = 0")]);
        let has_readers = match self.run(Lane::Usual, &packet, until).await {
            Ok(_) => true,
            Err(fault) if matches!(fault.what, What::NoTable | What::NoRoutine) => false,
            Err(fault) if fault.error.kind() == ErrorKind::Refused => false,
            Err(fault) => return Err(fault.error),
        };
        self.set_has_readers(has_readers);
        Ok(has_readers)
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
