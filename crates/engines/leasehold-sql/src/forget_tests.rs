//! Tests of forgetting very many locks: limited statements, and progress that a failure keeps.

use leasehold_core::StoreUrl;
use leasehold_core::clock::Clock;
use leasehold_test_servers::{MariaDb, Needs, Postgres};

use super::*;
use crate::address::Address;
use crate::connection::Connection;

/// The number of locks, of which every fifth is held.
const ALL: u64 = 5000;
const FREE: u64 = ALL / 5 * 4;

async fn store(url: &str) -> Store {
    let address = Address::parse(StoreUrl::parse(url).unwrap()).unwrap();
    let store = Store::new(&address, Clock::system());
    store.prepare().await.unwrap();
    store
}

async fn run(store: &Store, packet: &Packet) -> u64 {
    let replies = store.run(Lane::Usual, packet, store.within(MAKING)).await.unwrap();
    replies.first().unwrap().affected
}

async fn count(store: &Store, table: &str, condition: &str) -> u64 {
    let statement = format!("SELECT COUNT(*) FROM {table} WHERE {condition}");
    let packet = store.tables.dialect.plain(&[statement]);
    let replies = store.run(Lane::Usual, &packet, store.within(MAKING)).await.unwrap();
    replies.first().unwrap().rows[0][0].unsigned().unwrap()
}

fn name(number: u64) -> String {
    format!("job/{number:08}")
}

/// Creates the locks, as many ended attempts, and a free lock of another name.
async fn fill(store: &Store) {
    let Tables { dialect, locks, ended, .. } = &store.tables;
    let (nothing, clock) = (dialect.bytes(b""), dialect.now());
    let lock = |name: &str, state: u64| {
        let name = dialect.bytes(name.as_bytes());
        let until = if state == 0 { "1".to_owned() } else { format!("{clock} + 600000000") };
        format!("({name}, 1, {state}, {nothing}, {nothing}, 1, 1, 0, {until}, 1, 1, 0, 0, 0)")
    };
    let into = format!(
        "INSERT INTO {locks} (name, stamp, state, attempt, person, base, top, lost, until_us, since_us, \
         confirmed, line, ended_us, ticket) VALUES "
    );
    for first in (0..ALL).step_by(500) {
        let rows: Vec<String> = (first..first + 500)
            .map(|number| lock(&name(number), u64::from(number % 5 == 0)))
            .collect();
        run(store, &dialect.plain(&[format!("{into}{}", rows.join(", "))])).await;
        let rows: Vec<String> = (first..first + 500)
            .map(|number| {
                let attempt = dialect.bytes(&u128::from(number).to_be_bytes());
                format!("({attempt}, {}, 1)", dialect.bytes(name(number).as_bytes()))
            })
            .collect();
        let rows = rows.join(", ");
        let insert = format!("INSERT INTO {ended} (attempt, name, until_us) VALUES {rows}");
        run(store, &dialect.plain(&[insert])).await;
    }
    run(store, &dialect.plain(&[format!("{into}{}", lock("other", 0))])).await;
}

async fn forgets_in_batches(url: &str) {
    let store = store(url).await;
    fill(&store).await;
    let Tables { locks, ended, .. } = store.tables.clone();
    // Without a range, one statement still removes at most one batch.
    assert_eq!(run(&store, &store.batch("job/", None, None)).await, SWEPT);
    assert_eq!(run(&store, &store.ended("job/")).await, SWEPT);
    assert_eq!(store.forget("job/").await.unwrap(), FREE - SWEPT);
    assert_eq!(count(&store, &locks, "state = 1").await, ALL - FREE, "held locks stay");
    assert_eq!(count(&store, &locks, "state = 0").await, 1, "another name stays");
    assert_eq!(count(&store, &ended, "1 = 1").await, 0);
}

#[tokio::test]
async fn forget_removes_a_bounded_number_of_rows_per_statement_on_sqlite() {
    let place = tempfile::tempdir().unwrap();
    forgets_in_batches(&format!("sqlite:{}", place.path().join("locks.db").display())).await;
}

/// Another transaction locks a row near the end: the earlier batches are done and stay so.
async fn failure_keeps_progress(url: &str) {
    let address = Address::parse(StoreUrl::parse(url).unwrap()).unwrap();
    let store = store(url).await;
    fill(&store).await;
    let Tables { dialect, locks, .. } = &store.tables;
    let row = dialect.bytes(name(ALL - 1).as_bytes());
    let mut blocker = Connection::open(&address.target).await.unwrap();
    let lock = format!("BEGIN; SELECT state FROM {locks} WHERE name = {row} FOR UPDATE");
    blocker.run(&lock).await.unwrap();
    let error = store.forget("job/").await.expect_err("a row is locked");
    // The last batch has 800 free rows, and there is the row of another name.
    assert_eq!(count(&store, locks, "state = 0").await, 801, "{error}");
    blocker.run("ROLLBACK").await.unwrap();
    assert_eq!(store.forget("job/").await.unwrap(), 800);
}

#[tokio::test]
async fn forget_removes_a_bounded_number_of_rows_per_statement_on_postgres() {
    if !Needs::Postgres.is_skipped() {
        let server = Postgres::start(&[]).unwrap();
        forgets_in_batches(&server.url()).await;
    }
}

#[tokio::test]
async fn forget_removes_a_bounded_number_of_rows_per_statement_on_mysql() {
    if !Needs::MySql.is_skipped() {
        let server = MariaDb::start(&[]).unwrap();
        forgets_in_batches(&server.url()).await;
    }
}

#[tokio::test]
async fn a_failed_forget_keeps_what_it_removed_on_postgres() {
    if !Needs::Postgres.is_skipped() {
        let server = Postgres::start(&[]).unwrap();
        failure_keeps_progress(&server.url()).await;
    }
}

#[tokio::test]
async fn a_failed_forget_keeps_what_it_removed_on_mysql() {
    if !Needs::MySql.is_skipped() {
        let server = MariaDb::start(&[]).unwrap();
        failure_keeps_progress(&server.url()).await;
    }
}
