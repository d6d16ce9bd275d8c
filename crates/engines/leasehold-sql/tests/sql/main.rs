//! Tests with real databases when connections, servers, rights and files fail.

// A failed set-up is a failed test.
#![allow(clippy::unwrap_used)]

mod busy;
mod connection;
mod earlier;
mod idle;
mod kept;
mod kinds;
mod newer;
mod observers;
mod permit_steps;
mod processes;
mod readers;
mod refused;
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
use leasehold_conformance::test;
use leasehold_core::{Client, Error, StoreUrl};
use leasehold_test_servers::Needs;

/// No test takes longer.
const LIMIT: Duration = Duration::from_secs(180);

fn main() -> ExitCode {
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
        ("processes", processes::TESTS),
        ("readers", readers::TESTS),
        ("refused", refused::TESTS),
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
