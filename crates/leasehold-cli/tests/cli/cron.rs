//! The same short job started on two machines whose clocks differ a little.

use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::support::{Place, until};

/// A tenth of the story's times: a job of 1 s, clocks 3 s apart, a minimum hold of 10 s.
const APART: Duration = Duration::from_millis(300);

fn both(place: &Place, options: &[&str]) -> [i32; 2] {
    let mut arguments = vec!["run", "-n"];
    arguments.extend(options);
    arguments.extend(["nightly", "--", "sh", "-c", "echo ran >> log; sleep 0.1"]);
    let first = place.start(&arguments);
    until("the first job has started", || place.read("log").lines().count() == 1);
    sleep(APART); // The clocks' difference: the story, not an assertion.
    let second = place.run(&arguments);
    [first.end().code, second.code]
}

#[test]
fn with_a_minimum_hold_it_runs_once() {
    let place = Place::new();
    let start = Instant::now();
    assert_eq!(both(&place, &["--min-hold", "2s"]), [0, 1]);
    assert_eq!(place.read("log"), "ran\n");
    assert!(start.elapsed() >= Duration::from_secs(2), "the first one kept it");
    assert_eq!(place.run(&["run", "-n", "nightly", "true"]).code, 0, "and then gave it back");
}

#[test]
fn without_one_it_runs_twice() {
    let place = Place::new();
    assert_eq!(both(&place, &[]), [0, 0]);
    assert_eq!(place.read("log"), "ran\nran\n");
}

#[test]
fn a_job_that_could_not_be_started_keeps_nobody_out() {
    let place = Place::new();
    let failed = ["run", "-n", "--min-hold", "1h", "a", "--", "no-such-command-anywhere"];
    assert_eq!(place.run(&failed).code, 127);
    assert_eq!(place.run(&["run", "-n", "a", "true"]).code, 0);
}

#[test]
fn a_signal_ends_the_minimum_hold_and_the_lock_with_it() {
    let place = Place::new();
    let running = place.start_ready(&["--min-hold", "1h", "a"], "touch ready");
    until("it keeps the lock without a command", || {
        crate::support::children(running.pid()).is_empty()
    });
    assert_eq!(place.run(&["run", "-n", "a", "true"]).code, 1);
    running.send(Signal::SIGTERM);
    assert_eq!(running.end().code, 143);
    assert_eq!(place.run(&["run", "-n", "a", "true"]).code, 0);
}
