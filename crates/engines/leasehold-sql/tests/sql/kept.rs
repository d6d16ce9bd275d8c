//! What the tables store: tokens beyond deleted rows, exact names, and no more than needed.

use leasehold_core::StoreUrl;
use leasehold_test_servers::{MariaDb, Postgres};

use crate::{Test, connect, test};

pub(crate) const TESTS: &[Test] = &[
    test!(tokens_grow_over_forgotten_rows_on_postgres, Postgres),
    test!(tokens_grow_over_forgotten_rows_on_mysql, MySql),
    test!(tokens_grow_over_forgotten_rows_on_sqlite, Nothing),
    test!(only_free_locks_of_that_name_are_forgotten, Nothing),
    test!(the_statements_make_the_tables_twice, Postgres),
];

async fn tokens_grow_over_forgotten_rows_on_postgres() {
    let server = Postgres::start(&[]).unwrap();
    tokens_grow(&server.url()).await;
}

async fn tokens_grow_over_forgotten_rows_on_mysql() {
    let server = MariaDb::start(&[]).unwrap();
    tokens_grow(&server.url()).await;
}

async fn tokens_grow_over_forgotten_rows_on_sqlite() {
    let place = tempfile::tempdir().unwrap();
    tokens_grow(&format!("sqlite:{}", place.path().join("locks.db").display())).await;
}

async fn forget(url: &str, names: &str) -> u64 {
    leasehold_sql::forget(StoreUrl::parse(url).unwrap(), names).await.unwrap()
}

async fn tokens_grow(url: &str) {
    let client = connect(url).await;
    let mut last = None;
    for _ in 0..5 {
        let guard = client.lock("a/b").acquire().await.unwrap();
        assert!(Some(guard.token()) > last);
        last = Some(guard.token());
        guard.release().await.unwrap();
        // If the clock has only milliseconds, it may not have passed the token yet.
        leasehold_conformance::until("it is forgotten", || async { forget(url, "a/").await == 1 })
            .await
            .unwrap();
        assert!(client.lock("a/b").status().await.unwrap().token.is_none());
    }
}

async fn only_free_locks_of_that_name_are_forgotten() {
    let place = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", place.path().join("locks.db").display());
    let client = connect(&url).await;
    let held = client.lock("a/held").acquire().await.unwrap();
    for name in ["a/1", "a/2", "A/3", "b/4", "a", "ä/5"] {
        client.lock(name).acquire().await.unwrap().release().await.unwrap();
    }
    assert_eq!(forget(&url, "a/").await, 2);
    let left: Vec<String> = (client.list("", 100).await.unwrap().iter())
        .map(|status| status.name.to_string())
        .collect();
    assert_eq!(left, ["A/3", "a", "a/held", "b/4", "ä/5"]);
    held.release().await.unwrap();
}

async fn the_statements_make_the_tables_twice() {
    let server = Postgres::start(&[]).unwrap();
    server.sql("CREATE SCHEMA locks AUTHORIZATION leasehold").unwrap();
    let url = format!("{}?schema=locks&prefix=app&create=no", server.url());
    let statements = leasehold_sql::statements(StoreUrl::parse(&url).unwrap()).unwrap();
    for _ in 0..2 {
        let all = format!(
            "SET ROLE leasehold; SET client_min_messages = error; {}",
            statements.join(";")
        );
        server.sql(&all).unwrap();
    }
    connect(&url).await.lock("a").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(server.sql("SELECT count(*) FROM locks.app_locks").unwrap(), "1");
}
