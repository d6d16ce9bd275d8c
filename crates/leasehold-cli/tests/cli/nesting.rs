//! A run inside a run of the same lock would wait for itself.

use crate::support::WorkDir;

const INNER: &str = "$LEASEHOLD --store $PLACE run";

fn nested(place: &WorkDir, script: &str) -> crate::support::Done {
    let mut command = place.leasehold(&["run", "a", "--", "sh", "-c", script]);
    crate::support::Done::new(command.env("PLACE", place.store()).output().unwrap())
}

#[test]
fn the_same_lock_is_refused_at_once() {
    let place = WorkDir::new();
    let done = nested(&place, &format!("{INNER} a -- touch ran"));
    assert_eq!(done.code, 125, "{done:?}");
    assert!(done.err.contains("wait for itself") && !place.path("ran").exists(), "{done:?}");
}

#[test]
fn another_lock_is_fine_and_both_are_remembered() {
    let place = WorkDir::new();
    assert_eq!(nested(&place, &format!("{INNER} b -- sh -c 'exit 6'")).code, 6);
    let done = nested(&place, &format!("{INNER} b -- {INNER} a -- touch ran"));
    assert_eq!(done.code, 125, "{done:?}");
}

#[test]
fn the_same_name_in_another_store_is_another_lock() {
    let place = WorkDir::new();
    assert_eq!(nested(&place, "$LEASEHOLD --store ${PLACE}2 run a -- sh -c 'exit 6'").code, 6);
}

#[test]
fn the_same_lock_is_refused_when_the_store_comes_from_the_environment() {
    let place = WorkDir::new();
    let run = ["run", "a", "--", "sh", "-c", "$LEASEHOLD run a -- touch ran"];
    let mut command = place.program(crate::support::LEASEHOLD);
    let output = command.args(run).env("LEASEHOLD_STORE", place.store()).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(!place.path("ran").exists());
}

fn with_variable(place: &WorkDir, name: &str, key: &str, value: &str) -> i32 {
    let mut command = place.leasehold(&["run", "-n", "-E", "9", name, "--", "touch", "ran"]);
    command.env(key, value).output().unwrap().status.code().unwrap()
}

#[test]
fn the_name_alone_is_enough_when_nothing_else_is_known() {
    let place = WorkDir::new();
    let _holder = place.start_ready(&["a"], "touch ready; sleep 60");
    assert_eq!(with_variable(&place, "a", "LEASEHOLD_NAME", "a"), 125);
    assert_eq!(with_variable(&place, "a", "LEASEHOLD_NAME", "b"), 9);
}

#[test]
fn a_daemon_that_outlived_its_run_may_take_the_lock() {
    let place = WorkDir::new();
    let held = nested(&place, "echo $LEASEHOLD_HELD").out;
    assert_eq!(with_variable(&place, "a", "LEASEHOLD_HELD", held.trim()), 0);
}

#[test]
fn a_chain_of_runs_of_one_lock_does_not_let_the_variable_grow() {
    let place = WorkDir::new();
    let held = nested(&place, "echo \"$LEASEHOLD_HELD\"").out;
    let mut command = place.leasehold(&["run", "a", "--", "sh", "-c", "echo \"$LEASEHOLD_HELD\""]);
    let again = command.env("LEASEHOLD_HELD", held.trim()).output().unwrap();
    assert_eq!(String::from_utf8(again.stdout).unwrap(), held);
}
