//! The SQL that differs between the databases.

use std::fmt::Debug;
use std::pin::Pin;

use leasehold_core::Result;
use sqlx::{Arguments, Database, Row};

use super::failure::failure;

/// PostgreSQL, MySQL (and MariaDB) or SQLite; other crates cannot implement it.
pub trait Engine: RowDialect {}

/// A statement that runs. It is boxed, since Rust before 1.95 cannot prove that an unboxed future of this trait is `Send`
/// ([rust 100013](https://github.com/rust-lang/rust/issues/100013)).
pub(crate) type Running<'c, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'c>>;

/// The parts of an engine that a program does not need.
pub trait RowDialect: Database + Debug {
    /// The quote around names.
    const QUOTE: char;
    /// One transaction writes at a time. There are no row locks, and a transaction that has read
    /// cannot write after another one has written.
    const ONE_WRITER: bool;
    /// With one writer: a statement that makes the transaction the writer and changes nothing.
    const TAKE_TURN: &'static str = "";
    /// Whether `UPDATE` and `INSERT` support `RETURNING`.
    const RETURNING: bool;
    /// The end of an `INSERT` into a fence table whose row may exist already.
    const OR_RAISE: &'static str;
    /// The type of a resource in a fence table: equal only if all bytes are.
    const RESOURCE: &'static str;
    /// The type of the id of a row that is saved once: equal only if all bytes are.
    const ID: &'static str = "TEXT";
    /// The type for any bytes.
    const BYTES: &'static str;
    /// The end of an `INSERT` that does not change existing rows.
    const OR_KEEP: &'static str = " ON CONFLICT (id) DO NOTHING";
    /// Whether a value can be an array.
    const ARRAYS: bool = false;
    /// The options after the columns of a table: an engine with transactions, if there are others.
    const TABLE_OPTIONS: &'static str = "";
    /// The type of a column that numbers the rows, and never uses a number twice.
    const SERIAL: &'static str;
    /// An index is declared among the columns of its table: there is no `CREATE INDEX IF NOT
    /// EXISTS`.
    const INDEX_INSIDE: bool = false;
    /// The database's clock: microseconds since the Unix epoch, the same throughout a statement.
    const NOW_US: &'static str;
    /// Reads how long a statement waits for a lock, in units of [`PATIENCE_MS`](Self::PATIENCE_MS).
    const PATIENCE: &'static str;
    /// See [`PATIENCE`](Self::PATIENCE).
    const PATIENCE_MS: u64;

    /// Returns the statement that sets it.
    fn set_patience(units: i64) -> String;

    /// Runs a statement; returns how many rows it matched.
    fn run<'c, 'q: 'c>(
        connection: &'c mut Self::Connection,
        sql: String,
        arguments: Self::Arguments<'q>,
        persistent: bool,
    ) -> Running<'c, u64>;

    /// Runs a statement; returns its rows.
    fn rows<'c, 'q: 'c>(
        connection: &'c mut Self::Connection,
        sql: String,
        arguments: Self::Arguments<'q>,
        persistent: bool,
    ) -> Running<'c, Vec<Self::Row>>;

    /// Adds an integer to the values of a statement.
    fn add(arguments: &mut Self::Arguments<'_>, value: i64) -> Result<()>;

    /// Adds a text.
    fn add_text<'q>(arguments: &mut Self::Arguments<'q>, value: &'q str) -> Result<()>;

    /// Adds bytes.
    fn add_bytes<'q>(arguments: &mut Self::Arguments<'q>, value: &'q [u8]) -> Result<()>;

    /// Adds an array of texts, if the engine has [`ARRAYS`](Self::ARRAYS).
    fn add_texts(_: &mut Self::Arguments<'_>, _: Vec<&str>) -> Result<()> {
        Ok(())
    }

    /// Adds an array of bytes, if the engine has [`ARRAYS`](Self::ARRAYS).
    fn add_all_bytes(_: &mut Self::Arguments<'_>, _: Vec<&[u8]>) -> Result<()> {
        Ok(())
    }

    /// Returns an integer of a row, by the position of its column.
    fn integer(row: &Self::Row, column: usize) -> Result<Option<i64>>;

    /// Returns a text of a row, or bytes that are text, by the position of its column.
    fn text(row: &Self::Row, column: usize) -> Result<String>;
}

