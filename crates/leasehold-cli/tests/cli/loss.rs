//! What happens to a command whose lock is lost.

use std::time::{Duration, Instant};

use leasehold_conformance::Stopwatch;
use leasehold_test_servers::ClockShim;
use nix::sys::signal::Signal;

use crate::support::{Running, WorkDir, numbers, runs, stat, until};

#[test]
fn a_command_that_ignores_term_is_killed_before_the_deadline() {
    let place = WorkDir::new();
    let script = "trap '' TERM; echo $$ > pid; while :; do sleep 0.01; done";
    let start = Instant::now();
    let done = place.run(&["run", "--max-hold", "4s", "a", "--", "sh", "-c", script]);
    let took = start.elapsed();
    assert_eq!(done.code, 76, "{done:?}");
    assert!(!runs(numbers(&place.read("pid"))[0]));
    assert!(took > Duration::from_secs(2), "not before its time: {took:?}");
}

#[test]
fn a_command_may_clean_up_after_term() {
    let (place, clock) = (WorkDir::new(), ClockShim::build().unwrap());
    let script =
        "trap 'sleep 2; echo bye > note; exit 0' TERM; touch ready; while :; do sleep 0.01; done";
    let hold = ["run", "--ttl", "20m", "--max-hold", "6m", "a", "--", "sh", "-c", script];
    let running = Running::new(place.leasehold(&hold).envs(clock.env()));
    place.until_exists("ready");
    // The loss is reported two minutes before the end of the hold; this is a minute before it.
    clock.set_offset(300.0).unwrap();
    let done = running.end();
    assert_eq!((done.code, place.read("note").as_str()), (76, "bye\n"), "{done:?}");
}

#[test]
fn a_long_kill_after_is_cut_at_the_deadline() {
    let script = "trap '' TERM; while :; do sleep 0.01; done";
    let options =
        ["run", "--max-hold", "600ms", "--kill-after", "1h", "a", "--", "sh", "-c", script];
    let (place, stopwatch) = (WorkDir::new(), Stopwatch::start());
    assert_eq!(place.start(&options).end().code, 76);
    let took = stopwatch.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn a_stopped_command_is_ended_too() {
    let place = WorkDir::new();
    let done = place.run(&["run", "--max-hold", "600ms", "a", "--", "sh", "-c", "kill -STOP $$"]);
    assert_eq!(done.code, 76, "{done:?}");
}

#[test]
fn on_lost_warn_says_so_and_lets_the_command_go_on() {
    let place = WorkDir::new();
    let script = "while [ ! -e stop ]; do sleep 0.01; done; exit 4";
    let arguments = ["run", "--max-hold", "2s", "--on-lost", "warn", "a", "--", "sh", "-c", script];
    let running = place.start_saying(&arguments, "err");
    until("it says so", || place.read("err").contains('\n'));
    place.write("stop", "");
    let (code, err) = (running.end().code, place.read("err"));
    assert_eq!(code, 4, "{err}");
    assert_eq!(err.matches("the lock a is lost").count(), 1, "{err}");
    assert!(err.contains("the command continues") && err.lines().count() == 1, "{err}");
}

#[test]
fn on_lost_ignore_says_nothing() {
    let place = WorkDir::new();
    let options = ["run", "--max-hold", "2s", "--on-lost", "ignore", "a", "--"];
    let done = place.run(&[&options[..], &["sh", "-c", "sleep 2.3; exit 4"]].concat());
    assert_eq!((done.code, done.err.as_str()), (4, ""));
}

/// As long as the leases of [`on_ttl_store`] last.
const TTL: Duration = Duration::from_secs(3);

/// A run on a store whose leases end by time: memory that no process shares.
fn on_ttl_store(place: &WorkDir, options: &[&str], script: &str) -> Running {
    let mut command = place.program(crate::support::LEASEHOLD);
    command.env("__LEASEHOLD_TEST_MEMORY", "1").args(["--store", "memory:"]);
    command.args(["run", "--ttl", "3s"]).args(options);
    Running::new(command.args(["a", "--", "sh", "-c", script]))
}

#[test]
fn a_lease_that_ends_by_time_is_renewed_while_the_command_runs() {
    let place = WorkDir::new();
    let script = "echo $LEASEHOLD_DEADLINE_UNIX_MS; sleep 4; exit 4";
    let done = on_ttl_store(&place, &[], script).end();
    assert_eq!((done.code, done.err.as_str()), (4, ""));
    assert!(done.out.trim().parse::<u64>().unwrap() > 1_700_000_000_000);
}

/// Stops `leasehold` for longer than its lease lasts.
fn stand_still(running: &Running) {
    running.send(Signal::SIGSTOP);
    until("it has stopped", || stat(running.pid()).unwrap().0 == 'T');
    std::thread::sleep(TTL + Duration::from_millis(100));
    running.send(Signal::SIGCONT);
}

#[test]
fn a_run_that_stood_still_for_longer_than_its_lease_ends_its_command() {
    let place = WorkDir::new();
    let running = on_ttl_store(&place, &[], "echo $$ > pid; touch ready; sleep 60");
    place.until_exists("ready");
    stand_still(&running);
    let done = running.end();
    assert_eq!(done.code, 76);
    assert!(done.err.contains("it could not be renewed in time"), "{done:?}");
    assert!(!runs(numbers(&place.read("pid"))[0]));
}

#[test]
fn the_supervisor_ends_the_command_in_time_while_leasehold_stands_still() {
    let place = WorkDir::new();
    let running = on_ttl_store(&place, &[], "echo $$ > pid; touch ready; sleep 60");
    place.until_exists("ready");
    running.send(Signal::SIGSTOP);
    until("the command has ended", || !runs(numbers(&place.read("pid"))[0]));
    assert_eq!(stat(running.pid()).unwrap().0, 'T', "without leasehold");
    running.send(Signal::SIGCONT);
    assert_eq!(running.end().code, 76);
}

#[test]
fn a_command_that_may_go_on_is_continued_with_leasehold() {
    let place = WorkDir::new();
    let script = "echo $$ > pid; touch ready; while [ ! -e stop ]; do sleep 0.01; done; exit 4";
    let running = on_ttl_store(&place, &["--on-lost", "warn"], script);
    place.until_exists("ready");
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(numbers(&place.read("pid"))[0]),
        Signal::SIGSTOP,
    )
    .unwrap();
    stand_still(&running);
    place.write("stop", "");
    assert_eq!(running.end().code, 4);
}
