//! Rows that many clients write: each guarantee on PostgreSQL, MariaDB and SQLite.

#![allow(clippy::unwrap_used)]

mod bad_input;
mod database;
mod fence;
mod pessimistic;
mod pooler;
mod versioned;

use std::process::ExitCode;
use std::sync::Arc;

use database::{Databases, trial, trials};
use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let databases = Arc::new(Databases::default());
    let mut trials = trials!(
        &databases,
        fence::an_older_token_changes_nothing,
        fence::of_concurrent_writers_the_last_token_stays,
        fence::a_snapshot_from_before_hides_no_token,
        fence::a_row_without_a_token_takes_the_first,
        fence::a_paused_holders_late_write_is_refused,
        fence::a_late_write_is_refused_once_readers_announce,
        fence::resources_differ_in_every_byte,
        pessimistic::a_locked_row_is_waited_for,
        pessimistic::without_waiting_a_locked_row_is_a_timeout_at_once,
        pessimistic::a_time_limit_is_kept_and_holds_for_one_statement,
        pessimistic::locked_rows_are_skipped,
        pessimistic::a_deadlock_is_a_conflict_and_the_retry_gets_through,
        versioned::no_update_is_lost,
        versioned::a_row_that_has_changed_is_a_conflict,
        versioned::a_table_may_have_its_schema_before_it,
        versioned::tries_are_bounded,
        versioned::a_snapshot_that_others_were_faster_than_is_a_conflict,
        bad_input::what_is_missing_or_of_the_wrong_type_is_named,
        bad_input::what_is_refused_changes_nothing,
    );
    trials.push(trial(
        "pgbouncer",
        "pooler::all_of_it_works_behind_a_pooler",
        &databases,
        pooler::all_of_it,
    ));
    let code = libtest_mimic::run(&arguments, trials).exit_code();
    drop(databases);
    code
}
