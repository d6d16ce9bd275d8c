//! The same short job started on two machines whose clocks differ a little.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::screen::Terminal;
use crate::support::{LEASEHOLD, WorkDir, children, until};

/// The clocks' difference: the job of the first is over by then.
fn both(place: &WorkDir, options: &[&str]) -> [i32; 2] {
    let mut arguments = vec!["run", "-n"];
    arguments.extend(options);
    arguments.extend(["nightly", "--", "sh", "-c", "echo ran >> log"]);
    let mut first = place.start(&arguments);
    until("the first job has started", || place.read("log").lines().count() == 1);
    if options.is_empty() {
        first.until_ended();
    } else {
        until("its job is over", || children(first.pid()).is_empty());
    }
    let second = place.run(&arguments);
    [first.end().code, second.code]
}

#[test]
fn with_a_minimum_hold_it_runs_once() {
    let place = WorkDir::new();
    let start = Instant::now();
    assert_eq!(both(&place, &["--min-hold", "6s"]), [0, 1]);
    assert_eq!(place.read("log"), "ran\n");
    assert!(start.elapsed() >= Duration::from_secs(6), "the first one kept it");
    assert_eq!(place.run(&["run", "-n", "nightly", "true"]).code, 0, "and then gave it back");
}

#[test]
fn without_one_it_runs_twice() {
    let place = WorkDir::new();
    assert_eq!(both(&place, &[]), [0, 0]);
    assert_eq!(place.read("log"), "ran\nran\n");
}

/// Ends a command that stays for an hour, by a signal to `leasehold` or a key.
fn told_to_end(script: &str, signal: Signal) -> i32 {
    let place = WorkDir::new();
    let script = format!("{script} touch ready; while :; do sleep 0.01; done");
    let running = place.start_ready(&["--min-hold", "1h", "a"], &script);
    running.send(signal);
    let code = running.end().code;
    assert_eq!(place.run(&["run", "-n", "a", "true"]).code, 0, "the lock is free");
    code
}

#[test]
fn a_signal_that_ends_the_command_ends_the_minimum_hold_too() {
    assert_eq!(told_to_end("", Signal::SIGTERM), 143);
    assert_eq!(told_to_end("", Signal::SIGINT), 130);
    assert_eq!(told_to_end("", Signal::SIGHUP), 129);
    assert_eq!(told_to_end("trap 'exit 4' TERM;", Signal::SIGTERM), 4, "it may clean up");
}

#[test]
fn the_interrupt_key_ends_the_minimum_hold_too() {
    for (script, code) in [("", -1), ("trap 'exit 130' INT;", 130)] {
        let place = WorkDir::new();
        let script = format!("{script} echo up; while :; do sleep 0.01; done");
        let arguments = ["run", "--min-hold", "1h", "a", "--", "sh", "-c", &script];
        let mut terminal = Terminal::start(&place, LEASEHOLD, &arguments);
        terminal.expect("up");
        terminal.send("\x03");
        assert_eq!(terminal.end(), code);
        assert_eq!(place.run(&["run", "-n", "a", "true"]).code, 0, "the lock is free");
    }
}

#[test]
fn a_signal_that_the_command_outlives_does_not_end_the_minimum_hold() {
    let place = WorkDir::new();
    let script = "trap 'touch heard' HUP; touch ready; until [ -e heard ]; do sleep 0.01; done";
    let running = place.start_ready(&["--min-hold", "1h", "a"], script);
    running.send(Signal::SIGHUP);
    until("it keeps the lock without a command", || children(running.pid()).is_empty());
    assert_eq!(place.run(&["run", "-n", "a", "true"]).code, 1);
}

#[test]
fn the_minimum_hold_is_told_on_a_terminal_or_when_asked_for() {
    let place = WorkDir::new();
    let arguments = ["run", "--min-hold", "1h", "a", "true"];
    let mut terminal = Terminal::start(&place, LEASEHOLD, &arguments);
    terminal.expect("keeping the lock a for 59 min more");
    terminal.send("\x03");
    assert_eq!(terminal.end(), 130, "the key ends the stay");
    let asked = place.start_saying(&["-v", "run", "--min-hold", "1h", "a", "true"], "err");
    until("it says so", || place.read("err").contains("keeping the lock a for "));
    asked.send(Signal::SIGTERM);
    assert_eq!(asked.end().code, 143);
    assert_eq!(place.run(&["run", "--min-hold", "1s", "a", "true"]).err, "");
}

#[test]
fn a_job_that_could_not_be_started_keeps_nobody_out() {
    let place = WorkDir::new();
    let failed = ["run", "-n", "--min-hold", "1h", "a", "--", "no-such-command-anywhere"];
    assert_eq!(place.run(&failed).code, 127);
    assert_eq!(place.run(&["run", "-n", "a", "true"]).code, 0);
}

#[test]
fn a_signal_ends_the_minimum_hold_and_the_lock_with_it() {
    let place = WorkDir::new();
    let running = place.start_ready(&["--min-hold", "1h", "a"], "touch ready");
    until("it keeps the lock without a command", || children(running.pid()).is_empty());
    assert_eq!(place.run(&["run", "-n", "a", "true"]).code, 1);
    running.send(Signal::SIGTERM);
    assert_eq!(running.end().code, 143);
    assert_eq!(place.run(&["run", "-n", "a", "true"]).code, 0);
}
