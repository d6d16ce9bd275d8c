//! The rows of locks in a database.

use std::io;

/// The tables whose rows are lost with a database; that of the version stays.
const TABLES: [&str; 3] = ["leasehold_locks", "leasehold_waiters", "leasehold_ended"];
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

/// The rows of waiters that are left.
pub(super) fn left(run: impl Fn(&str) -> io::Result<String>) -> io::Result<Vec<String>> {
    let waiters = run("SELECT count(*) FROM leasehold_waiters")?;
    Ok(if waiters == "0" { Vec::new() } else { vec![format!("{waiters} rows of waiters")] })
}
