//! Stores in files: a SQLite database, and a directory of lock files.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_test_servers::Daemon;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Row as _};
use tempfile::TempDir;

use super::newer::{self, Changed};
use super::remains::Remains;
use super::server::Server;
use super::tables;
use crate::now;

fn no_process() -> io::Error {
    io::Error::other("a store in files has no process")
}

/// A SQLite database.
#[derive(Debug)]
pub(super) struct Sqlite {
    directory: TempDir,
}

/// A statement waits so long for other writers.
const BUSY: Duration = Duration::from_secs(30);
/// The pause before statements that SQLite refused are run again.
const PAUSE: Duration = Duration::from_millis(5);

impl Sqlite {
    pub(super) fn new(directory: TempDir) -> Self {
        Self { directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("locks.db")
    }

    pub(super) fn url(&self) -> String {
        format!("sqlite:{}", self.path().display())
    }

    /// Runs statements one after the other in one connection, and returns the first column of the last one's
    /// rows as text. SQLite refuses some of them at once where waiting could be a deadlock: all are run again
    /// then, and must be one transaction.
    fn sql(&self, statements: &[String]) -> io::Result<Vec<String>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let end = now() + BUSY.as_nanos() as u64;
        loop {
            match runtime.block_on(self.run(statements)) {
                Err(_) if now() < end => std::thread::sleep(PAUSE),
                outcome => return outcome.map_err(io::Error::other),
            }
        }
    }

    /// Runs one statement, which may count rows.
    fn one(&self, statement: &str) -> io::Result<String> {
        Ok(self.sql(&[statement.replace("count(*)", "'' || count(*)")])?.concat())
    }

    async fn run(&self, statements: &[String]) -> sqlx::Result<Vec<String>> {
        let options = SqliteConnectOptions::new().filename(self.path()).busy_timeout(BUSY);
        let mut connection = options.connect().await?;
        let mut rows = Vec::new();
        for statement in statements {
            rows = sqlx::raw_sql(statement).fetch_all(&mut connection).await?;
        }
        connection.close().await?;
        rows.iter().map(|row| row.try_get_unchecked(0)).collect()
    }
}

impl Server for Sqlite {
    fn address(&self) -> Option<SocketAddr> {
        None
    }

    fn daemon(&mut self) -> io::Result<&mut Daemon> {
        Err(no_process())
    }

    fn start_again(&mut self) -> io::Result<()> {
        Err(no_process())
    }

    fn data(&mut self) -> io::Result<PathBuf> {
        Ok(self.directory.path().to_path_buf())
    }

    fn recover(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn empty(&mut self) -> io::Result<()> {
        tables::delete_all(|statements| Ok(self.sql(&[statements.to_owned()])?.concat()))
    }

    fn save(&mut self, copy: &Path) -> io::Result<()> {
        fs::remove_file(copy).or_else(absent)?;
        self.sql(&[format!("VACUUM INTO '{}'", copy.display())]).map(drop)
    }

    fn restore(&mut self, copy: &Path) -> io::Result<()> {
        let attach = format!("ATTACH '{}' AS copy", copy.display());
        self.sql(&[vec![attach], tables::replacement()].concat()).map(drop)
    }

    fn left(&self) -> io::Result<Remains> {
        let mut remains = tables::left(|statement| self.one(statement), tables::SQLITE_US)?;
        let journal = self.directory.path().join("locks.db-journal").exists();
        remains.append(Remains::of_left(&[(journal.into(), "journal of SQLite")]));
        Ok(remains)
    }

    fn put_newer(&mut self, _: u64) -> io::Result<()> {
        newer::put_version(|statement| self.one(statement))
    }

    fn put_back(&mut self) -> io::Result<Changed> {
        newer::put_version_back(|statement| self.one(statement))
    }
}

/// A directory of lock files.
#[derive(Debug)]
pub(super) struct Directory {
    directory: TempDir,
}

impl Directory {
    pub(super) fn new(directory: TempDir) -> Self {
        Self { directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("locks")
    }

    pub(super) fn url(&self) -> String {
        format!("file:{}", self.path().display())
    }
}

impl Server for Directory {
    fn address(&self) -> Option<SocketAddr> {
        None
    }

    fn daemon(&mut self) -> io::Result<&mut Daemon> {
        Err(no_process())
    }

    fn start_again(&mut self) -> io::Result<()> {
        Err(no_process())
    }

    fn data(&mut self) -> io::Result<PathBuf> {
        Ok(self.directory.path().to_path_buf())
    }

    fn recover(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Removes the directory while clients use it: they may make files in it meanwhile.
    fn empty(&mut self) -> io::Result<()> {
        while let Err(error) = fs::remove_dir_all(self.path()) {
            match error.kind() {
                io::ErrorKind::NotFound => break,
                io::ErrorKind::DirectoryNotEmpty => {}
                _ => return Err(error),
            }
        }
        Ok(())
    }

    fn put_newer(&mut self, _: u64) -> io::Result<()> {
        newer::put_format(&self.path(), self.directory.path())
    }

    fn put_back(&mut self) -> io::Result<Changed> {
        newer::put_format_back(&self.path(), self.directory.path())
    }

    fn left(&self) -> io::Result<Remains> {
        let mut remains = Remains::default();
        for entry in fs::read_dir(self.path().join("locks"))? {
            let path = entry?.path();
            let kind = path.extension().and_then(|extension| extension.to_str());
            match kind {
                Some("lock") => remains.append(Remains::default().and_kept(&[(1, "lock file")])),
                Some(kind @ ("readers" | "slots")) => {
                    let what = if kind == "slots" { "file of slots" } else { "file of readers" };
                    remains.append(Remains::default().and_kept(&[(1, what)]));
                }
                // A killed process leaves a draft, which the next one replaces.
                Some("json" | "tmp") => {}
                Some("wait") => {
                    let waiters = fs::read_dir(&path)?.count() as u64;
                    remains.append(Remains::of_left(&[(waiters, "files of waiters")]));
                }
                _ => remains.left.push(format!("the file {}", path.display())),
            }
        }
        Ok(remains)
    }
}

fn absent(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}
