//! Tests with real databases when connections, servers, rights and files fail.

// A failed set-up is a failed test.
#![allow(clippy::unwrap_used)]

/// Tests that are a method of [`Database`](earlier::Database), one on each database.
macro_rules! on_each {
    ($what:ident: $postgres:ident, $mysql:ident, $sqlite:ident) => {
        async fn $postgres() {
            let server = leasehold_test_servers::Postgres::start(&[]).unwrap();
            crate::earlier::Database::postgres(&server).await.$what().await;
        }

        async fn $mysql() {
            let server = leasehold_test_servers::MariaDb::start(&[]).unwrap();
            crate::earlier::Database::mysql(&server).await.$what().await;
        }

        async fn $sqlite() {
            let place = tempfile::tempdir().unwrap();
            crate::earlier::Database::sqlite(&place.path().join("locks.db")).await.$what().await;
        }
    };
}

mod busy;
mod connection;
mod earlier;
mod idle;
mod kept;
mod kinds;
mod newer;
mod observers;
mod permit_steps;
mod permits;
mod processes;
mod reader_rows;
mod readers;
mod refused;
mod reset;
mod server;
mod shedlock;
mod side;
mod steps;
mod tls;
mod waiting;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::runner::{self, Test};
use leasehold_conformance::{holder, test};
use leasehold_core::{Client, Error, StoreUrl};
use leasehold_test_servers::Needs;

/// No test takes longer.
const LIMIT: Duration = Duration::from_secs(180);

fn main() -> ExitCode {
    if let Some(code) = holder::played(async |url| try_connect(&url).await) {
        return code;
    }
    if let Some(role) = processes::told() {
        return processes::play(&role);
    }
    if let Some(url) = readers::told() {
        return readers::play(&url);
    }
    let groups = [
        ("busy", busy::TESTS),
        ("connection", connection::TESTS),
        ("earlier", earlier::TESTS),
        ("idle", idle::TESTS),
        ("kept", kept::TESTS),
        ("kinds", kinds::TESTS),
        ("newer", newer::TESTS),
        ("observers", observers::TESTS),
        ("permit_steps", permit_steps::TESTS),
        ("permits", permits::TESTS),
        ("processes", processes::TESTS),
        ("reader_rows", reader_rows::TESTS),
        ("readers", readers::TESTS),
        ("refused", refused::TESTS),
        ("reset", reset::TESTS),
        ("server", server::TESTS),
        ("shedlock", shedlock::TESTS),
        ("steps", steps::TESTS),
        ("waiting", waiting::TESTS),
    ];
    runner::run(Needs::Nothing, LIMIT, &groups)
}

async fn try_connect(url: &str) -> Result<Client, Error> {
    let backend = leasehold_sql::connect(StoreUrl::parse(url)?).await?;
    Client::new(Arc::new(backend))
}

async fn connect(url: &str) -> Client {
    try_connect(url).await.unwrap()
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
