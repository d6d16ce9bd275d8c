//! Tables and records of a newer version are refused, not changed, and named by doctor.

use leasehold_core::{ErrorKind, StoreUrl};
use leasehold_test_servers::{MariaDb, Postgres};

use crate::earlier::Database;
use crate::refused::{refused, said, sqlite};
use crate::{Test, connect, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_newer_schema_on_postgres_is_refused_unchanged, Postgres),
    test!(a_newer_schema_on_mysql_is_refused_unchanged, MySql),
    test!(a_newer_schema_on_sqlite_is_refused_unchanged, Nothing),
    test!(the_doctor_names_unreadable_records_on_postgres, Postgres),
    test!(the_doctor_names_unreadable_records_on_mysql, MySql),
    test!(the_doctor_names_unreadable_records_on_sqlite, Nothing),
];

on_each!(doctor:
    the_doctor_names_unreadable_records_on_postgres,
    the_doctor_names_unreadable_records_on_mysql,
    the_doctor_names_unreadable_records_on_sqlite);

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

impl<C> Database<C>
where
    for<'c> &'c mut C: sqlx::Executor<'c>,
    for<'c> <&'c mut C as sqlx::Executor<'c>>::Database: sqlx::Database,
{
    async fn doctor(mut self) {
        let client = connect(&self.url).await;
        let held = client.lock("lock").acquire().await.unwrap();
        let reader = client.rw_lock("readers").read().await.unwrap();
        let mut permits = Vec::new();
        for name in ["permits", "newer permits", "damaged permits"] {
            permits.push(client.semaphore(name, 2).acquire().await.unwrap());
        }
        client.semaphore("over", 2).acquire().await.unwrap().release().await.unwrap();
        for name in ["latch", "newer latch"] {
            client.latch(name, 2).count_down("a").await.unwrap();
        }
        let url = self.url.clone();
        let found = async |id: &str| {
            let found = leasehold_sql::diagnose(StoreUrl::parse(&url).unwrap()).await.unwrap();
            assert!(found.unseen.is_empty(), "{:?}", found.unseen);
            let mut findings = found.findings.into_iter().filter(|finding| finding.id == id);
            findings.next().map(|finding| finding.what)
        };
        assert_eq!((found("damaged").await, found("newer").await), (None, None));
        for (name, data) in [
            ("newer permits", &b"S2"[..]),
            ("damaged permits", b"550e8400-e29b-41d4"),
            ("over", b"550e8400-e29b-41d4"),
            ("newer latch", b"leasehold latch 12\n1 1 1\n"),
        ] {
            let (name, data) = ((self.bytes)(name.as_bytes()), (self.bytes)(data));
            let put = format!("UPDATE leasehold_records SET data = {data} WHERE name = {name}");
            self.rows(&put).await;
        }
        let name = (self.bytes)(b"lock");
        self.rows(&format!("UPDATE leasehold_locks SET state = 9 WHERE name = {name}")).await;
        // Any client may take it; no permit is left that its client renews.
        let name = (self.bytes)(b"over");
        self.rows(&format!("UPDATE leasehold_locks SET until_us = 1 WHERE name = {name}")).await;
        let what = found("damaged").await.unwrap();
        assert_eq!(what, "records cannot be read, those of \"damaged permits\"");
        let what = found("newer").await.unwrap();
        let named = ["\"lock\"", "\"newer latch\"", "\"newer permits\""];
        assert!(named.iter().all(|name| what.contains(name)), "{what}");
        assert!(!what.contains(" more"), "{what}");
        drop((held, reader, permits));
    }
}
