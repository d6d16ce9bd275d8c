//! What happens to a command whose lock is lost.

use std::time::{Duration, Instant};

use crate::support::{Place, numbers, runs};

#[test]
fn a_command_that_ignores_term_is_killed_before_the_deadline() {
    let place = Place::new();
    let script = "trap '' TERM; echo $$ > pid; while :; do sleep 0.01; done";
    let start = Instant::now();
    let done = place.run(&["run", "--max-hold", "900ms", "a", "--", "sh", "-c", script]);
    let took = start.elapsed();
    assert_eq!(done.code, 76, "{done:?}");
    assert!(!runs(numbers(&place.read("pid"))[0]));
    assert!(took > Duration::from_millis(400), "not before its time: {took:?}");
}

#[test]
fn a_command_may_clean_up_after_term() {
    let place = Place::new();
    let script = "trap 'echo bye > note; exit 0' TERM; while :; do sleep 0.01; done";
    let done = place.run(&["run", "--max-hold", "600ms", "a", "--", "sh", "-c", script]);
    assert_eq!((done.code, place.read("note").as_str()), (76, "bye\n"));
}

#[test]
fn a_long_kill_after_is_cut_at_the_deadline() {
    let place = Place::new();
    let script = "trap '' TERM; while :; do sleep 0.01; done";
    let start = Instant::now();
    let done = place.run(&[
        "run",
        "--max-hold",
        "600ms",
        "--kill-after",
        "1h",
        "a",
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(done.code, 76);
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_stopped_command_is_ended_too() {
    let place = Place::new();
    let done = place.run(&["run", "--max-hold", "600ms", "a", "--", "sh", "-c", "kill -STOP $$"]);
    assert_eq!(done.code, 76, "{done:?}");
}

#[test]
fn on_lost_warn_says_so_and_lets_the_command_go_on() {
    let place = Place::new();
    let options = ["run", "--max-hold", "300ms", "--on-lost", "warn", "a", "--"];
    let script = ["sh", "-c", "sleep 0.6; exit 4"];
    let done = place.run(&[&options[..], &script].concat());
    assert_eq!(done.code, 4, "{done:?}");
    assert_eq!(done.err.matches("the lock a is lost").count(), 1, "{done:?}");
    assert!(done.err.contains("goes on") && done.err.lines().count() == 1, "{done:?}");
}

#[test]
fn on_lost_ignore_says_nothing() {
    let place = Place::new();
    let options = ["run", "--max-hold", "300ms", "--on-lost", "ignore", "a", "--"];
    let done = place.run(&[&options[..], &["sh", "-c", "sleep 0.6; exit 4"]].concat());
    assert_eq!((done.code, done.err.as_str()), (4, ""));
}
