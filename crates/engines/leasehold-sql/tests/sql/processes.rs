//! Several processes that count under one lock.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use leasehold_test_servers::{MariaDb, Postgres};

use crate::refused::sqlite;
use crate::{Test, connect, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(eight_processes_count_exactly_on_postgres, Postgres),
    test!(eight_processes_count_exactly_on_mysql, MySql),
    test!(eight_processes_count_exactly_on_sqlite, Nothing),
    test!(eight_processes_count_exactly_on_sqlite_with_a_journal, Nothing),
];

const ROLE: &str = "LEASEHOLD_SQL_COUNTER";
const PROCESSES: usize = 8;
const ROUNDS: u64 = 25;

/// The store and the file of one counting process.
pub(crate) struct Role {
    url: String,
    file: PathBuf,
}

pub(crate) fn told() -> Option<Role> {
    let role = std::env::var(ROLE).ok()?;
    let (url, file) = role.split_once('\n')?;
    Some(Role { url: url.to_owned(), file: file.into() })
}

/// Adds one to the number in the file, this many times. The file also contains the last token.
pub(crate) fn play(role: &Role) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = connect(&role.url).await;
        for _ in 0..ROUNDS {
            let guard = client.lock("counter").ttl(secs(30)).acquire().await.unwrap();
            let (number, token) = read(&role.file);
            let ours = guard.token().get();
            assert!(ours > token, "token {ours} after {token}");
            tokio::task::yield_now().await;
            std::fs::write(&role.file, format!("{} {ours}", number + 1)).unwrap();
            guard.release().await.unwrap();
        }
        client.settle().await;
    });
    ExitCode::SUCCESS
}

fn read(file: &Path) -> (u64, u64) {
    let text = std::fs::read_to_string(file).unwrap();
    let (number, token) = text.split_once(' ').unwrap();
    (number.parse().unwrap(), token.parse().unwrap())
}

/// Counts with some processes.
async fn count(url: &str) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("counter");
    std::fs::write(&file, "0 0").unwrap();
    let start = || -> Child {
        Command::new(std::env::current_exe().unwrap())
            .env(ROLE, format!("{url}\n{}", file.display()))
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    };
    let counters: Vec<Child> = (0..PROCESSES).map(|_| start()).collect();
    let waited = tokio::task::spawn_blocking(move || {
        counters.into_iter().map(|mut counter| counter.wait().unwrap().success()).collect()
    });
    let ended: Vec<bool> = waited.await.unwrap();
    assert!(ended.iter().all(|success| *success), "{ended:?}");
    let (number, _) = read(&file);
    assert_eq!(number, PROCESSES as u64 * ROUNDS);
}

async fn eight_processes_count_exactly_on_postgres() {
    let server = Postgres::start(&[]).unwrap();
    count(&server.url()).await;
}

async fn eight_processes_count_exactly_on_mysql() {
    let server = MariaDb::start(&[]).unwrap();
    count(&server.url()).await;
}

async fn eight_processes_count_exactly_on_sqlite() {
    // All create the file at the same time.
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("locks.db");
    count(&format!("sqlite:{}", path.display())).await;
    assert_eq!(mode(&path), WITH_LOG, "the new file has no log");
}

async fn eight_processes_count_exactly_on_sqlite_with_a_journal() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("locks.db");
    sqlite(&path, "PRAGMA journal_mode = DELETE; CREATE TABLE other (id INTEGER)");
    count(&format!("sqlite:{}", path.display())).await;
    assert_eq!(mode(&path), [1, 1], "the mode of another program's file was changed");
}

/// Bytes 18 and 19 of a file with a write-ahead log are 2 (https://sqlite.org/fileformat2.html); the log itself goes
/// with the last connection that is closed properly.
const WITH_LOG: [u8; 2] = [2, 2];

fn mode(path: &Path) -> [u8; 2] {
    let head = std::fs::read(path).unwrap();
    [head[18], head[19]]
}
