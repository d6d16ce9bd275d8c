//! The databases of the tests: one server of each kind, a database per test.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_conformance::runner;
use leasehold_core::Result;
use leasehold_sql::rows::{Engine, failure};
use leasehold_test_servers::{MariaDb, Needs, Postgres};
use libtest_mimic::Trial;
use sqlx::pool::PoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{MySql, Pool, Sqlite};
use tempfile::TempDir;

/// No test takes longer than this; a longer test hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// What the trials of an engine need.
pub(crate) fn needs(engine: &str) -> Needs {
    match engine {
        "postgres" => Needs::Postgres,
        "mysql" => Needs::MySql,
        "pgbouncer" => Needs::Pooler,
        _ => Needs::Nothing,
    }
}

/// Servers that start when the first test needs them.
#[derive(Default)]
pub(crate) struct Databases {
    postgres: Mutex<Option<Postgres>>,
    mariadb: Mutex<Option<MariaDb>>,
    folders: Mutex<Vec<TempDir>>,
    count: AtomicU32,
}

/// Enough connections for every buyer of a test to wait with one.
fn options<E: Engine>() -> PoolOptions<E> {
    PoolOptions::new().max_connections(16).acquire_timeout(Duration::from_secs(60))
}

impl Databases {
    fn name(&self) -> String {
        format!("test{}", self.count.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) async fn postgres(&self) -> Pool<sqlx::Postgres> {
        let url = {
            let mut server = self.postgres.lock().unwrap_or_else(PoisonError::into_inner);
            let server =
                server.get_or_insert_with(|| Postgres::start(&["max_connections=300"]).unwrap());
            let name = self.name();
            server.sql(&format!("CREATE DATABASE {name} OWNER leasehold")).unwrap();
            server
                .url()
                .replace("/leasehold", &format!("/{name}"))
                .replace(&format!("//{name}:"), "//leasehold:")
        };
        options().connect(&url).await.unwrap()
    }

    pub(crate) async fn mysql(&self) -> Pool<MySql> {
        let url = {
            let mut server = self.mariadb.lock().unwrap_or_else(PoisonError::into_inner);
            let server =
                server.get_or_insert_with(|| MariaDb::start(&["--max-connections=300"]).unwrap());
            let name = self.name();
            server
                .sql(&format!("CREATE DATABASE {name}; GRANT ALL ON {name}.* TO leasehold@'%'"))
                .unwrap();
            server
                .url()
                .replace("/leasehold", &format!("/{name}"))
                .replace(&format!("//{name}:"), "//leasehold:")
        };
        options().connect(&url).await.unwrap()
    }

    pub(crate) async fn sqlite(&self) -> Pool<Sqlite> {
        let directory = tempfile::tempdir().unwrap();
        let connect = SqliteConnectOptions::new()
            .filename(directory.path().join("test.db"))
            .journal_mode(SqliteJournalMode::Wal)
            .create_if_missing(true)
            .busy_timeout(Duration::from_secs(60));
        let pool = options().connect_with(connect).await.unwrap();
        self.folders.lock().unwrap_or_else(PoisonError::into_inner).push(directory);
        pool
    }
}

/// What the tests need from any database; `sqlx` has no bound for all of it.
pub(crate) trait Talk: Engine {
    fn exec(
        connection: &mut Self::Connection,
        sql: &str,
    ) -> impl Future<Output = Result<()>> + Send;
    fn number(
        connection: &mut Self::Connection,
        sql: &str,
    ) -> impl Future<Output = Result<i64>> + Send;
}

macro_rules! talk {
    ($($database:ty),*) => {$(
        impl Talk for $database {
            async fn exec(connection: &mut Self::Connection, sql: &str) -> Result<()> {
                sqlx::Executor::execute(connection, sql).await.map_err(failure)?;
                Ok(())
            }

            async fn number(connection: &mut Self::Connection, sql: &str) -> Result<i64> {
                sqlx::query_scalar(sql).fetch_one(connection).await.map_err(failure)
            }
        }
    )*};
}
talk!(sqlx::Postgres, MySql, Sqlite);

pub(crate) async fn exec<E: Talk>(pool: &Pool<E>, sql: &str) {
    E::exec(&mut *pool.acquire().await.unwrap(), sql).await.unwrap();
}

pub(crate) async fn number<E: Talk>(pool: &Pool<E>, sql: &str) -> i64 {
    E::number(&mut *pool.acquire().await.unwrap(), sql).await.unwrap()
}

/// Creates a table `stock` with the items 1 to 3, with `amount` of each.
pub(crate) async fn stock<E: Talk>(pool: &Pool<E>, amount: i64) {
    exec(
        pool,
        "CREATE TABLE stock (item BIGINT PRIMARY KEY, amount BIGINT NOT NULL, \
         version BIGINT NOT NULL DEFAULT 0, fence BIGINT)",
    )
    .await;
    for item in 1..=3 {
        exec(pool, &format!("INSERT INTO stock (item, amount) VALUES ({item}, {amount})")).await;
    }
}

/// Makes each function a trial per engine, in its own database.
macro_rules! trials {
    ($databases:expr, $($module:ident::$name:ident),* $(,)?) => {{
        let mut trials = Vec::new();
        $(
            let name = concat!(stringify!($module), "::", stringify!($name));
            trials.push($crate::database::trial("postgres", name, $databases, |databases| async move {
                $module::$name(databases.postgres().await).await;
            }));
            trials.push($crate::database::trial("mysql", name, $databases, |databases| async move {
                $module::$name(databases.mysql().await).await;
            }));
            trials.push($crate::database::trial("sqlite", name, $databases, |databases| async move {
                $module::$name(databases.sqlite().await).await;
            }));
        )*
        trials
    }};
}
pub(crate) use trials;

/// A test on one engine, which may need more than that.
pub(crate) fn trial<F>(
    engine: &str,
    name: &str,
    databases: &Arc<Databases>,
    test: impl FnOnce(Arc<Databases>) -> F + Send + 'static,
) -> Trial
where
    F: Future<Output = ()>,
{
    let own = Arc::clone(databases);
    runner::trial(format!("{engine}::{name}"), LIMIT, || test(own))
        .with_ignored_flag(needs(engine).is_missing())
}
