//! Classifies an error of a database for a lock: certainly not executed, or unknown. Adds the next
//! step.

use leasehold_core::{Error, ErrorKind, Retry};

/// Why a packet failed.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) what: What,
    pub(crate) error: Error,
}

/// How to handle it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Another transaction wrote first, or the database aborted this one: nothing was done; try
    /// again.
    Conflict,
    /// Nothing was done: the tables do not exist.
    NoTable,
    /// Nothing was done: another transaction has locked a needed row.
    Locked,
    /// The connection cannot be used again. The kind of the error tells whether the packet may have
    /// been executed.
    Broken,
    /// Nothing was done: the function does not exist, or the user lacks a right.
    NoRoutine,
    /// Nothing was done; the connection still works.
    Refused,
}

impl Fault {
    pub(crate) fn new(what: What, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { what, error: Error::new(kind, message) }
    }

    /// Returns the error for a missed time limit, with or without an outstanding request.
    pub(crate) fn late() -> Self {
        let message = "the database did not answer in time";
        Self::new(What::Broken, ErrorKind::Unavailable, message)
    }

    /// As [`late`](Self::late); names the lock of another transaction if tries before the last one met it.
    pub(crate) fn late_behind_lock(was_locked: bool) -> Self {
        match was_locked {
            true => Self::new(What::Broken, ErrorKind::Unavailable, LOCKED),
            false => Self::late(),
        }
    }

    /// See [`uncertain`].
    pub(crate) fn uncertain(self) -> Self {
        Self { what: self.what, error: uncertain(self.error) }
    }
}

/// Returns the same error, but as uncertain: an earlier request may have been executed.
pub(crate) fn uncertain(error: Error) -> Error {
    if !error.kind().is_certain() {
        return error;
    }
    let message = format!("{}; an earlier request may have been executed", error.message());
    Error::new(ErrorKind::Unavailable, message).with_retry(error.retry()).with_source(error)
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        fault.error
    }
}

const RIGHTS: &str = "the user may not do this; docs/sql.md lists the required rights, and \
                      `leasehold init` creates the tables with another user";
#[cfg(any(feature = "mysql", feature = "postgres"))]
const READ_ONLY: &str = "the database is read-only: a replica, or default_transaction_read_only \
                         is set; name the primary";
const FULL: &str = "the database has no space left; free some space";
#[cfg(feature = "postgres")]
const LOGIN: &str = "wrong user or password";
const NO_TLS: &str = "no TLS with this server; check tls, tls-ca, tls-cert and tls-key in the URL";
#[cfg(feature = "mysql")]
const TLS_ONLY: &str = "the server accepts no connection without TLS; set tls in the URL";
#[cfg(feature = "postgres")]
const UNLISTED: &str = "the server accepts this user from here only over TLS, or not at all; check tls \
                        in the URL, and pg_hba.conf on the server";
#[cfg(feature = "mysql")]
const MYSQL_LOGIN: &str = "wrong user or password, or the user must connect over TLS, with a certificate; \
                           check tls and tls-cert in the URL";
const CONFLICT: &str = "the database aborted this transaction because of a conflict";
const LOCKED: &str = "another transaction holds a lock on the row or the database; end it";
pub(crate) const NO_TABLE: &str =
    "the tables do not exist; create them with `leasehold init --store URL`";
#[cfg(feature = "postgres")]
const NO_SCHEMA: &str =
    "there is no such schema; create it (CREATE SCHEMA), or name another schema";
const OTHER_TABLE: &str =
    "the tables do not have the columns of this program; use another prefix=NAME";

/// Classifies an error of connecting, before any request.
pub(crate) fn sort_connecting(error: sqlx::Error) -> Fault {
    match error {
        // A bad certificate is reported as invalid data.
        sqlx::Error::Io(io) if io.kind() == std::io::ErrorKind::InvalidData => {
            let Fault { what, error } = sort(sqlx::Error::Tls(Box::new(io)));
            // An operator may fix it while a lease lasts: keep retrying a release.
            Fault { what, error: error.with_retry(Retry::Useful) }
        }
        error => sort(error),
    }
}

