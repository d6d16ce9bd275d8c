//! The SQL that differs between the three engines.
//!
//! Statements contain no parameters: each value is written as a number, or as bytes in hexadecimal.
//! So a packet of several statements is one message and one round trip, and nothing is prepared
//! that a pooler would lose.

use std::fmt::Write;
use std::time::Duration;

// The clocks of the databases: microseconds since the Unix epoch, the same throughout a statement.
#[cfg(feature = "postgres")]
pub(crate) const POSTGRES_NOW_US: &str =
    "(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000)::BIGINT";
#[cfg(feature = "mysql")]
pub(crate) const MYSQL_NOW_US: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
#[cfg(feature = "sqlite")]
pub(crate) const SQLITE_NOW_US: &str =
    "(CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000)";

/// One of the SQL engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres,
    /// MySQL and MariaDB.
    #[cfg(feature = "mysql")]
    MySql,
    /// SQLite.
    #[cfg(feature = "sqlite")]
    Sqlite,
}

impl Dialect {
    /// Returns the engine's name, as in its URL scheme.
    pub(crate) fn engine(self) -> &'static str {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => "postgres",
            #[cfg(feature = "mysql")]
            Self::MySql => "mysql",
            #[cfg(feature = "sqlite")]
            Self::Sqlite => "sqlite",
        }
    }

    /// Returns the database's clock: microseconds since the Unix epoch, the same throughout a
    /// statement.
    pub(crate) fn now(self) -> &'static str {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => POSTGRES_NOW_US,
            #[cfg(feature = "mysql")]
            Self::MySql => MYSQL_NOW_US,
            #[cfg(feature = "sqlite")]
            Self::Sqlite => SQLITE_NOW_US,
        }
    }

    /// Writes bytes as a value.
    pub(crate) fn bytes(self, bytes: &[u8]) -> String {
        let mut hex = String::with_capacity(2 * bytes.len() + 16);
        let (before, after) = match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => ("decode('", "', 'hex')"),
            #[cfg(feature = "mysql")]
            Self::MySql => ("x'", "'"),
            #[cfg(feature = "sqlite")]
            Self::Sqlite => ("x'", "'"),
        };
        hex.push_str(before);
        for byte in bytes {
            let _ = write!(hex, "{byte:02x}");
        }
        hex.push_str(after);
        hex
    }

    /// Returns the function for the larger of two values.
    pub(crate) fn greatest(self) -> &'static str {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => "GREATEST",
            #[cfg(feature = "mysql")]
            Self::MySql => "GREATEST",
            #[cfg(feature = "sqlite")]
            Self::Sqlite => "MAX",
        }
    }

    /// Returns the name of the existing row in a statement that inserts one if there is none.
    pub(crate) fn old_row(self, table: &str) -> &str {
        match self {
            #[cfg(feature = "mysql")]
            Self::MySql => table,
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => {
                let _ = table;
                "l"
            }
        }
    }

    /// Names a table in a statement.
    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    pub(crate) fn called(self, name: &str) -> String {
        match self {
            #[cfg(feature = "mysql")]
            Self::MySql => String::new(),
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => format!(" AS {name}"),
        }
    }

    /// Returns the value that a column would have in a new row, if a row exists already.
    pub(crate) fn new_value(self, column: &str) -> String {
        match self {
            #[cfg(feature = "mysql")]
            Self::MySql => format!("VALUES({column})"),
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => format!("excluded.{column}"),
        }
    }

    /// Makes the reply to a statement contain a number, if the statement cannot return it.
    pub(crate) fn told(self, value: &str) -> String {
        match self {
            #[cfg(feature = "mysql")]
            Self::MySql => format!("LAST_INSERT_ID({value})"),
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => value.to_owned(),
        }
    }

    /// Builds a statement that removes the rows of a table that match the condition: at most
    /// `most`, those with the lowest `order` first. `key` is the key of the table.
    pub(crate) fn delete_some(
        self,
        table: &str,
        key: &str,
        condition: &str,
        order: &str,
        most: u64,
    ) -> String {
        let few = format!("{condition} ORDER BY {order} LIMIT {most}");
        match self {
            #[cfg(feature = "mysql")]
            Self::MySql => format!("DELETE FROM {table} WHERE {few}"),
            // The others have no limit here. The condition occurs twice: a row may change in between.
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => format!(
                "DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE {few}) \
                 AND {condition}"
            ),
        }
    }

    /// Builds statements that are done completely or not at all. The transaction begins and ends
    /// within the packet: none stays open if the client disappears.
    ///
    /// PostgreSQL treats a packet as one transaction, and this sets how long it waits for a row
    /// that another transaction has locked. The other engines have that limit from their
    /// connection.
    pub(crate) fn atomic(self, statements: &[String]) -> Packet {
        self.atomic_within(statements, LOCK)
    }

    /// Builds the same as [`atomic`](Self::atomic), with this limit for locked rows if the engine
    /// supports it.
    pub(crate) fn atomic_within(self, statements: &[String], lock: Duration) -> Packet {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => {
                let (lock_ms, joined) = (lock.as_millis().max(1), statements.join(";\n"));
                let text = format!("SET LOCAL lock_timeout = {lock_ms};\n{joined}");
                Packet { text, skip: 1, once: false }
            }
            #[cfg(feature = "mysql")]
            Self::MySql => {
                let _ = lock;
                let joined = statements.join(";\n");
                let text = format!("START TRANSACTION;\n{joined};\nCOMMIT");
                Packet { text, skip: 1, once: false }
            }
            #[cfg(feature = "sqlite")]
            Self::Sqlite => {
                let _ = lock;
                let Packet { text, skip, once } = self.begin(statements);
                Packet { text: format!("{text};\nCOMMIT;\n{BUSY}"), skip, once }
            }
        }
    }

    /// Builds statements of which at most one writes.
    pub(crate) fn plain(self, statements: &[String]) -> Packet {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => self.atomic(statements),
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => Packet { text: statements.join(";\n"), skip: 0, once: false },
        }
    }

    /// Builds statements that only read. SQLite would lock the file for each of them anew.
    pub(crate) fn reading(self, statements: &[String]) -> Packet {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite => {
                let text = format!("BEGIN;\n{};\nCOMMIT", statements.join(";\n"));
                Packet { text, skip: 1, once: false }
            }
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => self.plain(statements),
        }
    }

    /// Returns true if all rows have one lock. A step that has lost a round then locks them before it
    /// reads: it would wait for that lock anyway before it writes, and meanwhile other clients would
    /// change the row each time.
    pub(crate) fn is_file(self) -> bool {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite => true,
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => false,
        }
    }

    /// Builds statements that only read, and begin a write transaction that [`end`](Self::end)
    /// ends. Only for a [file](Self::is_file).
    pub(crate) fn begin(self, statements: &[String]) -> Packet {
        let joined = statements.join(";\n");
        match self {
            // The commit waits for readers, which finish soon. Its failure would undo the rest.
            #[cfg(feature = "sqlite")]
            Self::Sqlite => {
                let lock_ms = LOCK.as_millis();
                let text = format!("BEGIN IMMEDIATE;\n{BUSY_TIMEOUT} = {lock_ms};\n{joined}");
                Packet { text, skip: 2, once: false }
            }
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => Packet { text: joined, skip: 0, once: false },
        }
    }

    /// Builds statements that end such a transaction; without statements, they roll it back.
    pub(crate) fn end(self, statements: &[String]) -> Packet {
        let joined = statements.join(";\n");
        let text = match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite if statements.is_empty() => format!("ROLLBACK;\n{BUSY}"),
            #[cfg(feature = "sqlite")]
            Self::Sqlite => format!("{joined};\nCOMMIT;\n{BUSY}"),
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => joined,
        };
        Packet { text, skip: 0, once: false }
    }

    /// Returns the type of short byte strings that may be keys, and of longer ones.
    pub(crate) fn bytes_types(self) -> (&'static str, &'static str) {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => ("BYTEA", "BYTEA"),
            #[cfg(feature = "mysql")]
            Self::MySql => ("VARBINARY(512)", "VARBINARY(8192)"),
            #[cfg(feature = "sqlite")]
            Self::Sqlite => ("BLOB", "BLOB"),
        }
    }

    /// Returns the type of byte strings of any length.
    pub(crate) fn long_bytes_type(self) -> &'static str {
        match self {
            #[cfg(feature = "mysql")]
            Self::MySql => "LONGBLOB",
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => self.bytes_types().1,
        }
    }

    /// Returns the options after the columns of a table.
    pub(crate) fn table_options(self) -> &'static str {
        match self {
            // Leave space on each page for the next version of a row, so that no index changes.
            #[cfg(feature = "postgres")]
            Self::Postgres => " WITH (fillfactor = 50)",
            #[cfg(feature = "mysql")]
            Self::MySql => " ENGINE = InnoDB",
            #[cfg(feature = "sqlite")]
            Self::Sqlite => " WITHOUT ROWID",
        }
    }

    /// Returns true if the engine plans a text statement each time, at some cost.
    pub(crate) fn plans_anew(self) -> bool {
        // It is the same engine as the one that notifies.
        self.notifies()
    }

    /// Returns true if one packet of statements queues for a contended lock, or hands it on.
    pub(crate) fn hands_on_in_a_packet(self) -> bool {
        match self {
            #[cfg(feature = "mysql")]
            Self::MySql => true,
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => false,
        }
    }

    /// Returns true if the server notifies waiters.
    pub(crate) fn notifies(self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => true,
            #[cfg(feature = "mysql")]
            Self::MySql => false,
            #[cfg(feature = "sqlite")]
            Self::Sqlite => false,
        }
    }
}

/// One message to the database: some statements.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) text: String,
    /// The number of replies before the reply to the first given statement.
    pub(crate) skip: usize,
    /// A repetition would have an effect: the packet is never sent again automatically.
    pub(crate) once: bool,
}

#[cfg(feature = "sqlite")]
const BUSY_TIMEOUT: &str = "PRAGMA busy_timeout";
/// Sets how long SQLite itself waits for a locked file, in milliseconds. Its pauses grow to 100 ms,
/// so that it would miss the moments between the writes of a busy program for seconds. Until this
/// time they are 1, 2 and 5 ms; then the pool tries again.
#[cfg(feature = "sqlite")]
pub(crate) const BUSY: &str = "PRAGMA busy_timeout = 8";

/// How long to wait for another transaction's lock on a row.
pub(crate) const LOCK: Duration = Duration::from_secs(2);
