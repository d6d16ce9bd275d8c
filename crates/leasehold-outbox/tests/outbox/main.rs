//! The outbox and its relay: each promise is tried on PostgreSQL, MariaDB and SQLite, with Redis.

// A set-up that fails is a failed test.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

// The databases are those of the tests of rows, which name the crate that has them.
extern crate leasehold as leasehold_sql;

mod bad_input;
#[allow(dead_code, reason = "shared with the tests of leasehold-sql")]
#[path = "../../../engines/leasehold-sql/tests/rows/database.rs"]
mod database;
mod deaths;
mod down;
#[cfg(feature = "nats")]
mod nats;
mod recorder;
mod relays;
mod statements;
mod transactions;
mod writer;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use database::{Databases, Talk, trial, trials};
use leasehold_cache::Cache;
use leasehold_outbox::Relay;
use leasehold_outbox::{Outbox, RelayBuilder, RelayStats};
use leasehold_test_servers::{Needs, RedisServer, RedisSettings};
use libtest_mimic::Arguments;
use sqlx::Pool;

fn main() -> ExitCode {
    if writer::is_asked_for() {
        return writer::main();
    }
    let arguments = Arguments::from_args();
    let databases = Arc::new(Databases::default());
    let mut trials = trials!(
        &databases,
        bad_input::what_is_missing_or_not_allowed_is_named,
        bad_input::what_no_cache_has_written_is_parked_and_stands_in_nobodys_way,
        bad_input::a_row_with_bad_numbers_holds_nobody_up,
        bad_input::a_parked_row_that_is_no_text_is_listed,
        bad_input::a_transport_that_refuses_what_was_not_given_is_no_delivery,
        bad_input::a_table_may_have_its_schema_before_it,
        bad_input::a_row_from_the_future_is_due,
        bad_input::a_row_that_has_the_number_of_another_stays,
        deaths::readers_see_what_a_writer_committed_before_it_was_killed,
        deaths::a_relay_that_dies_in_mid_batch_loses_nothing,
        deaths::a_server_that_takes_over_is_told_what_the_one_before_had_taken,
        down::while_redis_is_down_rows_wait_and_nothing_is_parked,
        down::a_row_that_is_refused_is_parked_with_its_reason_and_can_be_tried_anew,
        down::the_age_of_the_oldest_row_is_measured,
        down::what_the_server_refuses_altogether_parks_nothing,
        down::a_password_that_is_right_at_last_is_tried,
        deaths::a_master_that_becomes_a_replica_is_left,
        relays::two_relays_share_the_rows,
        relays::what_was_rolled_back_is_never_delivered,
        relays::a_key_that_changed_often_is_delivered_once,
        relays::a_relay_that_is_stopped_ends_its_batch,
        transactions::a_closure_that_succeeds_is_committed_and_seen,
        transactions::a_closure_that_fails_or_panics_is_rolled_back,
        transactions::a_closure_that_is_cancelled_is_rolled_back,
        transactions::a_transaction_that_is_longer_than_its_hold_is_rolled_back,
        transactions::nothing_is_written_when_redis_refuses_the_hold,
        transactions::a_commit_that_fails_releases_its_keys,
    );
    trials.push(trial(
        "postgres",
        "relays::a_relay_is_woken_by_the_commit",
        &databases,
        |databases| async move {
            relays::a_relay_is_woken_by_the_commit(databases.postgres().await).await
        },
    ));
    trials.push(trial(
        "postgres",
        "statements::a_relay_leaves_no_statements_behind",
        &databases,
        |databases| async move {
            statements::a_relay_leaves_no_statements_behind(databases.postgres().await).await
        },
    ));
    trials.push(trial(
        "postgres",
        "statements::a_relay_of_a_url_leaves_no_statements_behind",
        &databases,
        |_| statements::a_relay_of_a_url_leaves_no_statements_behind(),
    ));
    trials.push(trial(
        "postgres",
        "statements::relays_choose_their_isolation_level",
        &databases,
        |databases| async move {
            statements::relays_choose_their_isolation_level(databases.postgres().await).await
        },
    ));
    #[cfg(feature = "nats")]
    trials.extend(nats::trials(&databases));
    if Needs::Redis.is_missing() {
        trials = trials.into_iter().map(|trial| trial.with_ignored_flag(true)).collect();
    }
    let code = libtest_mimic::run(&arguments, trials).exit_code();
    drop(databases);
    code
}

fn server() -> RedisServer {
    RedisServer::start(RedisSettings::new()).unwrap()
}

/// A cache in which nothing happens by time or chance alone, and that keeps nothing itself.
fn cache(url: &str) -> Cache<str, i64> {
    let builder = Cache::builder("test").jitter(0.0).early(0.0).local_size(0);
    builder.ttl(secs(600)).redis_limit(secs(10)).hard_limit(secs(30)).open(url).unwrap()
}

/// A table, and a relay of it that looks often.
async fn outbox<E: Talk>(pool: &Pool<E>) -> (Outbox, RelayBuilder) {
    let outbox = Outbox::new();
    outbox.create(pool).await.unwrap();
    outbox.create(pool).await.unwrap(); // Nothing happens.
    let relay = Relay::builder(&outbox, pool).poll(ms(20));
    (outbox, relay)
}

/// Commits the change of these keys.
async fn change<E: Talk>(pool: &Pool<E>, outbox: &Outbox, cache: &Cache<str, i64>, keys: &[&str]) {
    let mut tx = pool.begin().await.unwrap();
    cache.invalidate_in_tx(outbox, &mut tx, keys).await.unwrap();
    tx.commit().await.unwrap();
}

async fn rows<E: Talk>(pool: &Pool<E>) -> i64 {
    database::number(pool, "SELECT COUNT(*) FROM leasehold_cache_outbox").await
}

/// The value as the cache says; 0 when there is none.
async fn read<E: Talk>(cache: &Cache<str, i64>, pool: &Pool<E>) -> i64 {
    let pool = pool.clone();
    let load = move |_| async move {
        let amount = database::number(&pool, "SELECT amount FROM stock WHERE item = 1").await;
        Ok::<_, String>(Some(amount))
    };
    cache.get("1", load).await.unwrap().unwrap_or(0)
}

/// Runs a relay as long as the test.
fn start(relay: &Relay) -> tokio::task::JoinHandle<()> {
    let relay = relay.clone();
    tokio::spawn(async move { relay.run(std::future::pending()).await })
}

/// Waits until something is so.
async fn until<F: Future<Output = bool>>(what: &str, mut so: impl FnMut() -> F) {
    for _ in 0..12_000 {
        if so().await {
            return;
        }
        tokio::time::sleep(ms(5)).await;
    }
    panic!("did not happen: {what}");
}

async fn until_stats(what: &str, relay: &Relay, so: impl Fn(&RelayStats) -> bool) {
    until(what, || std::future::ready(so(&relay.stats()))).await;
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