/// Classifies an error by what is known of the request.
pub(crate) fn sort(error: sqlx::Error) -> Fault {
    let (what, kind, message, passes) = match &error {
        sqlx::Error::Database(said) => {
            let code = said.code().unwrap_or_default().into_owned();
            database(&code, said.as_ref())
        }
        sqlx::Error::Io(_) => (What::Broken, ErrorKind::Unavailable, io(&error), true),
        sqlx::Error::Tls(_) => (What::Broken, ErrorKind::Refused, NO_TLS, false),
        sqlx::Error::Configuration(_) => {
            (What::Broken, ErrorKind::Invalid, "store URL: the database client refused it", false)
        }
        _ => (What::Broken, ErrorKind::Unavailable, "the connection failed", true),
    };
    let retry = if passes { Retry::Useful } else { Retry::Useless };
    let error = Error::new(kind, format!("{message} ({error})")).with_source(error);
    Fault { what, error: error.with_retry(retry) }
}

fn io(error: &sqlx::Error) -> &'static str {
    match error {
        sqlx::Error::Io(io) if io.kind() == std::io::ErrorKind::ConnectionRefused => {
            "no database listens there; is the database running?"
        }
        sqlx::Error::Io(io) if io.kind() == std::io::ErrorKind::NotFound => {
            "there is no such socket; is the database running?"
        }
        _ => "the connection failed",
    }
}

type Sorted = (What, ErrorKind, &'static str, bool);

fn database(code: &str, said: &dyn sqlx::error::DatabaseError) -> Sorted {
    let unknown = (What::Refused, ErrorKind::Unavailable, "the database returned an error", true);
    #[cfg(feature = "postgres")]
    if said.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some() {
        return postgres(code, said.message()).unwrap_or(unknown);
    }
    #[cfg(feature = "mysql")]
    if let Some(said) = said.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        return mysql(said.number()).unwrap_or(unknown);
    }
    #[cfg(feature = "sqlite")]
    if said.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some() {
        return sqlite(code.parse().unwrap_or_default(), said.message()).unwrap_or(unknown);
    }
    let _ = (code, said);
    unknown
}

#[cfg(feature = "postgres")]
fn postgres(code: &str, message: &str) -> Option<Sorted> {
    use ErrorKind::{Foreign, Refused, Unavailable};
    Some(match code {
        "40001" | "40P01" | "23505" | "42P07" => (What::Conflict, Unavailable, CONFLICT, true),
        "42P01" => (What::NoTable, Refused, NO_TABLE, false),
        "3F000" => (What::NoTable, Refused, NO_SCHEMA, false),
        "42703" | "42804" => (What::Refused, Foreign, OTHER_TABLE, false),
        "42883" => (What::NoRoutine, Foreign, OTHER_TABLE, false),
        "42501" => (What::NoRoutine, Refused, RIGHTS, false),
        // Another connection may lead to the primary.
        "25006" => (What::Broken, Refused, READ_ONLY, true),
        "28000" if message.contains("no encryption") => (What::Refused, Refused, UNLISTED, false),
        "28P01" | "28000" => (What::Refused, Refused, LOGIN, false),
        "3D000" => (What::Refused, Refused, "there is no such database; create it", false),
        "53100" | "53200" => (What::Refused, Refused, FULL, true),
        "53300" => (
            What::Broken,
            Unavailable,
            "the database has no connection left; raise max_connections or lower pool",
            true,
        ),
        "55P03" => (What::Locked, Unavailable, LOCKED, true),
        "57P01" | "57P02" | "57P05" => {
            (What::Broken, Unavailable, "the database closed the connection", true)
        }
        "57P03" => (What::Broken, Unavailable, "the database is starting or shutting down", true),
        // A pooler answered instead of the database.
        "08P01" if message.contains("no such") || message.contains("auth") => {
            (What::Broken, Refused, "the pooler refused: wrong user, password or database", false)
        }
        _ if code.starts_with("08") => (What::Broken, Unavailable, "the connection failed", true),
        _ => return None,
    })
}

