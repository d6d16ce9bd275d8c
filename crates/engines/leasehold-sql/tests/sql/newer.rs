//! Tables of a newer version are refused, and not changed.

use leasehold_core::{ErrorKind, StoreUrl};
use leasehold_test_servers::{MariaDb, Postgres};

use crate::refused::{refused, said, sqlite};
use crate::{Test, connect, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_newer_schema_on_postgres_is_refused_unchanged, Postgres),
    test!(a_newer_schema_on_mysql_is_refused_unchanged, MySql),
    test!(a_newer_schema_on_sqlite_is_refused_unchanged, Nothing),
];

/// Creates a newer schema of the tables, without waiters and index on `ended`, which this version
/// would create.
const NEWER: &str = "ALTER TABLE leasehold_locks ADD COLUMN mode BIGINT; DROP TABLE leasehold_waiters; \
                     UPDATE leasehold_version SET version = 2";

async fn a_newer_schema_on_postgres_is_refused_unchanged() {
    let server = Postgres::start(&[]).unwrap();
    newer(
        &server.url(),
        || {
            let functions = "DROP FUNCTION leasehold_take_5, leasehold_free_5";
            let index = "DROP INDEX leasehold_ended_name";
            server.sql(&format!("{NEWER}; {functions}; {index}")).unwrap();
        },
        || {
            let tables = "SELECT oid, relname, relfilenode, relnatts, xmin FROM pg_class \
                          WHERE relname LIKE 'leasehold%' ORDER BY oid";
            let functions = "SELECT oid, proname FROM pg_proc WHERE proname LIKE 'leasehold%'";
            let version = "SELECT version, xmin FROM leasehold_version";
            [tables, functions, version].map(|query| server.sql(query).unwrap()).concat().into()
        },
    )
    .await;
}

async fn a_newer_schema_on_mysql_is_refused_unchanged() {
    let server = MariaDb::start(&[]).unwrap();
    newer(
        &server.url(),
        || {
            let index = "DROP INDEX leasehold_ended_name ON leasehold_ended";
            server.sql(&format!("{NEWER}; {index}")).unwrap();
        },
        || {
            let shown: Vec<String> = (server.sql("SHOW TABLES").unwrap().lines())
                .map(|table| server.sql(&format!("SHOW CREATE TABLE {table}")).unwrap())
                .collect();
            (shown.concat() + &server.sql("SELECT * FROM leasehold_version").unwrap()).into()
        },
    )
    .await;
}

async fn a_newer_schema_on_sqlite_is_refused_unchanged() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("locks.db");
    let newer_schema = || {
        sqlite(&path, NEWER);
        sqlite(&path, "DROP INDEX leasehold_ended_name");
    };
    let url = format!("sqlite:{}", path.display());
    // With a journal, all that is stored is in the one file.
    sqlite(&path, "PRAGMA journal_mode = DELETE; CREATE TABLE other (id INTEGER)");
    newer(&url, newer_schema, || std::fs::read(&path).unwrap()).await;
}

/// `schema` returns everything about the tables.
async fn newer(url: &str, make: impl FnOnce(), schema: impl Fn() -> Vec<u8>) {
    connect(url).await;
    make();
    let before = schema();
    assert!(!before.is_empty());
    let made = leasehold_sql::init(StoreUrl::parse(url).unwrap()).await;
    said(&made.unwrap_err(), ErrorKind::Foreign, "prefix");
    refused(url, ErrorKind::Foreign, "version 2").await;
    let after = schema();
    let shown =
        |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(4000)]).into_owned();
    assert!(after == before, "changed: {}\n--\n{}", shown(&before), shown(&after));
    connect(&format!("{url}?prefix=other")).await;
}
