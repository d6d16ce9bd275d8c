//! The databases that `stock` sells from, with every commit on the disk.

use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use leasehold_test_servers::{MariaDb, Postgres};
use sqlx::pool::PoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{Database, Pool, Sqlite};
use tempfile::TempDir;

use crate::Result;
use crate::store::directory;

/// A kind of database.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
    Mysql,
}

impl Engine {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
        }
    }
}

/// Those that could be started; they end when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Databases {
    sqlite: Option<TempDir>,
    postgres: Option<Postgres>,
    mysql: Option<MariaDb>,
}

impl Databases {
    /// Starts them; a note for each that cannot be.
    pub(super) fn start(engines: &[Engine]) -> (Self, Vec<String>) {
        let (mut started, mut notes) = (Self::default(), Vec::new());
        for engine in engines {
            let outcome = match engine {
                Engine::Sqlite => directory().map(|place| started.sqlite = Some(place)),
                Engine::Postgres => Postgres::start(&["fsync=on"])
                    .map(|server| started.postgres = Some(server))
                    .map_err(Into::into),
                Engine::Mysql => MariaDb::start(&["--innodb-flush-log-at-trx-commit=1"])
                    .map(|server| started.mysql = Some(server))
                    .map_err(Into::into),
            };
            notes.extend(outcome.err().map(|error| format!("{} left out: {error}", engine.name())));
        }
        (started, notes)
    }

    pub(super) fn started(&self) -> Vec<Engine> {
        let there =
            [self.sqlite.is_some(), self.postgres.is_some(), self.mysql.is_some()].into_iter();
        let engines = [Engine::Sqlite, Engine::Postgres, Engine::Mysql].into_iter();
        engines.zip(there).filter_map(|(engine, there)| there.then_some(engine)).collect()
    }

    /// Where one is: a URL, or a file of SQLite.
    pub(super) fn url(&self, engine: Engine) -> Result<String> {
        let url = match engine {
            Engine::Sqlite => self
                .sqlite
                .as_ref()
                .map(|directory| directory.path().join("stock.db").to_string_lossy().into_owned()),
            Engine::Postgres => self.postgres.as_ref().map(Postgres::url),
            Engine::Mysql => self.mysql.as_ref().map(MariaDb::url),
        };
        url.ok_or_else(|| format!("{} is not running", engine.name()).into())
    }
}

/// Fewer connections than buyers, as it is in life.
fn options<E: Database>() -> PoolOptions<E> {
    PoolOptions::new().max_connections(16).acquire_timeout(Duration::from_secs(60))
}

pub(super) async fn pool<E: Database>(url: &str) -> Result<Pool<E>> {
    Ok(options().connect(url).await?)
}

pub(super) async fn sqlite(file: &str) -> Result<Pool<Sqlite>> {
    let connect = SqliteConnectOptions::new()
        .filename(Path::new(file))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(60));
    Ok(options().connect_with(connect).await?)
}
