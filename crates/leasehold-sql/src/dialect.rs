//! What the three engines write differently; everything else is one SQL for all of them.
//!
//! Statements hold no parameters: every value in them is a number or bytes in hexadecimal, written
//! here. So a packet of several statements is one message and one round trip, and nothing is
//! prepared that a pooler would lose.

use std::fmt::Write;
use std::time::Duration;

use crate::rows::Dialect as Rows;

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
    /// The engine's name, as in its URL scheme.
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

    /// The database's clock: microseconds since the Unix epoch, the same throughout a statement.
    pub(crate) fn now(self) -> &'static str {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => <sqlx::Postgres as Rows>::NOW_US,
            #[cfg(feature = "mysql")]
            Self::MySql => <sqlx::MySql as Rows>::NOW_US,
            #[cfg(feature = "sqlite")]
            Self::Sqlite => <sqlx::Sqlite as Rows>::NOW_US,
        }
    }

    /// Bytes as a value.
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

    /// The larger of two values.
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

    /// What the row that is there is called in a statement that makes one if there is none.
    pub(crate) fn old_row(self, table: &str) -> &str {
        match self {
            #[cfg(feature = "mysql")]
            Self::MySql => table,
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => "l",
        }
    }

    /// Gives a table that name in a statement.
    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    pub(crate) fn called(self, name: &str) -> String {
        match self {
            #[cfg(feature = "mysql")]
            Self::MySql => String::new(),
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => format!(" AS {name}"),
        }
    }

    /// The value that a column would have in a new row, where there is one already.
    pub(crate) fn new_value(self, column: &str) -> String {
        match self {
            #[cfg(feature = "mysql")]
            Self::MySql => format!("VALUES({column})"),
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => format!("excluded.{column}"),
        }
    }

    /// A number that the reply to the statement is to say, where it cannot be asked to return it.
    pub(crate) fn told(self, value: &str) -> String {
        match self {
            #[cfg(feature = "mysql")]
            Self::MySql => format!("LAST_INSERT_ID({value})"),
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => value.to_owned(),
        }
    }

    /// Removes the rows of a table that the condition is true for, those with the lowest `order` first, `most`
    /// of them at most; `key` is the table's key.
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
            // The others know no limit here. The condition stands twice: a row may change in between.
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => format!(
                "DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {table} WHERE {few}) \
                 AND {condition}"
            ),
        }
    }

    /// Statements that are done as a whole or not at all. The transaction begins and ends within
    /// the packet: none stays open while nobody hears of us.
    ///
    /// PostgreSQL takes a packet for one transaction by itself, and is told here how long to wait
    /// for a row that somebody else has locked; the others know it from their connection.
    pub(crate) fn atomic(self, statements: &[String]) -> Packet {
        self.atomic_within(statements, LOCK)
    }

    /// The same, with a time of its own for rows that are locked, where it can be told.
    pub(crate) fn atomic_within(self, statements: &[String], lock: Duration) -> Packet {
        let joined = statements.join(";\n");
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => {
                let lock_ms = lock.as_millis().max(1);
                let text = format!("SET LOCAL lock_timeout = {lock_ms};\n{joined}");
                Packet { text, skip: 1, once: false }
            }
            #[cfg(feature = "mysql")]
            Self::MySql => {
                let _ = lock;
                let text = format!("START TRANSACTION;\n{joined};\nCOMMIT");
                Packet { text, skip: 1, once: false }
            }
            #[cfg(feature = "sqlite")]
            Self::Sqlite => {
                let _ = lock;
                let text = format!("BEGIN IMMEDIATE;\n{joined};\nCOMMIT");
                Packet { text, skip: 1, once: false }
            }
        }
    }

    /// Statements of which one writes at most.
    pub(crate) fn plain(self, statements: &[String]) -> Packet {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => self.atomic(statements),
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => Packet { text: statements.join(";\n"), skip: 0, once: false },
        }
    }

    /// The type of short byte strings that may be keys, and of longer ones.
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

    /// What stands after the columns of a table.
    pub(crate) fn table_options(self) -> &'static str {
        match self {
            // Room on each page for the next version of a row, so that no index is touched.
            #[cfg(feature = "postgres")]
            Self::Postgres => " WITH (fillfactor = 50)",
            #[cfg(feature = "mysql")]
            Self::MySql => " ENGINE = InnoDB",
            #[cfg(feature = "sqlite")]
            Self::Sqlite => " WITHOUT ROWID",
        }
    }

    /// True where a statement that comes as text is planned anew each time, at some cost.
    pub(crate) fn plans_anew(self) -> bool {
        // The same engine as the one that tells.
        self.notifies()
    }

    /// True where waiters are told by the server.
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
    /// Replies before the one to the first of the statements that were given.
    pub(crate) skip: usize,
    /// Done a second time, it does something: it is never sent again by itself.
    pub(crate) once: bool,
}

/// How long somebody else's lock on a row of ours is waited for.
pub(crate) const LOCK: Duration = Duration::from_secs(2);
