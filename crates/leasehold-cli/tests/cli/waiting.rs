//! Waiting: how long, whom for, and leaving no trace.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::screen::Terminal;
use crate::support::WorkDir;

const HOLD: &str = "touch ready; while [ ! -e stop ]; do sleep 0.01; done";

#[test]
fn no_wait_ends_at_once_and_runs_nothing() {
    let place = WorkDir::new();
    let _holder = place.start_ready(&["a"], HOLD);
    for option in [["-n"].as_slice(), &["-w", "0"], &["--wait=0ms"], &["--no-wait"]] {
        let mut arguments = vec!["run", "a"];
        arguments.extend(option);
        arguments.extend(["--", "touch", "ran"]);
        let done = place.run(&arguments);
        assert_eq!((done.code, done.err.as_str()), (1, ""), "silent in a log, as flock -n is");
    }
    let done = place.run(&["run", "-vn", "a", "touch", "ran"]);
    assert!(done.err.contains("cannot acquire a: held by"), "{done:?}");
    assert!(!place.path("ran").exists());
}

#[test]
fn a_wait_that_is_over_says_who_had_the_lock() {
    let place = WorkDir::new();
    let holder = place.start_ready(&["a"], HOLD);
    let start = Instant::now();
    let done = place.run(&["run", "-w", "300ms", "a", "touch", "ran"]);
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert_eq!(done.code, 1);
    let what = "timed out after 300ms waiting for a: held by ";
    assert!(done.err.contains(what), "{done:?}");
    assert!(done.err.contains(&format!("/{}", holder.pid())), "{done:?}");
    assert!(!place.path("ran").exists());
}

#[test]
fn of_two_shells_the_second_says_whom_it_waits_for_and_then_runs() {
    let place = WorkDir::new();
    let first = place.start_ready(&["jobs/nightly"], HOLD);
    let (second, err) = place.start_waiting(&["jobs/nightly", "--", "echo", "second"]);
    place.write("stop", "");
    let done = second.end();
    assert_eq!((done.code, done.out.as_str()), (0, "second\n"));
    let err = place.read(&err);
    assert!(err.starts_with("leasehold: waiting for jobs/nightly, held by "), "{err}");
    let holder = format!("/{}", first.pid());
    assert!(err.contains(&holder) && err.lines().count() == 1, "{err}");
    assert_eq!(first.end().code, 0);
}

#[test]
fn a_waiter_says_how_many_are_ahead() {
    let place = WorkDir::new();
    let _first = place.start_ready(&["a"], HOLD);
    let (second, next) = place.start_waiting(&["a", "--", "echo", "second"]);
    let (third, behind) = place.start_waiting(&["a", "--", "echo", "third"]);
    let of = |file: &str| place.read(file).trim_end().to_owned();
    assert!(of(&next).ends_with(", next in line"), "{}", of(&next));
    assert!(of(&behind).ends_with(", 1 waiter ahead"), "{}", of(&behind));
    let status = place.run(&["status", "a"]);
    let of = |pid: i32| status.out.find(&format!("/{pid}"));
    assert!(of(second.pid()).unwrap() < of(third.pid()).unwrap(), "{status:?}");
    place.write("stop", "");
    assert_eq!((second.end().code, third.end().code), (0, 0));
}

#[test]
fn quiet_says_nothing_while_it_waits() {
    let place = WorkDir::new();
    let _first = place.start_ready(&["a"], HOLD);
    let done = place.run(&["run", "-q", "-w", "500ms", "a", "true"]);
    assert_eq!((done.code, done.err.as_str()), (1, ""));
}

#[test]
fn a_terminal_shows_a_live_line_that_goes_away() {
    let place = WorkDir::new();
    let first = place.start_ready(&["a"], HOLD);
    let mut terminal =
        Terminal::start(&place, crate::support::LEASEHOLD, &["run", "a", "--", "echo", "mine"]);
    terminal.expect("waiting for a, held by ");
    terminal.expect(&format!("/{} for ", first.pid()));
    terminal.expect("waiting for a, held by "); // It is drawn anew.
    place.write("stop", "");
    terminal.expect("mine");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_signal_ends_the_waiting_and_leaves_no_waiter() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        let place = WorkDir::new();
        let holder = place.start_ready(&["a"], HOLD);
        let (waiter, _) = place.start_waiting(&["a", "--", "touch", "ran"]);
        waiter.send(signal);
        assert_eq!(waiter.end().code, 128 + signal as i32);
        let status = place.run(&["status", "a", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status.out).unwrap();
        let waiters = status["waiters"].as_array().map_or(0, Vec::len);
        assert_eq!(waiters, 0, "{status}");
        place.write("stop", "");
        assert_eq!(holder.end().code, 0);
        assert_eq!(place.run(&["run", "-n", "a", "true"]).code, 0);
        assert!(!place.path("ran").exists());
    }
}
