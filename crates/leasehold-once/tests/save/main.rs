//! Rows that are saved once: on PostgreSQL, MariaDB and SQLite, with real Redis, and with processes that
//! are killed.

// A set-up that fails is a failed test.
#![allow(clippy::unwrap_used)]

mod killed;
mod promises;

use std::process::ExitCode;
use std::time::Duration;

use leasehold_conformance::runner::{self, Test};
use leasehold_conformance::test;
use leasehold_test_servers::{MariaDb, Needs, Postgres};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{MySqlPool, PgPool, SqlitePool};
use tempfile::TempDir;

use killed::killed_processes_lose_nothing_and_save_nothing_twice;
use promises::{
    a_foreign_mark_is_none, a_key_is_in_one_batch_at_a_time, bad_settings_are_named,
    marks_come_after_the_commit, what_is_not_saved_is_not_told_saved,
};

const LIMIT: Duration = Duration::from_secs(120);

/// What each database has to keep.
macro_rules! on {
    ($open:ident, $needs:ident) => {
        on!($open, $needs: what_comes_again_is_saved_once, a_row_that_is_not_taken_costs_no_other,
            a_row_that_breaks_a_constraint_costs_no_other, large_rows_go_into_more_statements, all_bytes_of_a_key_count, without_redis_rows_are_saved,
            restarts_from_snapshots_lose_and_double_no_row)
    };
    ($open:ident, $needs:ident: $($name:ident),*) => {
        &[$(Test {
            name: stringify!($name),
            needs: Needs::$needs,
            run: || Box::pin(async {
                let (_server, pool) = $open().await;
                promises::$name(pool).await;
            }),
        }),*]
    };
}

const ANY: &[Test] = &[
    test!(marks_come_after_the_commit),
    test!(what_is_not_saved_is_not_told_saved),
    test!(a_foreign_mark_is_none),
    test!(a_key_is_in_one_batch_at_a_time),
    test!(bad_settings_are_named),
    test!(killed_processes_lose_nothing_and_save_nothing_twice, Postgres),
];

fn main() -> ExitCode {
    if let Ok(child) = std::env::var(killed::CHILD) {
        runner::in_runtime(LIMIT, || killed::child(child)).unwrap();
        return ExitCode::SUCCESS;
    }
    let groups: [(&str, &[Test]); 5] = [
        ("any", ANY),
        ("mysql", on!(mysql, MySql)),
        ("mysql", on!(small_mysql, MySql: a_row_that_is_too_large_costs_no_other)),
        ("postgres", on!(postgres, Postgres)),
        ("sqlite", on!(sqlite, Nothing)),
    ];
    runner::run(Needs::Redis, LIMIT, &groups)
}

async fn postgres() -> (Postgres, PgPool) {
    let server = Postgres::start(&[]).unwrap();
    let pool = PgPool::connect(&server.url()).await.unwrap();
    (server, pool)
}

async fn mysql() -> (MariaDb, MySqlPool) {
    maria(&[]).await
}

async fn small_mysql() -> (MariaDb, MySqlPool) {
    maria(&["--max-allowed-packet=2M"]).await
}

async fn maria(settings: &[&str]) -> (MariaDb, MySqlPool) {
    let server = MariaDb::start(settings).unwrap();
    let pool = MySqlPool::connect(&server.url()).await.unwrap();
    (server, pool)
}

async fn sqlite() -> (TempDir, SqlitePool) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("test.db");
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let pool = SqlitePool::connect_with(options.busy_timeout(LIMIT)).await.unwrap();
    (directory, pool)
}
