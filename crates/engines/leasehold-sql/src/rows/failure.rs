//! Converts errors of a database to [`Error`].

use leasehold_core::{Error, ErrorKind, Retry};
use sqlx::error::DatabaseError;

/// Converts an error of `sqlx` to an [`Error`]. Its kind tells which state is left, and whether a
/// retry helps.
///
/// | kind | errors of the database |
/// |---|---|
/// | [`Conflict`](ErrorKind::Conflict) | a deadlock; a snapshot or serializable transaction that conflicts with an earlier commit. Roll back if the database has not, and repeat the whole transaction |
/// | [`Timeout`](ErrorKind::Timeout) | a lock was not available immediately, or in time |
/// | [`Invalid`](ErrorKind::Invalid) | no such table or column, a value of another type, a statement that is not SQL |
/// | [`Refused`](ErrorKind::Refused) | rights, read-only, full, too large, a constraint (such as `CHECK (left >= 0)`) |
/// | [`Unavailable`](ErrorKind::Unavailable) | not reached, shut down, too many connections. After a commit, the outcome is unknown |
/// | [`Foreign`](ErrorKind::Foreign) | damaged, or not a database |
pub fn failure(error: sqlx::Error) -> Error {
    use sqlx::Error as Sql;
    let (kind, remedy) = match &error {
        Sql::Database(said) => said_by_database(&**said),
        Sql::Configuration(_)
        | Sql::InvalidArgument(_)
        | Sql::TypeNotFound { .. }
        | Sql::ColumnIndexOutOfBounds { .. }
        | Sql::ColumnNotFound(_)
        | Sql::ColumnDecode { .. }
        | Sql::Encode(_)
        | Sql::Decode(_)
        | Sql::InvalidSavePointStatement => (ErrorKind::Invalid, ""),
        Sql::RowNotFound => (ErrorKind::Foreign, ""),
        Sql::PoolTimedOut => {
            let remedy = "check that the database runs; if it does, give the pool more connections, or a \
                          longer acquire_timeout";
            (ErrorKind::Unavailable, remedy)
        }
        Sql::PoolClosed => (ErrorKind::Closed, ""),
        _ => (ErrorKind::Unavailable, ""),
    };
    let said = match &error {
        Sql::Database(said) => said.message().to_owned(),
        _ => error.to_string(),
    };
    let message = if remedy.is_empty() { said } else { format!("{said}: {remedy}") };
    let retry = match kind {
        ErrorKind::Conflict | ErrorKind::Timeout | ErrorKind::Unavailable => Retry::Useful,
        _ => Retry::Useless,
    };
    Error::new(kind, message).with_retry(retry).with_source(error)
}

/// Returns true if the values of a row caused an error of [`failure`], so that the same statement
/// may succeed without that row. Such errors are a value that is too large or has the wrong type,
/// and a violated constraint.
///
/// SQLSTATE classes 22 and 23; of MySQL also 1153, 1264, 1366, 1406 and 3819; of SQLite 18, 19 and 20.
/// Returns false for all other errors, such as missing rights, a full disk or a missing table.
pub fn is_row_fault(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    match source.and_then(|source| source.downcast_ref()) {
        Some(sqlx::Error::Database(said)) => is_of_row(&**said),
        Some(sqlx::Error::Encode(_)) => true,
        _ => false,
    }
}

fn is_of_row(error: &dyn DatabaseError) -> bool {
    let code = error.code().unwrap_or_default();
    #[cfg(feature = "mysql")]
    if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        let number = error.number();
        return matches!(number, 1153 | 1264 | 1366 | 1406 | 3819) || has_row_class(&code);
    }
    #[cfg(feature = "sqlite")]
    if error.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some() {
        return matches!(code.parse().unwrap_or(0_u32) & 0xff, 18..=20);
    }
    has_row_class(&code)
}

/// Returns true for invalid data and constraints.
fn has_row_class(sqlstate: &str) -> bool {
    matches!(sqlstate.get(..2), Some("22" | "23"))
}

type Meaning = (ErrorKind, &'static str);

const TABLE: Meaning =
    (ErrorKind::Invalid, "create this table, or correct its name in the statement");
const COLUMN: Meaning =
    (ErrorKind::Invalid, "add this column to the table, or correct its name in the statement");
const TYPE: Meaning =
    (ErrorKind::Invalid, "give the column the type of the value; tokens and versions need BIGINT");
const DEADLOCK: Meaning =
    (ErrorKind::Conflict, "repeat the transaction; lock rows in the same order everywhere");
const SNAPSHOT: Meaning = (
    ErrorKind::Conflict,
    "the row changed after it was read; repeat the transaction, or use READ COMMITTED",
);
const LOCKED: Meaning =
    (ErrorKind::Timeout, "another transaction holds a lock on this row or table; retry");
const RIGHTS: Meaning = (
    ErrorKind::Refused,
    "GRANT the denied right (SELECT, INSERT, UPDATE, DELETE or CREATE) on this object to the user",
);
const CONSTRAINT: Meaning = (ErrorKind::Refused, "");
#[cfg(any(feature = "mysql", feature = "sqlite"))]
const LARGE: Meaning = (ErrorKind::Refused, "a value is larger than the server accepts");
const AWAY: Meaning = (ErrorKind::Unavailable, "");

fn said_by_database(error: &dyn DatabaseError) -> Meaning {
    let code = error.code().unwrap_or_default();
    #[cfg(feature = "mysql")]
    if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        return said_by_mysql(error.number(), &code);
    }
    #[cfg(feature = "sqlite")]
    if error.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some() {
        return said_by_sqlite(code.parse().unwrap_or_default(), error.message());
    }
    by_sqlstate(&code)
}

