//! What an error of a database means for a lock: certainly not done, or unknown; and what to do.

use leasehold_core::{Error, ErrorKind, Retry};

/// What went wrong with a packet.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) what: What,
    pub(crate) error: Error,
}

/// What is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Somebody was quicker, or a transaction was chosen to give way: nothing was done, again.
    Conflict,
    /// Nothing was done: our tables are not there.
    NoTable,
    /// Nothing was done: somebody else's transaction has locked what we need.
    Locked,
    /// The connection is of no use any more; whether it was done is known if the error's kind says so.
    Broken,
    /// Nothing was done: there is no such function, or the user may not do something.
    NoRoutine,
    /// Nothing was done; the connection lives.
    Refused,
}

impl Fault {
    pub(crate) fn new(what: What, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { what, error: Error::new(kind, message) }
    }

    /// The time is up, with a request under way or none.
    pub(crate) fn late() -> Self {
        let message = "the database did not answer in time";
        Self::new(What::Broken, ErrorKind::Unavailable, message)
    }

    /// See [`uncertain`].
    pub(crate) fn uncertain(self) -> Self {
        Self { what: self.what, error: uncertain(self.error) }
    }
}

/// The same error where something may have been done before it.
pub(crate) fn uncertain(error: Error) -> Error {
    if !error.kind().is_certain() {
        return error;
    }
    let message = format!("{}; an earlier request may have been carried out", error.message());
    Error::new(ErrorKind::Unavailable, message).with_retry(error.retry()).with_source(error)
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        fault.error
    }
}

const RIGHTS: &str = "the user may not do this; the rights that are needed stand in docs/sql.md, \
                      and `leasehold init` makes the tables as a user who may";
const READ_ONLY: &str = "the database is read-only: a replica, or default_transaction_read_only \
                         is set; name the primary";
const FULL: &str = "the database has no room left; give it room";
const LOGIN: &str = "wrong user or password";
const NO_TLS: &str = "no TLS with this server; see tls, tls-ca, tls-cert and tls-key in the URL";
#[cfg(feature = "mysql")]
const TLS_ONLY: &str = "the server takes no connection without TLS; see tls in the URL";
#[cfg(feature = "postgres")]
const UNLISTED: &str = "the server lets this user in from here over TLS alone, or not at all; see tls \
                        in the URL, and pg_hba.conf there";
#[cfg(feature = "mysql")]
const MYSQL_LOGIN: &str = "wrong user or password, or one who must come over TLS, with a certificate; \
                           see tls and tls-cert in the URL";
const CONFLICT: &str = "the database has chosen this transaction to give way";
const LOCKED: &str = "somebody's transaction keeps the lock's row or the database locked; end it";
pub(crate) const NO_TABLE: &str =
    "the tables are not there; make them with `leasehold init --store URL`";
const OTHER_TABLE: &str = "the tables are not as this program makes them; use another prefix=NAME";

/// Sorts an error of connecting, when nothing has been asked yet.
pub(crate) fn sort_connecting(error: sqlx::Error) -> Fault {
    match error {
        // What is wrong with a certificate comes as data that are not valid.
        sqlx::Error::Io(io) if io.kind() == std::io::ErrorKind::InvalidData => {
            let Fault { what, error } = sort(sqlx::Error::Tls(Box::new(io)));
            // It may be put right while a lease lasts: a release is not given up for it.
            Fault { what, error: error.with_retry(Retry::Useful) }
        }
        error => sort(error),
    }
}

/// Sorts an error by what is known of the request.
pub(crate) fn sort(error: sqlx::Error) -> Fault {
    let (what, kind, message, passes) = match &error {
        sqlx::Error::Database(said) => {
            let code = said.code().unwrap_or_default().into_owned();
            database(&code, said.as_ref())
        }
        sqlx::Error::Io(_) => (What::Broken, ErrorKind::Unavailable, io(&error), true),
        sqlx::Error::Tls(_) => (What::Broken, ErrorKind::Refused, NO_TLS, false),
        sqlx::Error::Configuration(_) => {
            (What::Broken, ErrorKind::Invalid, "store URL: cannot be used", false)
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
            "nobody listens there; is the database running?"
        }
        sqlx::Error::Io(io) if io.kind() == std::io::ErrorKind::NotFound => {
            "there is no such socket; is the database running?"
        }
        _ => "the connection failed",
    }
}

type Sorted = (What, ErrorKind, &'static str, bool);

fn database(code: &str, said: &dyn sqlx::error::DatabaseError) -> Sorted {
    let unknown = (What::Refused, ErrorKind::Unavailable, "the database reports an error", true);
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
        "42P01" | "3F000" => (What::NoTable, Refused, NO_TABLE, false),
        "42703" | "42804" => (What::Refused, Foreign, OTHER_TABLE, false),
        "42883" => (What::NoRoutine, Foreign, OTHER_TABLE, false),
        "42501" => (What::NoRoutine, Refused, RIGHTS, false),
        // Another connection may lead to the primary.
        "25006" => (What::Broken, Refused, READ_ONLY, true),
        "28000" if message.contains("no encryption") => (What::Refused, Refused, UNLISTED, false),
        "28P01" | "28000" => (What::Refused, Refused, LOGIN, false),
        "3D000" => (What::Refused, Refused, "there is no such database; create it", false),
        "53100" | "53200" => (What::Refused, Refused, FULL, true),
        "53300" => (What::Broken, Unavailable, "the database has no connection left for us", true),
        "55P03" => (What::Locked, Unavailable, LOCKED, true),
        "57P01" | "57P02" | "57P05" => {
            (What::Broken, Unavailable, "the database has ended the connection", true)
        }
        "57P03" => (What::Broken, Unavailable, "the database is starting or ending", true),
        // What a pooler says in the database's name.
        "08P01" if message.contains("no such") || message.contains("auth") => {
            (What::Broken, Refused, "the pooler refuses: wrong user, password or database", false)
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
        // MariaDB also says so to a user who must come over TLS.
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
            "binlog_format = STATEMENT does not go with READ COMMITTED; set it to ROW or MIXED",
            false,
        ),
        1040 | 1203 | 1226 => {
            (What::Broken, Unavailable, "the database has no connection left for us", true)
        }
        1053 | 1077 | 1079 | 1317 | 1927 | 4031 => {
            (What::Broken, Unavailable, "the database has ended the connection", true)
        }
        _ => return None,
    })
}

#[cfg(feature = "sqlite")]
fn sqlite(code: u32, message: &str) -> Option<Sorted> {
    use ErrorKind::{Foreign, Refused, Unavailable};
    // The lowest byte is the kind, what is above it says more: here, that such a row is there.
    if matches!(code, 1555 | 2067) {
        return Some((What::Conflict, Unavailable, CONFLICT, true));
    }
    if code == 1032 {
        return Some((What::Broken, Unavailable, "the file was moved or replaced", true));
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
            "the database file cannot be opened or made; look at the path and at the rights",
            false,
        ),
        11 | 26 => (
            What::Refused,
            Foreign,
            "the file is not a SQLite database, or is damaged; it was left as it is",
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

/// The database has answered something that our statements never ask for.
pub(crate) fn strange(what: &str) -> Error {
    Error::new(ErrorKind::Foreign, format!("the tables hold what is not ours: {what}"))
}
