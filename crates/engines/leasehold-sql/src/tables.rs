//! The tables: their names, how they are created, and which version of them this program supports.

use leasehold_core::proto::read_write::Mode;
use leasehold_core::{Error, ErrorKind, Result};

use crate::dialect::{Dialect, Packet};

/// The version of the tables.
pub(crate) const VERSION: i64 = 1;
/// The version of the functions; functions of another version have other names.
const ROUTINES: u32 = 5;

/// The names of the tables in statements.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    pub(crate) dialect: Dialect,
    /// One row for each lock: its holder and its tokens.
    pub(crate) locks: String,
    /// One row for each attempt that waits to write. Clients that know no readers hand the lock on
    /// to these alone.
    pub(crate) waiters: String,
    /// One row for each attempt that waits to read.
    pub(crate) read_waiters: String,
    /// One row for each client that reads, and one for each lock about its last read phase.
    pub(crate) readers: String,
    /// One row for each semaphore and each latch: its record in bytes. It counts only while the row
    /// of the name says that it is one.
    pub(crate) records: String,
    /// One row for each permit of a semaphore.
    pub(crate) permits: String,
    /// One row for each client that observes a name, if the engine notifies clients.
    pub(crate) observers: String,
    /// Attempts that ended while a request of them may have been on its way.
    pub(crate) ended: String,
    /// One row: the version.
    pub(crate) version: String,
    /// The prefix of function names, if the engine has functions.
    routines: Option<String>,
    /// The prefix of index names.
    prefix: String,
}

