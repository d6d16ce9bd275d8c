//! Errors name the field and the remedy, and nothing changes.

use std::os::unix::fs::PermissionsExt;

use leasehold_core::{Error, ErrorKind, StoreUrl};
use leasehold_test_servers::{MariaDb, Postgres};

use crate::{Test, connect, secs, test, try_connect};

pub(crate) const TESTS: &[Test] = &[
    test!(what_is_wrong_with_postgres_is_said, Postgres),
    test!(what_is_wrong_with_mysql_is_said, MySql),
    test!(what_is_wrong_with_a_file_is_said, Nothing),
    test!(a_user_with_the_rights_that_the_documents_name_can_lock, Postgres),
    test!(a_client_that_connects_without_any_rights_is_refused_on_postgres, Postgres),
    test!(a_client_that_connects_without_any_rights_is_refused_on_mysql, MySql),
    test!(a_write_that_fails_leaves_nothing_and_names_its_cause, Nothing),
    test!(a_file_that_somebody_keeps_locked_is_waited_for_within_the_limit, Nothing),
    test!(a_file_that_was_replaced_is_opened_again, Nothing),
    test!(a_file_with_a_log_that_was_replaced_is_opened_again, Nothing),
    test!(tables_of_somebody_else_are_left_alone, Nothing),
];

pub(crate) fn said(error: &Error, kind: ErrorKind, part: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(part), "{part}: {error}");
    assert!(!format!("{error} {error:?}").contains("wr0ng"), "a password is shown: {error:?}");
}

pub(crate) async fn refused(url: &str, kind: ErrorKind, part: &str) {
    match try_connect(url).await {
        Ok(_) => panic!("connected to {url}"),
        Err(error) => said(&error, kind, part),
    }
}

async fn what_is_wrong_with_postgres_is_said() {
    let server = Postgres::start(&[]).unwrap();
    let url = server.url();
    refused(&server.url_as("leasehold", "wr0ng"), ErrorKind::Refused, "wrong user or password")
        .await;
    let other = url.replace("/leasehold", "/nowhere").replace("//nowhere", "//leasehold");
    refused(&other, ErrorKind::Refused, "no such database").await;
    refused(&format!("{url}?tls=require"), ErrorKind::Refused, "tls").await;
    refused("postgres://u:wr0ng@127.0.0.1:1/x", ErrorKind::Unavailable, "no database listens")
        .await;
    refused(&format!("{url}?create=no"), ErrorKind::Refused, "leasehold init").await;
    refused(&format!("{url}?schema=nowhere"), ErrorKind::Refused, "CREATE SCHEMA").await;
    let (schema, prefix) = ("s".repeat(20), "p".repeat(20));
    let long = format!("{url}?schema={schema}&prefix={prefix}");
    refused(&long, ErrorKind::Invalid, "39 letters").await;

    server.sql("CREATE ROLE poor LOGIN PASSWORD 'poor'").unwrap();
    server.sql("REVOKE CREATE ON SCHEMA public FROM PUBLIC").unwrap();
    refused(&server.url_as("poor", "poor"), ErrorKind::Refused, "leasehold init").await;
    let client = connect(&url).await;
    refused(&server.url_as("poor", "poor"), ErrorKind::Refused, "rights").await;
    server.sql("ALTER ROLE leasehold SET default_transaction_read_only = on").unwrap();
    let reader = connect(&url).await;
    said(&reader.lock("a").try_acquire().await.unwrap_err(), ErrorKind::Refused, "read-only");
    server.sql("ALTER ROLE leasehold RESET default_transaction_read_only").unwrap();
    // As after a switchover: a read-only connection is not used again.
    reader.lock("a").acquire().await.unwrap().release().await.unwrap();

    let guard = client.lock("a").acquire().await.unwrap();
    server.sql("SET client_min_messages = error; DROP TABLE leasehold_locks").unwrap();
    said(&client.lock("b").try_acquire().await.unwrap_err(), ErrorKind::Refused, "leasehold init");
    assert!(guard.release().await.is_err());
    leasehold_sql::init(StoreUrl::parse(&url).unwrap()).await.unwrap();
    client.lock("b").acquire().await.unwrap().release().await.unwrap();
}

