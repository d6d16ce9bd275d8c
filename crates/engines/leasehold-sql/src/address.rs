//! Parses a store URL: where to connect, and with which credentials.

#[cfg(any(feature = "mysql", feature = "postgres"))]
mod server;

use std::fmt;
#[cfg(feature = "sqlite")]
use std::path::Path;
#[cfg(feature = "sqlite")]
use std::time::Duration;

use leasehold_core::{Error, Result, StoreUrl};

use crate::dialect::Dialect;
use crate::shedlock_table::ShedLockTable;
use crate::tables::Tables;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use server::{Server, at, wrong_tls};

/// Where to connect, and the names of the tables.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) target: Target,
    #[cfg(feature = "postgres")]
    pub(crate) listen: Listen,
    pub(crate) tables: Tables,
    /// The maximum number of connections.
    pub(crate) pool: usize,
    /// True if the first use may create the tables.
    pub(crate) create: bool,
    pub(crate) place: String,
    /// The table of ShedLock, with `wire=shedlock`.
    pub(crate) wire: Option<ShedLockTable>,
}

/// How to connect, for each engine.
#[derive(Clone)]
pub(crate) enum Target {
    #[cfg(feature = "postgres")]
    Postgres(Box<sqlx::postgres::PgConnectOptions>),
    #[cfg(feature = "mysql")]
    MySql(Box<sqlx::mysql::MySqlConnectOptions>),
    #[cfg(feature = "sqlite")]
    Sqlite(Box<sqlx::sqlite::SqliteConnectOptions>),
}

/// Identifies a file under any name: device and inode number.
pub(crate) type FileId = (u64, u64);

impl Target {
    /// Returns the file that the name leads to now, for engines with a file; it differs after the
    /// file was replaced. SQLite detects that only in a journal mode that creates a journal for
    /// each change.
    pub(crate) fn file(&self) -> Option<FileId> {
        match self {
            #[cfg(all(unix, feature = "sqlite"))]
            Self::Sqlite(options) => {
                use std::os::unix::fs::MetadataExt;
                let found = std::fs::metadata(options.get_filename()).ok()?;
                Some((found.dev(), found.ino()))
            }
            #[cfg(any(not(unix), feature = "mysql", feature = "postgres"))]
            _ => None,
        }
    }
}

impl Target {
    /// Returns true if the engine is a file in which nothing was written yet.
    pub(crate) fn is_empty_file(&self) -> bool {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(options) => {
                std::fs::metadata(options.get_filename()).is_ok_and(|found| found.len() == 0)
            }
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            _ => false,
        }
    }

    /// Returns true if the engine is a file, which has one lock for all rows.
    pub(crate) fn is_file(&self) -> bool {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => true,
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            _ => false,
        }
    }
}

#[cfg(all(unix, feature = "sqlite"))]
impl Target {
    /// Creates the file of SQLite, if it does not exist, for this user alone; SQLite would let
    /// every user read it. If this fails, SQLite fails next, and returns the reason.
    pub(crate) fn make_file(&self) {
        use std::os::unix::fs::OpenOptionsExt;
        match self {
            Self::Sqlite(options) => {
                let mut new = std::fs::File::options();
                let _ = new.write(true).create_new(true).mode(0o600).open(options.get_filename());
            }
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            _ => {}
        }
    }
}

impl fmt::Debug for Target {
    /// Hides a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Target")
    }
}

/// How the server wakes waiters.
#[cfg(feature = "postgres")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// Not at all: the client polls.
    Off,
    /// Over a connection to the same place.
    Here,
    /// Over a connection to another place, past a pooler.
    At(String, u16),
}

/// The first statement of each MySQL connection. After a lost connection, its transaction ends with
/// the connection, which ends by its time limit. Each assignment of a statement must see the
/// assignments before it: a global setting of MariaDB can change that, and then a taken lock would
/// look free.
#[cfg(feature = "mysql")]
pub(crate) const MYSQL_SESSION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SET SESSION innodb_lock_wait_timeout = 2, SESSION lock_wait_timeout = 2, SESSION wait_timeout = 120, \
    SESSION autocommit = 1, SESSION sql_mode = REPLACE(@@sql_mode, 'SIMULTANEOUS_ASSIGNMENT', '')";

#[cfg(feature = "postgres")]
const POSTGRES: &[&str] = &[
    "also",
    "columns",
    "create",
    "listen",
    "password-file",
    "pool",
    "prefix",
    "schema",
    "socket",
    "sslmode",
    "sslrootcert",
    "table",
    "tls",
    "tls-ca",
    "tls-cert",
    "tls-key",
    "user",
    "wire",
];
#[cfg(feature = "mysql")]
const MYSQL: &[&str] = &[
    "also",
    "columns",
    "create",
    "password-file",
    "pool",
    "prefix",
    "socket",
    "sslmode",
    "sslrootcert",
    "table",
    "tls",
    "tls-ca",
    "tls-cert",
    "tls-key",
    "user",
    "wire",
];
const FILE: &[&str] = &["create", "pool", "prefix"];

