//! One connection to a database: it sends a packet of statements, and reads the replies.

use futures_util::StreamExt;
use sqlx::{ColumnIndex, Decode, Either, Row, Type, TypeInfo, ValueRef};

use crate::address::Target;

/// A field of a row; the tables have no other types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Number(i64),
    Bytes(Vec<u8>),
}

/// The reply to one statement of a packet.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) rows: Vec<Vec<Value>>,
    pub(crate) affected: u64,
    /// The number that a statement returned on MySQL.
    pub(crate) id: u64,
}

/// A connection of one of the engines.
#[derive(Debug)]
pub(crate) enum Connection {
    #[cfg(feature = "postgres")]
    Postgres(Box<sqlx::PgConnection>),
    #[cfg(feature = "mysql")]
    MySql(Box<sqlx::MySqlConnection>),
    #[cfg(feature = "sqlite")]
    Sqlite(Box<sqlx::SqliteConnection>),
}

/// Reads the replies of a packet, for any engine.
macro_rules! replies {
    ($connection:expr, $packet:expr, $id:expr) => {{
        let mut stream = sqlx::raw_sql($packet).fetch_many(&mut **$connection);
        let (mut replies, mut rows) = (Vec::new(), Vec::new());
        while let Some(next) = stream.next().await {
            match next? {
                Either::Left(done) => {
                    let rows = std::mem::take(&mut rows);
                    replies.push(Reply { rows, affected: done.rows_affected(), id: $id(&done) });
                }
                Either::Right(row) => rows.push(values(&row)?),
            }
        }
        Ok(replies)
    }};
}

impl Connection {
    /// Connects.
    pub(crate) async fn open(target: &Target) -> Result<Self, sqlx::Error> {
        use sqlx::ConnectOptions;
        Ok(match target {
            #[cfg(feature = "postgres")]
            Target::Postgres(options) => {
                Self::Postgres(Box::new(quiet(&**options).connect().await?))
            }
            #[cfg(feature = "mysql")]
            Target::MySql(options) => {
                let mut connection = Self::MySql(Box::new(quiet(&**options).connect().await?));
                connection.run(crate::address::MYSQL_SESSION).await?;
                connection
            }
            #[cfg(feature = "sqlite")]
            Target::Sqlite(options) => Self::Sqlite(Box::new(quiet(&**options).connect().await?)),
        })
    }

    /// Sends a packet of statements and reads the reply to each. If a statement fails, the later
    /// ones were not done.
    pub(crate) async fn run(&mut self, packet: &str) -> Result<Vec<Reply>, sqlx::Error> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(connection) => replies!(connection, packet, |_: &_| 0),
            #[cfg(feature = "mysql")]
            Self::MySql(connection) => {
                replies!(connection, packet, sqlx::mysql::MySqlQueryResult::last_insert_id)
            }
            #[cfg(feature = "sqlite")]
            Self::Sqlite(connection) => replies!(connection, packet, |_: &_| 0),
        }
    }

    /// Ends what a failed packet has begun.
    pub(crate) async fn roll_back(&mut self) -> Result<(), sqlx::Error> {
        match self {
            // The server has ended the packet's transaction itself.
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => Ok(()),
            #[cfg(feature = "mysql")]
            Self::MySql(_) => self.run("ROLLBACK").await.map(drop),
            // There may be no transaction, which is an error there.
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => match self.run("ROLLBACK").await {
                Err(sqlx::Error::Database(_)) | Ok(_) => self.expect_busy_file().await,
                Err(error) => Err(error),
            },
        }
    }

    /// Gives a new file of SQLite a write-ahead log: a commit then does not wait for the disk, and readers do not
    /// wait for writers. Another process that creates the file at the same time does so too, so failures do not count.
    pub(crate) async fn write_ahead(&mut self) {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => drop(self.run("PRAGMA journal_mode = WAL").await),
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => {}
        }
    }

    /// Makes SQLite report a locked file soon, instead of waiting; the others have no such file.
    pub(crate) async fn expect_busy_file(&mut self) -> Result<(), sqlx::Error> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => self.run(crate::dialect::BUSY).await.map(drop),
            #[allow(unreachable_patterns, reason = "there may be one engine only")]
            _ => Ok(()),
        }
    }
}

/// Returns the same options without logging of statements: they contain names and metadata, and an
/// error reports a slow statement.
fn quiet<O: sqlx::ConnectOptions>(options: &O) -> O {
    options.clone().disable_statement_logging()
}

fn values<R: Row>(row: &R) -> Result<Vec<Value>, sqlx::Error>
where
    usize: ColumnIndex<R>,
    i64: for<'r> Decode<'r, R::Database> + Type<R::Database>,
    Vec<u8>: for<'r> Decode<'r, R::Database> + Type<R::Database>,
{
    let value = |column: usize| {
        let raw = row.try_get_raw(column)?;
        let nothing = raw.is_null() || raw.type_info().name() == "VOID";
        if nothing {
            return Ok(Value::Null);
        }
        match row.try_get::<i64, _>(column) {
            Ok(number) => Ok(Value::Number(number)),
            Err(_) => row.try_get::<Vec<u8>, _>(column).map(Value::Bytes),
        }
    };
    (0..row.len()).map(value).collect()
}

impl Value {
    /// Returns the number that this field must contain.
    pub(crate) fn number(&self) -> leasehold_core::Result<i64> {
        match self {
            Self::Number(number) => Ok(*number),
            other => Err(crate::error::strange(&format!("{other:?} is not a number"))),
        }
    }

    /// Returns the number that this field must contain, which is not below zero.
    pub(crate) fn unsigned(&self) -> leasehold_core::Result<u64> {
        let number = self.number()?;
        u64::try_from(number).map_err(|_| crate::error::strange(&format!("{number} is negative")))
    }

    /// Returns the bytes that this field must contain.
    pub(crate) fn bytes(&self) -> leasehold_core::Result<&[u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            other => Err(crate::error::strange(&format!("{other:?} are not bytes"))),
        }
    }
}