async fn what_is_wrong_with_mysql_is_said() {
    let server = MariaDb::start(&[]).unwrap();
    let url = server.url();
    refused(&server.url_as("leasehold", "wr0ng"), ErrorKind::Refused, "wrong user or password")
        .await;
    refused("mysql://u:wr0ng@127.0.0.1:1/x", ErrorKind::Unavailable, "no database listens").await;
    refused(&format!("{url}?create=no"), ErrorKind::Refused, "leasehold init").await;
    let (start, _) = url.rsplit_once('/').unwrap();
    refused(&format!("{start}/nowhere"), ErrorKind::Refused, "").await;
    server
        .sql("CREATE USER poor IDENTIFIED BY 'poor'; GRANT SELECT ON leasehold.* TO poor")
        .unwrap();
    refused(&server.url_as("poor", "poor"), ErrorKind::Refused, "leasehold init").await;
    let client = connect(&url).await;
    let poor = connect(&server.url_as("poor", "poor")).await;
    said(&poor.lock("a").try_acquire().await.unwrap_err(), ErrorKind::Refused, "rights");
    server.sql("SET GLOBAL tx_read_only = 1").unwrap();
    let reader = connect(&url).await;
    said(&reader.lock("a").try_acquire().await.unwrap_err(), ErrorKind::Refused, "read-only");
    server.sql("SET GLOBAL tx_read_only = 0").unwrap();
    // As after a switchover: a read-only connection is not used again.
    reader.lock("a").acquire().await.unwrap().release().await.unwrap();
    server.sql("SET GLOBAL read_only = 1").unwrap();
    said(&client.lock("a").try_acquire().await.unwrap_err(), ErrorKind::Refused, "read-only");
    server.sql("SET GLOBAL read_only = 0").unwrap();
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
}

async fn a_user_with_the_rights_that_the_documents_name_can_lock() {
    let server = Postgres::start(&[]).unwrap();
    leasehold_sql::init(StoreUrl::parse(&server.url()).unwrap()).await.unwrap();
    server.sql("REVOKE CREATE ON SCHEMA public FROM PUBLIC").unwrap();
    server.sql("CREATE ROLE app LOGIN PASSWORD 'app'").unwrap();
    server
        .sql(
            "GRANT SELECT ON leasehold_version TO app; GRANT SELECT, INSERT, UPDATE, DELETE ON \
             leasehold_locks, leasehold_waiters, leasehold_read_waiters, leasehold_readers, \
             leasehold_records, leasehold_permits, leasehold_observers, leasehold_ended TO app",
        )
        .unwrap();
    let url = server.url_as("app", "app");
    let (one, two) = (connect(&url).await, connect(&url).await);
    assert_eq!(one.latch("latch", 2).count_down("x").await.unwrap(), 1);
    two.semaphore("gpu", 2).acquire().await.unwrap().release().await.unwrap();
    two.rw_lock("report").read().await.unwrap().release().await.unwrap();
    let guard = one.lock("a").acquire().await.unwrap();
    let lock = two.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    leasehold_conformance::until("it stands in line", || async {
        let status = one.lock("a").status().await;
        status.is_ok_and(|status| status.waiters.is_some_and(|waiters| !waiters.is_empty()))
    })
    .await
    .unwrap();
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

async fn a_client_that_connects_without_any_rights_is_refused_on_postgres() {
    let server = Postgres::start(&[]).unwrap();
    leasehold_sql::init(StoreUrl::parse(&server.url()).unwrap()).await.unwrap();
    server.sql("CREATE ROLE app LOGIN PASSWORD 'app'").unwrap();
    server.sql("GRANT SELECT ON leasehold_version TO app").unwrap();
    let grants = || server.sql("GRANT ALL ON ALL TABLES IN SCHEMA public TO app").map(drop);
    refused_until_granted(&server.url_as("app", "app"), grants).await;
}

async fn a_client_that_connects_without_any_rights_is_refused_on_mysql() {
    let server = MariaDb::start(&[]).unwrap();
    leasehold_sql::init(StoreUrl::parse(&server.url()).unwrap()).await.unwrap();
    server.sql("CREATE USER app IDENTIFIED BY 'app'").unwrap();
    server.sql("GRANT SELECT ON leasehold.leasehold_version TO app").unwrap();
    let grants = || server.sql("GRANT ALL ON leasehold.* TO app").map(drop);
    refused_until_granted(&server.url_as("app", "app"), grants).await;
}

/// The version can still be read. The client must not take the later tables for missing ones: it would have no read-write locks
/// after the rights are back.
async fn refused_until_granted(url: &str, grant: impl FnOnce() -> std::io::Result<()>) {
    refused(url, ErrorKind::Refused, "rights").await;
    grant().unwrap();
    connect(url).await.rw_lock("report").read().await.unwrap().release().await.unwrap();
}

async fn what_is_wrong_with_a_file_is_said() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let url = |name: &str| format!("sqlite:{}", path(name).display());
    refused(&url("no/such/directory/x.db"), ErrorKind::Refused, "cannot be opened").await;
    std::fs::write(path("text"), "no database, but a text that is long enough to be looked at\n")
        .unwrap();
    refused(&url("text"), ErrorKind::Foreign, "not a SQLite database").await;
    assert!(std::fs::read_to_string(path("text")).unwrap().starts_with("no database"));
    refused(&format!("{}?create=no", url("new.db")), ErrorKind::Refused, "leasehold init").await;
    // The root user may write everywhere; a directory in place of the file is refused for all.
    std::fs::create_dir(path("directory")).unwrap();
    refused(&url("directory"), ErrorKind::Refused, "cannot be opened").await;
    std::fs::create_dir(path("read-only")).unwrap();
    std::fs::set_permissions(path("read-only"), PermissionsExt::from_mode(0o500)).unwrap();
    let root = std::fs::write(path("read-only").join("probe"), "").is_ok();
    if !root {
        refused(&url("read-only/x.db"), ErrorKind::Refused, "cannot be opened").await;
    }
}