/// The methods that are the same for all engines; the compiler checks them for each.
macro_rules! talk {
    () => {
        fn run<'c, 'q: 'c>(
            connection: &'c mut Self::Connection,
            sql: String,
            arguments: Self::Arguments<'q>,
            persistent: bool,
        ) -> Running<'c, u64> {
            Box::pin(async move {
                let query = sqlx::query_with::<Self, _>(&sql, arguments).persistent(persistent);
                Ok(query.execute(connection).await.map_err(failure)?.rows_affected())
            })
        }

        fn rows<'c, 'q: 'c>(
            connection: &'c mut Self::Connection,
            sql: String,
            arguments: Self::Arguments<'q>,
            persistent: bool,
        ) -> Running<'c, Vec<Self::Row>> {
            Box::pin(async move {
                let query = sqlx::query_with::<Self, _>(&sql, arguments).persistent(persistent);
                query.fetch_all(connection).await.map_err(failure)
            })
        }

        fn add(arguments: &mut Self::Arguments<'_>, value: i64) -> Result<()> {
            Arguments::add(arguments, value).map_err(sqlx::Error::Encode).map_err(failure)
        }

        fn add_text<'q>(arguments: &mut Self::Arguments<'q>, value: &'q str) -> Result<()> {
            Arguments::add(arguments, value).map_err(sqlx::Error::Encode).map_err(failure)
        }

        fn add_bytes<'q>(arguments: &mut Self::Arguments<'q>, value: &'q [u8]) -> Result<()> {
            Arguments::add(arguments, value).map_err(sqlx::Error::Encode).map_err(failure)
        }

        fn integer(row: &Self::Row, column: usize) -> Result<Option<i64>> {
            row.try_get(column).map_err(failure)
        }

        fn text(row: &Self::Row, column: usize) -> Result<String> {
            let bytes: Vec<u8> = row.try_get_unchecked(column).map_err(failure)?;
            let decode = |error| failure(sqlx::Error::Decode(Box::new(error)));
            String::from_utf8(bytes).map_err(decode)
        }
    };
}

#[cfg(feature = "postgres")]
impl Engine for sqlx::Postgres {}

#[cfg(feature = "postgres")]
impl RowDialect for sqlx::Postgres {
    const QUOTE: char = '"';
    const ONE_WRITER: bool = false;
    const RETURNING: bool = true;
    const OR_RAISE: &'static str = OR_RAISE;
    const RESOURCE: &'static str = "TEXT";
    const SERIAL: &'static str = "BIGSERIAL PRIMARY KEY";
    const NOW_US: &'static str = crate::dialect::POSTGRES_NOW_US;
    const BYTES: &'static str = "BYTEA";
    const ARRAYS: bool = true;
    // PostgreSQL shows it with a unit, like an interval.
    const PATIENCE: &'static str =
        "SELECT (EXTRACT(EPOCH FROM current_setting('lock_timeout')::interval) * 1000)::bigint";
    const PATIENCE_MS: u64 = 1;

    fn set_patience(units: i64) -> String {
        format!("SELECT set_config('lock_timeout', '{units}', true)")
    }

    fn add_texts(arguments: &mut Self::Arguments<'_>, values: Vec<&str>) -> Result<()> {
        Arguments::add(arguments, values).map_err(sqlx::Error::Encode).map_err(failure)
    }

    fn add_all_bytes(arguments: &mut Self::Arguments<'_>, values: Vec<&[u8]>) -> Result<()> {
        Arguments::add(arguments, values).map_err(sqlx::Error::Encode).map_err(failure)
    }

    talk!();
}

#[cfg(feature = "mysql")]
impl Engine for sqlx::MySql {}

#[cfg(feature = "mysql")]
impl RowDialect for sqlx::MySql {
    const QUOTE: char = '`';
    const ONE_WRITER: bool = false;
    const RETURNING: bool = false;
    const OR_RAISE: &'static str =
        " ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))";
    // A text would be compared without its case and trailing blanks.
    const RESOURCE: &'static str = "VARBINARY(2048)";
    const SERIAL: &'static str = "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY";
    const INDEX_INSIDE: bool = true;
    const NOW_US: &'static str = crate::dialect::MYSQL_NOW_US;
    const ID: &'static str = "VARBINARY(512)";
    const BYTES: &'static str = "LONGBLOB";
    // `INSERT IGNORE` would also truncate long values.
    const OR_KEEP: &'static str = " ON DUPLICATE KEY UPDATE id = id";
    const TABLE_OPTIONS: &'static str = " ENGINE = InnoDB";
    const PATIENCE: &'static str = "SELECT CAST(@@innodb_lock_wait_timeout AS SIGNED)";
    const PATIENCE_MS: u64 = 1000;

    fn set_patience(units: i64) -> String {
        format!("SET innodb_lock_wait_timeout = {units}")
    }

    talk!();
}

#[cfg(feature = "sqlite")]
impl Engine for sqlx::Sqlite {}

#[cfg(feature = "sqlite")]
impl RowDialect for sqlx::Sqlite {
    // SQLite reads the name of a missing column in double quotes as a text.
    const QUOTE: char = '`';
    const ONE_WRITER: bool = true;
    // The only statement without a table that begins a write. It frees at most one page, in a file
    // that was created for that (`auto_vacuum`).
    const TAKE_TURN: &'static str = "PRAGMA incremental_vacuum(1)";
    const RETURNING: bool = true;
    const OR_RAISE: &'static str = OR_RAISE;
    const RESOURCE: &'static str = "TEXT";
    const SERIAL: &'static str = "INTEGER PRIMARY KEY AUTOINCREMENT";
    const NOW_US: &'static str = crate::dialect::SQLITE_NOW_US;
    const BYTES: &'static str = "BLOB";
    const PATIENCE: &'static str = "PRAGMA busy_timeout";
    const PATIENCE_MS: u64 = 1;

    fn set_patience(units: i64) -> String {
        format!("PRAGMA busy_timeout = {units}")
    }

    talk!();
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
const OR_RAISE: &str = " ON CONFLICT (resource) DO UPDATE SET token = \
    CASE WHEN kept.token > excluded.token THEN kept.token ELSE excluded.token END";