/// The default limit of connections.
const POOL: usize = 8;
/// The same for files, where one connection at a time writes.
const FILE_POOL: usize = 3;
/// How long to wait for a file that another process has locked.
#[cfg(feature = "sqlite")]
const BUSY: Duration = crate::dialect::LOCK;

impl Address {
    /// Parses `postgres://[user[:password]@]host[:port]/database`, `mysql://` (`mariadb://`) in the
    /// same form, and `sqlite:/path/to/file`.
    pub(crate) fn parse(url: StoreUrl) -> Result<Self> {
        match url.scheme() {
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => {
                let mut url = url;
                let (target, listen) = postgres(&mut url)?;
                let address = Self::new(url, Dialect::Postgres, target, POSTGRES)?;
                Ok(Self { listen, ..address })
            }
            #[cfg(feature = "mysql")]
            "mysql" | "mariadb" => {
                let mut url = url;
                let target = mysql(&mut url)?;
                Self::new(url, Dialect::MySql, target, MYSQL)
            }
            #[cfg(feature = "sqlite")]
            "sqlite" => {
                let target = sqlite(&url)?;
                Self::new(url, Dialect::Sqlite, target, FILE)
            }
            scheme => Err(invalid(format!(
                "{scheme}: is not supported by this build; enable the feature of this database"
            ))),
        }
    }

    fn new(mut url: StoreUrl, dialect: Dialect, target: Target, known: &[&str]) -> Result<Self> {
        let prefix = url.take("prefix").unwrap_or_else(|| "leasehold".to_owned());
        let schema = match dialect.notifies() {
            true => url.take("schema"),
            false => None,
        };
        let tables = Tables::new(dialect, schema.as_deref(), &prefix)?;
        // The programs of ShedLock on SQLite write another clock.
        let wire = if known == FILE {
            None
        } else {
            ShedLockTable::take(dialect, schema.as_deref(), &mut url)?
        };
        let create = match url.take("create").as_deref() {
            None | Some("yes") => true,
            Some("no") => false,
            Some(other) => return Err(invalid(format!("create={other:?}; yes or no is allowed"))),
        };
        let usual = if known == FILE { FILE_POOL } else { POOL };
        let pool = match url.take("pool") {
            None => usual,
            Some(text) => {
                let number = text.parse().ok().filter(|number| (3..=100).contains(number));
                number.ok_or_else(|| invalid(format!("pool={text:?}; 3 to 100 is allowed")))?
            }
        };
        url.finish(known)?;
        Ok(Self {
            target,
            #[cfg(feature = "postgres")]
            listen: Listen::Off,
            tables,
            pool,
            create,
            place: url.to_string(),
            wire,
        })
    }

    /// Refuses a URL that names another library's table, for a step that is about our own tables.
    pub(crate) fn refuse_wire(self) -> Result<Self> {
        match self.wire {
            None => Ok(self),
            Some(_) => Err(invalid(
                "wire=shedlock: this step is about the tables of Leasehold, and rows of ShedLock are never deleted; leave out wire"
                    .into(),
            )),
        }
    }
}

#[cfg(feature = "postgres")]
fn postgres(url: &mut StoreUrl) -> Result<(Target, Listen)> {
    use sqlx::postgres::{PgConnectOptions, PgSslMode};
    let server = Server::take(url, "postgres://user@host:5432/database")?;
    let mode = match server.tls() {
        "off" => PgSslMode::Disable,
        "prefer" => PgSslMode::Prefer,
        "require" => PgSslMode::Require,
        "verify-ca" => PgSslMode::VerifyCa,
        "verify" => PgSslMode::VerifyFull,
        other => return Err(wrong_tls(other)),
    };
    // Poolers refuse settings that they do not know, so the client sends none.
    let options = PgConnectOptions::new_without_pgpass()
        .port(server.port.unwrap_or(5432))
        .extra_float_digits(None)
        .statement_cache_capacity(0)
        .application_name("leasehold")
        .ssl_mode(mode);
    let options = at!(server, options, ssl_root_cert);
    let listen = match url.take("listen").as_deref() {
        None => Listen::Here,
        Some("off") => Listen::Off,
        Some(place) => match StoreUrl::host_and_port(place)? {
            (host, _) if host.is_empty() => {
                return Err(invalid("listen: off or HOST:PORT is allowed".into()));
            }
            (host, port) => Listen::At(host, port.unwrap_or(5432)),
        },
    };
    Ok((Target::Postgres(Box::new(options)), listen))
}

#[cfg(feature = "mysql")]
fn mysql(url: &mut StoreUrl) -> Result<Target> {
    use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
    let server = Server::take(url, "mysql://user@host:3306/database")?;
    let mode = match server.tls() {
        "off" => MySqlSslMode::Disabled,
        "prefer" => MySqlSslMode::Preferred,
        "require" => MySqlSslMode::Required,
        "verify-ca" => MySqlSslMode::VerifyCa,
        "verify" => MySqlSslMode::VerifyIdentity,
        other => return Err(wrong_tls(other)),
    };
    // ShedLock's clients have the zone of the server, and a TIMESTAMP column means the same only in one zone.
    let zone = match names_a_wire(url) {
        true => None,
        false => Some("+00:00".to_owned()),
    };
    let options = MySqlConnectOptions::new()
        .port(server.port.unwrap_or(3306))
        .statement_cache_capacity(0)
        .timezone(zone)
        .ssl_mode(mode);
    let options = at!(server, options, ssl_ca);
    Ok(Target::MySql(Box::new(options)))
}