#[cfg(feature = "mysql")]
fn mysql(number: u16) -> Option<Sorted> {
    use ErrorKind::{Foreign, Refused, Unavailable};
    Some(match number {
        1213 | 1062 | 1020 | 1050 => (What::Conflict, Unavailable, CONFLICT, true),
        1205 | 3572 => (What::Locked, Unavailable, LOCKED, true),
        1146 => (What::NoTable, Refused, NO_TABLE, false),
        1054 | 1136 => (What::Refused, Foreign, OTHER_TABLE, false),
        1142 | 1143 | 1044 | 1227 | 1370 => (What::Refused, Refused, RIGHTS, false),
        // MariaDB also sends this to a user that must connect over TLS.
        1045 | 1698 => (What::Refused, Refused, MYSQL_LOGIN, false),
        1046 | 1049 => (
            What::Refused,
            Refused,
            "there is no such database; create it, and name it in the URL",
            false,
        ),
        // Another connection may lead to the primary.
        1290 | 1792 | 1836 => (What::Broken, Refused, READ_ONLY, true),
        3159 => (What::Refused, Refused, TLS_ONLY, false),
        1021 | 1114 | 1041 => (What::Refused, Refused, FULL, true),
        1665 => (
            What::Refused,
            Refused,
            "binlog_format = STATEMENT does not work with READ COMMITTED; set it to ROW or MIXED",
            false,
        ),
        1040 | 1203 | 1226 => (
            What::Broken,
            Unavailable,
            "the database has no connection left; raise max_connections or lower pool",
            true,
        ),
        1053 | 1077 | 1079 | 1317 | 1927 | 4031 => {
            (What::Broken, Unavailable, "the database closed the connection", true)
        }
        _ => return None,
    })
}

#[cfg(feature = "sqlite")]
fn sqlite(code: u32, message: &str) -> Option<Sorted> {
    use ErrorKind::{Foreign, Refused, Unavailable};
    // The lowest byte is the kind, and the higher bytes the details: here, that the row exists.
    if matches!(code, 1555 | 2067) {
        return Some((What::Conflict, Unavailable, CONFLICT, true));
    }
    if code == 1032 {
        return Some((
            What::Broken,
            Unavailable,
            "the file was moved or replaced; reconnecting",
            true,
        ));
    }
    // The shared memory of a write-ahead log, a file, cannot grow.
    if code == 4874 {
        return Some((What::Refused, Refused, FULL, true));
    }
    Some(match code & 0xff {
        5 | 6 => (What::Locked, Unavailable, LOCKED, true),
        8 => (
            What::Broken,
            Refused,
            "the database file or its directory cannot be written; give this user the right",
            true,
        ),
        13 => (What::Refused, Refused, FULL, true),
        14 => (
            What::Refused,
            Refused,
            "the database file cannot be opened or created; check the path and the rights",
            false,
        ),
        11 | 26 => (
            What::Refused,
            Foreign,
            "the file is not a SQLite database, or is damaged; it was not changed",
            false,
        ),
        10 => (What::Broken, Unavailable, "the file cannot be read or written", true),
        1 if message.contains("no such table") => (What::NoTable, Refused, NO_TABLE, false),
        1 if message.contains("no such column") || message.contains("no column") => {
            (What::Refused, Foreign, OTHER_TABLE, false)
        }
        _ => return None,
    })
}

/// Returns the error for an answer that no statement of this program can have.
pub(crate) fn strange(what: &str) -> Error {
    Error::new(
        ErrorKind::Foreign,
        format!("the tables contain unknown data ({what}); use another prefix=NAME"),
    )
}

/// Returns true if the user lacks a right that the request needs.
pub(crate) fn is_about_rights(error: &Error) -> bool {
    error.kind() == ErrorKind::Refused && error.message().contains(RIGHTS)
}
