//! The rows of locks in a database.

use std::io;

use super::remains::Remains;

/// The tables whose rows are lost with a database; that of the version stays.
const TABLES: [&str; 7] = [
    "leasehold_locks",
    "leasehold_waiters",
    "leasehold_read_waiters",
    "leasehold_readers",
    "leasehold_records",
    "leasehold_permits",
    "leasehold_ended",
];
/// The database may choose the one that deletes as the victim of a deadlock.
const TRIES: usize = 10;

/// Deletes all rows in one transaction.
pub(super) fn delete_all(run: impl Fn(&str) -> io::Result<String>) -> io::Result<()> {
    let deletes = TABLES.map(|table| format!("DELETE FROM {table};")).concat();
    let transaction = format!("BEGIN; {deletes} COMMIT");
    for _ in 1..TRIES {
        if run(&transaction).is_ok() {
            return Ok(());
        }
    }
    run(&transaction).map(drop)
}

/// Statements that replace all rows by those of the schema `copy`, in one transaction.
pub(super) fn replacement() -> Vec<String> {
    let each = |table| {
        [format!("DELETE FROM {table}"), format!("INSERT INTO {table} SELECT * FROM copy.{table}")]
    };
    let statements = TABLES.into_iter().flat_map(each);
    let begin = std::iter::once("BEGIN IMMEDIATE".to_owned());
    begin.chain(statements).chain(["COMMIT".to_owned()]).collect()
}

/// The time of the database in microseconds.
pub(super) const POSTGRES_US: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)";
pub(super) const MARIADB_US: &str = "(unix_timestamp(sysdate(6)) * 1000000)";
pub(super) const SQLITE_US: &str = "(unixepoch('subsec') * 1000000)";
/// An attempt that has ended is remembered for so long, in microseconds.
const ENDED_US: u64 = 61_000_000;

/// A name stays that of a semaphore for so long after its last use, in microseconds.
const USED_US: u64 = 3_600_000_000;
/// The state of its row in the table of locks.
const SEMAPHORE: u8 = 3;

/// Rows that clients have left, and those that they remove once an hour; `now` is the time of the database.
pub(super) fn left(run: impl Fn(&str) -> io::Result<String>, now: &str) -> io::Result<Remains> {
    let count = |what: &str| {
        let answer = run(&format!("SELECT count(*) FROM {what}"))?;
        answer.trim().parse::<u64>().map_err(io::Error::other)
    };
    let waiters = count("leasehold_waiters")? + count("leasehold_read_waiters")?;
    let readers = count("leasehold_readers")?;
    let endless = count(&format!("leasehold_ended WHERE until_us > {now} + {ENDED_US}"))?;
    let ended = count("leasehold_ended")? - endless;
    let lasts = format!("leasehold_locks WHERE until_us > {now} + {ENDED_US}");
    let used = format!("state = {SEMAPHORE} AND until_us <= {now} + {ENDED_US} + {USED_US}");
    let semaphores = count(&format!("{lasts} AND {used}"))?;
    let held = count(&lasts)? - semaphores;
    let locks = count("leasehold_locks")? - held - semaphores;
    let permits = count("leasehold_permits")?;
    let left = Remains::of_left(&[
        (waiters, "rows of waiters"),
        (endless, "rows of ended attempts without an end"),
        (held, "rows of locks without an end"),
        (permits, "rows of permits"),
    ]);
    let kept = [
        (readers, "rows of the last readers (2 h)"),
        (ended, "rows of ended attempts (an hour)"),
        (locks, "rows of free locks (2 h)"),
        (semaphores, "rows of free semaphores (an hour)"),
    ];
    Ok(left.and_kept(&kept))
}
