//! Tests that tokens grow over clean-up, also after the database's clock went back.

use std::process::Command;
use std::sync::Arc;

use leasehold_core::clock::Clock;
use leasehold_core::{Client, StoreUrl};
use leasehold_test_servers::{ClockShim, MariaDb, Needs, Postgres};

use crate::address::Address;
use crate::store::Store;

/// The step of a separate process, and the store.
const STEP: &str = "LEASEHOLD_SQL_UPKEEP_STEP";

/// Does one step on the lock `a`: `use` acquires and releases it and returns the token; `sweep` and
/// `forget` return how many rows are left.
async fn step(step: &str, url: &str) -> u64 {
    let parsed = || StoreUrl::parse(url).unwrap();
    let client = Client::new(Arc::new(crate::connect(parsed()).await.unwrap())).unwrap();
    let store = Store::new(&Address::parse(parsed()).unwrap(), Clock::system());
    match step {
        "use" => {
            let guard = client.lock("a").acquire().await.unwrap();
            let token = guard.token().get();
            guard.release().await.unwrap();
            return token;
        }
        "sweep" => store.sweep().await.unwrap(),
        _ => drop(store.forget("a").await.unwrap()),
    }
    client.list("", 10).await.unwrap().len() as u64
}

/// Tests a database whose clock was two hours ahead for a while.
async fn clock_goes_back(clock: &ClockShim, step: impl AsyncFn(&str) -> u64) {
    for removal in ["sweep", "forget"] {
        clock.set_offset(7200.0).unwrap();
        let ahead = step("use").await;
        clock.set_offset(0.0).unwrap();
        let back = step("use").await;
        assert!(back > ahead);
        clock.set_offset(3700.0).unwrap();
        assert_eq!(step(removal).await, 1, "{removal}: the clock has not passed the last token");
        let next = step("use").await;
        assert!(next > back, "{removal}: token {next} after {back}");
        clock.set_offset(11_000.0).unwrap();
        assert_eq!(step(removal).await, 0, "{removal}: it has passed the token");
        assert!(step("use").await > next, "{removal}");
        // The next round begins without a row.
        clock.set_offset(15_000.0).unwrap();
        assert_eq!(step(removal).await, 0);
    }
}

#[tokio::test]
async fn tokens_grow_over_clean_up_when_the_clock_of_postgres_went_back() {
    if Needs::Postgres.is_skipped() {
        return;
    }
    let clock = ClockShim::build().unwrap();
    let server = Postgres::start_with_clock(&[], &clock).unwrap();
    let url = server.url();
    clock_goes_back(&clock, async |what: &str| step(what, &url).await).await;
}

#[tokio::test]
async fn tokens_grow_over_clean_up_when_the_clock_of_mysql_went_back() {
    if Needs::MySql.is_skipped() {
        return;
    }
    let clock = ClockShim::build().unwrap();
    let server = MariaDb::start_with_clock(&[], &clock).unwrap();
    let url = server.url();
    clock_goes_back(&clock, async |what: &str| step(what, &url).await).await;
}

/// The clock of SQLite is that of the process.
#[tokio::test]
async fn tokens_grow_over_clean_up_when_the_clock_of_sqlite_went_back() {
    if let Ok(role) = std::env::var(STEP) {
        let (what, url) = role.split_once(' ').unwrap();
        return println!("@ {} @", step(what, url).await);
    }
    let clock = ClockShim::build().unwrap();
    let place = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", place.path().join("locks.db").display());
    let this =
        "maintenance::clock_tests::tokens_grow_over_clean_up_when_the_clock_of_sqlite_went_back";
    let in_a_process = async |what: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([this, "--exact", "--nocapture"]).env(STEP, format!("{what} {url}"));
        let said = command.envs(clock.env()).output().unwrap();
        let said = format!("{said:?}");
        said.split("@ ").nth(1).and_then(|said| said.split(" @").next()?.parse().ok()).expect(&said)
    };
    clock_goes_back(&clock, in_a_process).await;
}
