//! From a store URL to where and as whom to connect.

#[cfg(any(feature = "mysql", feature = "postgres"))]
mod server;

use std::fmt;
#[cfg(feature = "sqlite")]
use std::path::Path;
#[cfg(feature = "sqlite")]
use std::time::Duration;

use leasehold_core::{Error, Result, StoreUrl};

use crate::dialect::Dialect;
use crate::tables::Tables;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use server::{Server, at, wrong_tls};

/// Where to connect, and which tables are ours.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) target: Target,
    pub(crate) listen: Listen,
    pub(crate) tables: Tables,
    /// How many connections at most.
    pub(crate) pool: usize,
    /// The first use may make the tables.
    pub(crate) create: bool,
    pub(crate) place: String,
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

/// A file, whatever its name is: device and number.
pub(crate) type FileId = (u64, u64);

impl Target {
    /// The file that the name leads to now, for engines that have one: another, once it was replaced.
    /// SQLite itself notices that only where it makes a journal for each change.
    pub(crate) fn file(&self) -> Option<FileId> {
        #[cfg(all(unix, feature = "sqlite"))]
        if let Self::Sqlite(options) = self {
            use std::os::unix::fs::MetadataExt;
            let found = std::fs::metadata(options.get_filename()).ok()?;
            return Some((found.dev(), found.ino()));
        }
        None
    }
}

#[cfg(all(unix, feature = "sqlite"))]
impl Target {
    /// Makes the file of SQLite, if it is absent, for this user alone; SQLite itself would let everybody
    /// read it. Where that fails, SQLite fails next, and says why.
    pub(crate) fn make_file(&self) {
        use std::os::unix::fs::OpenOptionsExt;
        if let Self::Sqlite(options) = self {
            let mut new = std::fs::File::options();
            let _ = new.write(true).create_new(true).mode(0o600).open(options.get_filename());
        }
    }
}

impl fmt::Debug for Target {
    /// It may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Target")
    }
}

/// How waiters are woken by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// Not at all: we look.
    Off,
    /// Over a connection to the same place.
    Here,
    /// Over a connection to another place, past a pooler.
    At(String, u16),
}

/// Each connection to MySQL begins with this. A transaction that we are cut off from ends with its
/// connection, and that ends by itself. One assignment of a statement sees those before it: MariaDB can
/// be told otherwise for all sessions, and then a taken lock would look free.
#[cfg(feature = "mysql")]
pub(crate) const MYSQL_SESSION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SET SESSION innodb_lock_wait_timeout = 2, SESSION lock_wait_timeout = 2, SESSION wait_timeout = 120, \
    SESSION autocommit = 1, SESSION sql_mode = REPLACE(@@sql_mode, 'SIMULTANEOUS_ASSIGNMENT', '')";

const NETWORK: &[&str] = &[
    "create",
    "listen",
    "password-file",
    "pool",
    "prefix",
    "schema",
    "socket",
    "sslmode",
    "sslrootcert",
    "tls",
    "tls-ca",
    "tls-cert",
    "tls-key",
    "user",
];
const FILE: &[&str] = &["create", "pool", "prefix"];

/// Connections at most, unless the URL says otherwise.
const POOL: usize = 8;
/// The same for files, where one at a time writes.
const FILE_POOL: usize = 3;
/// How long a file that somebody else has locked is waited for.
#[cfg(feature = "sqlite")]
const BUSY: Duration = crate::dialect::LOCK;

impl Address {
    /// Understands `postgres://[user[:password]@]host[:port]/database`, `mysql://` (`mariadb://`)
    /// alike, and `sqlite:/path/to/file`.
    pub(crate) fn parse(mut url: StoreUrl) -> Result<Self> {
        match url.scheme() {
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => {
                let (target, listen) = postgres(&mut url)?;
                Self::new(url, Dialect::Postgres, target, listen, NETWORK)
            }
            #[cfg(feature = "mysql")]
            "mysql" | "mariadb" => {
                let target = mysql(&mut url)?;
                Self::new(url, Dialect::MySql, target, Listen::Off, NETWORK)
            }
            #[cfg(feature = "sqlite")]
            "sqlite" => {
                let target = sqlite(&url)?;
                Self::new(url, Dialect::Sqlite, target, Listen::Off, FILE)
            }
            scheme => Err(invalid(format!("{scheme}: is not built in"))),
        }
    }

    fn new(
        mut url: StoreUrl,
        dialect: Dialect,
        target: Target,
        listen: Listen,
        known: &[&str],
    ) -> Result<Self> {
        let prefix = url.take("prefix").unwrap_or_else(|| "leasehold".to_owned());
        let schema = match dialect.notifies() {
            true => url.take("schema"),
            false => None,
        };
        let tables = Tables::new(dialect, schema.as_deref(), &prefix)?;
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
        Ok(Self { target, listen, tables, pool, create, place: url.to_string() })
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
    // Poolers refuse settings that they do not know, so there are none.
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
                return Err(invalid("listen; off or HOST:PORT is allowed".into()));
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
    let options = MySqlConnectOptions::new()
        .port(server.port.unwrap_or(3306))
        .statement_cache_capacity(0)
        .ssl_mode(mode);
    let options = at!(server, options, ssl_ca);
    Ok(Target::MySql(Box::new(options)))
}

#[cfg(feature = "sqlite")]
fn sqlite(url: &StoreUrl) -> Result<Target> {
    use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
    let path = url.path()?;
    if path.is_empty() || path.contains(":memory:") {
        return Err(invalid("no file; write sqlite:/var/lib/my-service/locks.db".into()));
    }
    // After a loss of power no holder is alive, and the clock keeps tokens from going back.
    let options = SqliteConnectOptions::new()
        .filename(Path::new(&path))
        .create_if_missing(true)
        .synchronous(SqliteSynchronous::Normal)
        .statement_cache_capacity(0)
        .busy_timeout(BUSY);
    Ok(Target::Sqlite(Box::new(options)))
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
            "sqlite:rel.db?create=no",
        ] {
            parse(url).unwrap();
        }
        let address = parse("postgres://u:p%40s:s/@h:5433/app?schema=s&prefix=p").unwrap();
        assert_eq!(address.tables.locks, "s.p_locks");
    }

    #[test]
    fn wrong_ones_name_the_part_and_never_the_password() {
        for (url, part) in [
            ("postgres:localhost/app", "no host"),
            ("postgres://localhost", "no database"),
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
            ("sqlite:", "no file"),
            ("sqlite:/x?schema=x", "\"schema\""),
        ] {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
            assert!(error.to_string().contains(part), "{url}: {error}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let address = parse("postgres://u:s3cret@h/app").unwrap();
        assert!(!format!("{address:?}").contains("s3cret"), "{address:?}");
    }
}
