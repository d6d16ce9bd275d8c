//! A few seconds of chaos with cached leases, readers, permits, elections and multi-locks, and every promise kept. A test has its own
//! servers, and asserts no time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod runs;

use std::process::Command;

use leasehold_test_servers::Needs;
use runs::{CHAOS, Place, leasehold};
use serde_json::Value;

/// 15 s.
const MINUTES: &str = "0.25";

/// What a run has written that kept every promise.
fn run(args: &[&str]) -> String {
    let _place = Place::take();
    let output = Command::new(CHAOS).args(args).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let seen = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{args:?}: {told}{seen}");
    println!("{told}{seen}");
    seen.into_owned()
}

/// The JSON of a run of a workload.
fn chaos(workload: &str, engine: &str, clients: &str) -> Value {
    let path = leasehold().to_str().unwrap();
    let args = ["--json", "--leasehold", path, "--minutes", MINUTES, "--workload", workload];
    let seen = run(&[&args[..], &["--engine", engine, "--clients", clients]].concat());
    serde_json::from_str(&seen).unwrap()
}

fn number(seen: &Value, name: &str) -> u64 {
    seen[name].as_u64().unwrap()
}

/// Runs a test on each engine whose servers are installed, side by side.
fn on_each(engines: &[(&str, Needs)], test: impl Fn(&str) + Sync) {
    std::thread::scope(|scope| {
        for (engine, _) in engines.iter().filter(|(_, needs)| !needs.is_skipped()) {
            scope.spawn(|| test(engine));
        }
    });
}

#[test]
fn cached_leases_end_when_they_must_whatever_happens() {
    on_each(&[("redis", Needs::Redis)], |engine| {
        let seen = chaos("cached", engine, "4");
        assert!(number(&seen["cached"], "takes") > 0, "{seen}");
    });
}

#[test]
fn readers_never_meet_a_writer_whatever_happens() {
    on_each(&[("file", Needs::Nothing), ("redis", Needs::Redis)], |engine| {
        let seen = chaos("readers", engine, "4");
        assert!(number(&seen, "reads") > 0 && number(&seen, "writes") > 0, "{seen}");
        assert!(number(&seen["file_locks"], "taken") > 0, "{seen}");
    });
}

/// Where nothing goes wrong, the judge looks at each wait of a writer, and a run with one phase of readers too many fails.
#[test]
fn a_writer_waits_for_one_phase_of_readers_for_each_writer_before_it() {
    let folder = tempfile::tempdir().unwrap();
    on_each(&[("file", Needs::Nothing), ("redis", Needs::Redis)], |engine| {
        let plan = folder.path().join(engine);
        let run_of =
            format!("engine {engine}\nseed 1\ntime 15000\nworkload readers\nclients 8\ntasks 4\n");
        std::fs::write(&plan, run_of).unwrap();
        let command = leasehold().to_str().unwrap();
        let seen = run(&["--json", "--leasehold", command, "--plan", plan.to_str().unwrap()]);
        let seen: Value = serde_json::from_str(&seen).unwrap();
        assert!(number(&seen, "waits_of_queued_writers_judged") > 0, "{seen}");
    });
}

#[test]
fn there_are_never_more_permits_than_slots_whatever_happens() {
    on_each(&[("file", Needs::Nothing), ("redis", Needs::Redis)], |engine| {
        let seen = chaos("permits", engine, "8");
        assert!(number(&seen["file_locks"], "taken") > 0, "{seen}");
        assert!(number(&seen["fenced"], "taken") > 0, "{seen}");
    });
}

#[test]
fn there_is_never_more_than_one_leader_and_observers_see_each() {
    on_each(&[("file", Needs::Nothing), ("redis", Needs::Redis)], |engine| {
        let row = run(&["election", "--engine", engine, "--times", "5", "--clients", "3", "--row"]);
        assert!(row.starts_with(&format!("| `{engine}` |")), "{row}");
    });
}

/// `LEASEHOLD_TRANSFERS` is the number of multi-locks on each engine, a fifth of it on PostgreSQL, where each wait takes longer. It is
/// 1000, unless it says otherwise.
#[test]
fn multi_locks_of_many_processes_never_deadlock_and_leave_nothing_behind() {
    let times = std::env::var("LEASEHOLD_TRANSFERS");
    let times: u32 = times.map_or(1000, |times| times.parse().unwrap());
    let engines =
        [("file", Needs::Nothing), ("redis", Needs::Redis), ("postgres", Needs::Postgres)];
    on_each(&engines, |engine| {
        let times = if engine == "postgres" { times / 5 } else { times };
        let seen = run(&["transfers", "--engine", engine, "--times", &times.to_string()]);
        let seen: Value = serde_json::from_str(&seen).unwrap();
        assert!(number(&seen, "done") > 0 && number(&seen, "timeouts") > 0, "{seen}");
    });
}

#[test]
fn a_workload_that_an_engine_lacks_is_refused_with_those_that_have_it() {
    let args = ["--engine", "redlock5", "--workload", "permits"];
    let output = Command::new(CHAOS).args(args).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        told.contains("`redlock5`") && told.contains("redis, ") && told.contains("file"),
        "{told}"
    );
}