/// Runs statements as another user.
pub(crate) fn sqlite(path: &std::path::Path, statements: &'static str) {
    use sqlx::{ConnectOptions, Executor};
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let running = async {
        let mut connection = options.connect().await.unwrap();
        connection.execute(sqlx::raw_sql(statements)).await.unwrap();
    };
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(running));
}

async fn a_write_that_fails_leaves_nothing_and_names_its_cause() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("locks.db");
    let client = connect(&format!("sqlite:{}", path.display())).await;
    let held = client.lock("held").acquire().await.unwrap();
    sqlite(
        &path,
        "CREATE TRIGGER full BEFORE INSERT ON leasehold_locks BEGIN \
         SELECT RAISE(ABORT, 'no room'); END",
    );
    let error = client.lock("new").try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("no room"), "{error}");
    assert!(held.is_valid());
    sqlite(&path, "DROP TRIGGER full");
    client.lock("new").acquire().await.unwrap().release().await.unwrap();
    held.release().await.unwrap();
}

async fn a_file_that_somebody_keeps_locked_is_waited_for_within_the_limit() {
    use sqlx::{ConnectOptions, Executor};
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("locks.db");
    let client = connect(&format!("sqlite:{}", path.display())).await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
    let mut locker = options.connect().await.unwrap();
    locker.execute(sqlx::raw_sql("BEGIN IMMEDIATE")).await.unwrap();
    let error = client.lock("a").acquire_within(secs(4)).await.unwrap_err();
    said(&error, ErrorKind::Timeout, "holds a lock on the row or the database");
    locker.execute(sqlx::raw_sql("COMMIT")).await.unwrap();
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
}

async fn a_file_that_was_replaced_is_opened_again() {
    replaced("DELETE").await;
}

/// There, SQLite silently continues to write to the old file.
async fn a_file_with_a_log_that_was_replaced_is_opened_again() {
    replaced("WAL").await;
}

async fn replaced(mode: &str) {
    let place = tempfile::tempdir().unwrap();
    let (path, copy) = (place.path().join("locks.db"), place.path().join("copy.db"));
    let url = format!("sqlite:{}", path.display());
    let log = mode == "WAL";
    // A file that is not empty keeps its journal mode.
    sqlite(
        &path,
        match log {
            true => "PRAGMA journal_mode = WAL; CREATE TABLE other (id INTEGER)",
            false => "PRAGMA journal_mode = DELETE; CREATE TABLE other (id INTEGER)",
        },
    );
    let client = connect(&url).await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    if log {
        sqlite(&path, "PRAGMA wal_checkpoint(TRUNCATE)");
    }
    std::fs::copy(&path, &copy).unwrap();
    if log {
        for part in ["locks.db-wal", "locks.db-shm"] {
            std::fs::remove_file(place.path().join(part)).unwrap();
        }
    }
    std::fs::rename(&copy, &path).unwrap();
    let guard = client.lock("a").acquire().await.unwrap();
    let status = connect(&url).await.lock("a").status().await.unwrap();
    assert_eq!(status.token, Some(guard.token()));
    guard.release().await.unwrap();
}

async fn tables_of_somebody_else_are_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("app.db");
    std::fs::write(&path, "").unwrap();
    sqlite(
        &path,
        "CREATE TABLE leasehold_locks (id INTEGER); INSERT INTO leasehold_locks VALUES (7)",
    );
    let url = format!("sqlite:{}", path.display());
    let client = try_connect(&url).await;
    let error = match client {
        Err(error) => error,
        Ok(client) => client.lock("a").try_acquire().await.unwrap_err(),
    };
    said(&error, ErrorKind::Foreign, "prefix");
}