impl Tables {
    /// Creates the names with `prefix`, in a schema or in the connection's default.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for letters that a name may not contain.
    pub(crate) fn new(dialect: Dialect, schema: Option<&str>, prefix: &str) -> Result<Self> {
        for (option, name) in [("prefix", Some(prefix)), ("schema", schema)] {
            let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            let fits = |name: &str| (1..=40).contains(&name.len()) && name.chars().all(allowed);
            if let Some(name) = name.filter(|name| !fits(name)) {
                let message =
                    format!("store URL: {option} {name:?}; 1 to 40 of a-z, 0-9 and _ are allowed");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        // A channel name, at most 63 bytes, contains both, a suffix, and a client.
        if let Some(schema) = schema.filter(|schema| schema.len() + prefix.len() > 39) {
            let message = format!(
                "store URL: schema {schema:?} and prefix {prefix:?}; 39 letters are allowed for both"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let place = schema.map(|schema| format!("{schema}.")).unwrap_or_default();
        let table = |what: &str| format!("{place}{prefix}_{what}");
        Ok(Self {
            dialect,
            locks: table("locks"),
            waiters: table("waiters"),
            read_waiters: table("read_waiters"),
            readers: table("readers"),
            records: table("records"),
            permits: table("permits"),
            observers: table("observers"),
            ended: table("ended"),
            version: table("version"),
            routines: dialect.plans_anew().then(|| table("")),
            prefix: prefix.to_owned(),
        })
    }

    /// Returns the statements that create what is missing. They may be run again at any time.
    pub(crate) fn create(&self) -> Vec<String> {
        let Self { dialect, locks, waiters, read_waiters, readers, .. } = self;
        let Self { records, permits, observers, ended, version, prefix, .. } = self;
        let (key, text) = dialect.bytes_types();
        let options = dialect.table_options();
        let table = |name: &str, columns: &str| {
            format!("CREATE TABLE IF NOT EXISTS {name} (\n{columns}\n){options}")
        };
        let index = |table: &str, what: &str, columns: &str| {
            format!("CREATE INDEX IF NOT EXISTS {prefix}_{what} ON {table} ({columns})")
        };
        let waiting = format!(
            "  attempt {key} NOT NULL PRIMARY KEY,\n  name {key} NOT NULL,\n  \
             ticket BIGINT NOT NULL,\n  client BIGINT NOT NULL,\n  holder BIGINT NOT NULL,\n  \
             ttl_us BIGINT NOT NULL,\n  tokens BIGINT NOT NULL,\n  person {text} NOT NULL,\n  \
             asked_us BIGINT NOT NULL,\n  seen_us BIGINT NOT NULL"
        );
        let of_waiters = [("line", "name, ticket"), ("client", "client"), ("holder", "holder")];
        let mut made = vec![table(
            locks,
            &format!(
                "  name {key} NOT NULL PRIMARY KEY,\n  stamp BIGINT NOT NULL,\n  \
                 state BIGINT NOT NULL,\n  attempt {key} NOT NULL,\n  person {text} NOT NULL,\n  \
                 base BIGINT NOT NULL,\n  top BIGINT NOT NULL,\n  lost BIGINT NOT NULL,\n  \
                 until_us BIGINT NOT NULL,\n  since_us BIGINT NOT NULL,\n  \
                 confirmed BIGINT NOT NULL,\n  line BIGINT NOT NULL,\n  \
                 ended_us BIGINT NOT NULL,\n  ticket BIGINT NOT NULL"
            ),
        )];
        let mut ending = format!(
            "  attempt {key} NOT NULL PRIMARY KEY,\n  name {key} NOT NULL,\n  \
             until_us BIGINT NOT NULL"
        );
        let by_name = ("ended_name", "name, until_us");
        // MySQL has no CREATE INDEX IF NOT EXISTS.
        let inside = dialect.engine() == "mysql";
        if inside {
            ending += &format!(",\n  INDEX {prefix}_{} ({})", by_name.0, by_name.1);
        }
        for (name, what) in [(waiters, "waiters"), (read_waiters, "read_waiters")] {
            let indexes = of_waiters.map(|(of, columns)| (format!("{what}_{of}"), columns));
            let mut columns = waiting.clone();
            if inside {
                for (what, of) in &indexes {
                    columns += &format!(",\n  INDEX {prefix}_{what} ({of})");
                }
            }
            made.push(table(name, &columns));
            if !inside {
                made.extend(indexes.iter().map(|(what, columns)| index(name, what, columns)));
            }
        }
        let mut reading = format!(
            "  name {key} NOT NULL,\n  attempt {key} NOT NULL,\n  base BIGINT NOT NULL,\n  \
             lost BIGINT NOT NULL,\n  until_us BIGINT NOT NULL,\n  confirmed BIGINT NOT NULL,\n  \
             client BIGINT NOT NULL,\n  person {text} NOT NULL,\n  PRIMARY KEY (name, attempt)"
        );
        let of_readers = [("readers_until", "name, until_us"), ("readers_client", "client")];
        if inside {
            for (what, columns) in of_readers {
                reading += &format!(",\n  INDEX {prefix}_{what} ({columns})");
            }
        }
        made.push(table(readers, &reading));
        if !inside {
            made.extend(of_readers.map(|(what, columns)| index(readers, what, columns)));
        }
        let long = dialect.long_bytes_type();
        made.push(table(
            records,
            &format!(
                "  name {key} NOT NULL PRIMARY KEY,\n  until_us BIGINT NOT NULL,\n  \
                 data {long} NOT NULL"
            ),
        ));
        made.push(table(
            permits,
            &format!(
                "  name {key} NOT NULL,\n  attempt {key} NOT NULL,\n  base BIGINT NOT NULL,\n  \
                 top BIGINT NOT NULL,\n  slots {text} NOT NULL,\n  until_us BIGINT NOT NULL,\n  \
                 confirmed BIGINT NOT NULL,\n  person {text} NOT NULL,\n  \
                 PRIMARY KEY (name, attempt)"
            ),
        ));
        if dialect.notifies() {
            made.push(table(
                observers,
                &format!(
                    "  name {key} NOT NULL,\n  channel TEXT NOT NULL,\n  until_us BIGINT NOT NULL,\n  \
                     PRIMARY KEY (name, channel)"
                ),
            ));
        }
        made.push(table(ended, &ending));
        if !inside {
            made.push(index(ended, by_name.0, by_name.1));
        }
        made.push(table(version, "  version BIGINT NOT NULL PRIMARY KEY"));
        made.push(format!(
            "INSERT INTO {version} (version) SELECT {VERSION} FROM (SELECT 1 AS one) AS here \
             WHERE NOT EXISTS (SELECT 1 FROM {version})"
        ));
        made
    }

    /// Returns the table of the attempts that wait in this mode.
    pub(crate) fn queue(&self, mode: Mode) -> &str {
        match mode {
            Mode::Read => &self.read_waiters,
            Mode::Write => &self.waiters,
        }
    }

    /// Returns all of them as one packet.
    pub(crate) fn making(&self) -> Packet {
        self.dialect.atomic(&self.create())
    }

    /// Returns the name of a function of the database, if the engine has functions.
    pub(crate) fn routine(&self, what: &str) -> Option<String> {
        self.routines.as_ref().map(|before| format!("{before}{what}_{ROUTINES}"))
    }

    /// Returns the statement that reads the version.
    pub(crate) fn ask_version(&self) -> String {
        format!("SELECT MAX(version) FROM {}", self.version)
    }

    /// Refuses tables of a newer program.
    pub(crate) fn check(&self, version: i64) -> Result<()> {
        match version == VERSION {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Foreign,
                format!(
                    "the tables are of version {version} (see {}), this program supports version \
                     {VERSION}; use a newer program, or another prefix=NAME",
                    self.version
                ),
            )),
        }
    }
}