#[cfg(feature = "sqlite")]
fn sqlite(url: &StoreUrl) -> Result<Target> {
    use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
    let example = "sqlite:/var/lib/my-service/locks.db";
    if url.path()? == ":memory:" {
        return Err(invalid(format!("sqlite::memory: is not a file; write memory: or {example}")));
    }
    let path = url.absolute_path(example)?;
    // Enough: after a power loss no holder runs, and the clock keeps tokens from going back.
    let options = SqliteConnectOptions::new()
        .filename(Path::new(&path))
        .create_if_missing(true)
        .synchronous(SqliteSynchronous::Normal)
        .statement_cache_capacity(0)
        .busy_timeout(BUSY);
    Ok(Target::Sqlite(Box::new(options)))
}

/// Returns true if a URL names a format of locks, so that [`connect_with_wire`](crate::connect_with_wire) opens it.
pub fn names_a_wire(url: &StoreUrl) -> bool {
    url.clone().take("wire").is_some()
}

fn invalid(what: String) -> Error {
    StoreUrl::invalid(what)
}

#[cfg(all(test, feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod tests {
    use leasehold_core::ErrorKind;

    use super::*;

    fn parse(url: &str) -> Result<Address> {
        Address::parse(StoreUrl::parse(url)?)
    }

    #[test]
    fn the_usual_urls_are_understood() {
        for url in [
            "postgres://localhost/app",
            "postgresql://u:p%40ss@127.0.0.1:5433/app?schema=locks&prefix=lh&listen=db:5432",
            "postgres:///app?socket=/run/postgresql&listen=off",
            "mysql://u:p@[::1]:3307/app?tls=require",
            "mariadb://u@db/app?pool=20",
            "sqlite:/var/lib/x.db",
            "sqlite:/var/lib/y.db?create=no",
        ] {
            parse(url).unwrap();
        }
        let address = parse("postgres://u:p%40s:s/@h:5433/app?schema=s&prefix=p").unwrap();
        assert_eq!(address.tables.locks, "s.p_locks");
    }

    #[test]
    fn wrong_ones_name_the_part_and_never_the_password() {
        for (url, part) in [
            ("postgres:localhost/app", "host is missing"),
            ("postgres://localhost", "database is missing"),
            ("mysql://h:port/app", "port"),
            ("postgres://h/app?prefix=a-b", "prefix"),
            ("postgres://h/app?schema=a.b", "schema"),
            ("postgres://h/app?tls=maybe", "tls"),
            ("postgres://h/app?tls-ca=/nope", "tls-ca"),
            ("postgres://h/app?tls=off&tls-ca=/dev/null", "tls=off"),
            ("postgres://h/app?sslmode=require&sslrootcert=/dev/null", "tls=verify-ca"),
            ("mysql://h/app?tls-cert=/dev/null", "tls-cert and tls-key"),
            ("mysql://h/app?schema=x", "\"schema\""),
            ("postgres://u:s3cret@h/app?password-file=/dev/null", "password-file"),
            ("postgres://u:s3cret@h/app?x=1", "\"x\""),
            ("postgres://u:s3cret@h/app?pool=0", "pool"),
            ("postgres://h/app?create=maybe", "create"),
            ("postgres://h/app?wire=shedlok", "did you mean \"shedlock\""),
            ("postgres://h/app?table=x", "table belongs"),
            ("mysql://h/app?columns=x", "columns belongs"),
            ("mysql://h/app?wire=shedlock&table=a-b", "a schema before"),
            ("mysql://h/app?wire=shedlock&columns=a,b,c", "four names"),
            ("sqlite:/x?wire=shedlock", "\"wire\""),
            ("sqlite:", "needs a path"),
            ("sqlite::memory:", "not a file"),
            ("sqlite:locks.db", "/locks.db"),
            ("sqlite:/x?schema=x", "\"schema\""),
        ] {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
            assert!(error.to_string().contains(part), "{url}: {error}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
    }

    #[test]
    fn the_error_for_an_unknown_option_names_those_of_this_engine_alone() {
        let said = |url: &str| parse(url).unwrap_err().to_string();
        assert!(
            said("postgres://h/app?x=1").contains("listen, password-file, pool, prefix, schema")
        );
        for option in ["schema", "listen"] {
            let error = said(&format!("mysql://h/app?{option}=x"));
            let (_, knows) = error.split_once("the options are").unwrap();
            assert!(knows.contains("prefix") && !knows.contains(option), "{error}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let address = parse("postgres://u:s3cret@h/app").unwrap();
        assert!(!format!("{address:?}").contains("s3cret"), "{address:?}");
    }
}