/// Maps the codes of the SQL standard and of PostgreSQL ("PostgreSQL Error Codes", in its manual).
fn by_sqlstate(code: &str) -> Meaning {
    match code {
        "40001" => SNAPSHOT,
        "40P01" => DEADLOCK,
        "55P03" => LOCKED,
        "57014" => (ErrorKind::Timeout, "the statement was cancelled; see statement_timeout"),
        "42P01" | "3F000" => TABLE,
        "42703" => COLUMN,
        // No operator, wrong type, not castable, out of range, no number.
        "42883" | "42804" | "42846" | "22003" | "22P02" => TYPE,
        "42501" => RIGHTS,
        "25006" => (ErrorKind::Refused, "this is a replica, or the transaction is read-only"),
        "25P02" => {
            (ErrorKind::Invalid, "an earlier statement of the transaction failed; roll back")
        }
        _ => match code.get(..2) {
            // It is not known whether it was carried out.
            Some("40") if code == "40003" => AWAY,
            Some("40") => SNAPSHOT,
            Some("08" | "57") => AWAY,
            Some("53") if code == "53300" => (ErrorKind::Unavailable, "raise max_connections"),
            Some("42" | "22") => (ErrorKind::Invalid, ""),
            Some("0A" | "23" | "25" | "27" | "44" | "45" | "53" | "54" | "55" | "P0") => CONSTRAINT,
            // A statement with an unknown error may have been carried out.
            _ => AWAY,
        },
    }
}

/// Maps the server's number, since most numbers share one SQLSTATE ("Server Error Message
/// Reference", in MySQL's manual; MariaDB's own begin at 1900).
#[cfg(feature = "mysql")]
fn said_by_mysql(number: u16, sqlstate: &str) -> Meaning {
    match number {
        1213 => DEADLOCK,
        1020 => SNAPSHOT,
        1205 | 3572 => LOCKED,
        1969 | 3024 => (ErrorKind::Timeout, "the statement was cancelled; see max_statement_time"),
        1146 | 1049 => TABLE,
        1054 => COLUMN,
        1264 | 1265 | 1292 | 1366 | 1367 | 1690 => TYPE,
        1044 | 1045 | 1142 | 1143 | 1227 | 1370 => RIGHTS,
        1290 | 1792 | 1836 => {
            (ErrorKind::Refused, "this is a replica, or the transaction is read-only")
        }
        1040 => (ErrorKind::Unavailable, "raise max_connections"),
        1153 => LARGE,
        1021 | 1114 | 1364 | 1526 | 3819 => CONSTRAINT,
        1053 | 1077 | 1079 | 1152 | 1158..=1161 | 1184 | 1317 | 1927 | 3169 => AWAY,
        _ => by_sqlstate(sqlstate),
    }
}

/// Maps the extended code ("Result and Error Codes", in SQLite's documents), whose low byte is the
/// plain code.
#[cfg(feature = "sqlite")]
fn said_by_sqlite(code: u32, message: &str) -> Meaning {
    // BUSY_SNAPSHOT and BUSY_RECOVERY: waiting would not help.
    if matches!(code, 517 | 261) {
        return (
            ErrorKind::Conflict,
            "another transaction wrote after this one read; lock before you read (`for_update`), \
             or use BEGIN IMMEDIATE",
        );
    }
    match code & 0xff {
        5 => (ErrorKind::Timeout, "another connection is writing; retry, or raise busy_timeout"),
        6 => DEADLOCK,
        1 if message.starts_with("no such table") => TABLE,
        1 if message.contains("no such column") || message.contains("has no column") => COLUMN,
        1 | 25 => (ErrorKind::Invalid, ""),
        20 => TYPE,
        3 | 23 => RIGHTS,
        8 => (ErrorKind::Refused, "cannot write the file or its directory"),
        11 | 26 => (ErrorKind::Foreign, ""),
        13 | 19 => CONSTRAINT,
        18 => LARGE,
        _ => AWAY,
    }
}

#[cfg(test)]
mod tests {
    use super::by_sqlstate;

    #[test]
    fn what_nobody_knows_is_not_certain() {
        for code in ["40003", "XX000", "58030", "HY000", "", "08006"] {
            assert!(!by_sqlstate(code).0.is_certain(), "{code}");
        }
        for code in ["23505", "23514", "53100", "0A000", "P0001"] {
            assert!(by_sqlstate(code).0.is_certain(), "{code}");
        }
    }
}
