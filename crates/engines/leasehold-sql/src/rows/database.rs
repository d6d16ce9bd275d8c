//! A database with any engine, chosen by its URL at run time.

use std::time::Duration;

use leasehold_core::{Result, StoreUrl};
use sqlx::Pool;
use sqlx::pool::PoolOptions;

use super::engine::Engine;
use crate::address::{Address, Target};

/// How long to wait for a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// The options of stores that have no effect here.
const TABLES: [&str; 4] = ["create", "listen", "prefix", "schema"];

/// One of the databases, with connections that are made at their first use.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Database {
    /// PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(Pool<sqlx::Postgres>),
    /// MySQL or MariaDB.
    #[cfg(feature = "mysql")]
    MySql(Pool<sqlx::MySql>),
    /// SQLite.
    #[cfg(feature = "sqlite")]
    Sqlite(Pool<sqlx::Sqlite>),
}

/// Work on a database of any engine.
pub trait Visit {
    /// The result of the work.
    type Output;

    /// Does the work.
    fn visit<E: Engine>(self, pool: Pool<E>) -> Self::Output;
}

impl Database {
    /// Opens the database of a URL, inside a tokio runtime. The URL may have the connection options
    /// of store URLs (`docs/sql.md`), but not the table options. It does not connect, and creates
    /// no file.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](leasehold_core::ErrorKind::Invalid) for a URL that cannot be parsed.
    pub fn open(url: &str) -> Result<Self> {
        let url = StoreUrl::parse(url)?;
        let mut given = url.clone();
        if let Some(option) = TABLES.iter().find(|option| given.take(option).is_some()) {
            let problem = format!(
                "{option} is for the tables of a store, which are not used here; remove it"
            );
            return Err(StoreUrl::invalid(problem));
        }
        let address = Address::parse(url)?;
        Ok(match address.target {
            #[cfg(feature = "postgres")]
            Target::Postgres(connect) => {
                Self::Postgres(options(address.pool).connect_lazy_with(*connect))
            }
            #[cfg(feature = "mysql")]
            Target::MySql(connect) => {
                let options = options::<sqlx::MySql>(address.pool);
                let options = options.after_connect(|connection, _| {
                    Box::pin(async move {
                        let session = crate::address::MYSQL_SESSION;
                        sqlx::Executor::execute(connection, session).await.map(drop)
                    })
                });
                Self::MySql(options.connect_lazy_with(*connect))
            }
            #[cfg(feature = "sqlite")]
            Target::Sqlite(connect) => {
                // It is the program's own file, and contains more than leases.
                let connect = connect.create_if_missing(false);
                let connect = connect.synchronous(sqlx::sqlite::SqliteSynchronous::Full);
                Self::Sqlite(options(address.pool).connect_lazy_with(connect))
            }
        })
    }

    /// Runs a visitor on it.
    pub fn visit<V: Visit>(self, visitor: V) -> V::Output {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => visitor.visit(pool),
            #[cfg(feature = "mysql")]
            Self::MySql(pool) => visitor.visit(pool),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => visitor.visit(pool),
        }
    }
}

fn options<E: Engine>(most: usize) -> PoolOptions<E> {
    let most = u32::try_from(most).unwrap_or(u32::MAX);
    PoolOptions::new().max_connections(most).acquire_timeout(PATIENCE)
}
