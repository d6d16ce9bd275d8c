//! `leasehold bench` measures on the user's store and leaves nothing behind.

use std::fs;

use serde_json::Value;

use crate::support::{Done, WorkDir};

/// As short as it gets.
const SHORT: [&str; 5] = ["--quick", "--rounds", "1", "--runtime", "current"];

/// Runs a benchmark to its end on a store.
pub(crate) fn bench(place: &WorkDir, store: &str, arguments: &[&str]) -> Done {
    place.run(&[&["--store", store, "bench"], arguments, &SHORT].concat())
}

/// All three with tiny numbers.
pub(crate) fn all_three(place: &WorkDir, store: &str) {
    for (arguments, metrics) in [
        (&["pairs", "--tasks", "1,3"][..], &["pairs_per_s", "client_us_per_pair"][..]),
        (
            &["contention", "--shapes", "1x2,2x2", "--hold", "0,1ms"],
            &["handoffs_per_s", "wait_ms_p99", "jain_tasks", "jain_processes", "overlaps"],
        ),
        (
            &["hold", "--locks", "20", "--waiters", "20", "--seconds", "1"],
            &["bytes_per_lock", "client_ms_per_s", "bytes_per_waiter"],
        ),
    ] {
        let files = ["--json", "bench.json", "--svg", "bench.svg"];
        let done = bench(place, store, &[arguments, &files].concat());
        assert_eq!(done.code, 0, "{done:?}");
        assert!(done.out.starts_with("subject") || done.out.contains("\nsubject"), "{done:?}");
        let lines = place.read("bench.json");
        let figures: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for metric in metrics {
            let found: Vec<_> = figures.iter().filter(|one| one["metric"] == **metric).collect();
            assert!(!found.is_empty(), "no {metric} in {lines}");
            for one in found {
                assert!(one["value"].as_f64().unwrap() >= 0.0 && one["subject"] == "leasehold");
                assert!(*metric != "overlaps" || one["value"] == 0.0, "{one}");
            }
        }
        assert!(place.read("bench.svg").starts_with("<svg"));
    }
}

#[test]
fn all_benchmarks_measure_and_remove_their_locks_and_no_others() {
    let place = WorkDir::new();
    assert_eq!(place.run(&["run", "mine", "true"]).code, 0);
    let files = || {
        let all = fs::read_dir(place.path("store/locks")).unwrap().flatten();
        let mut names: Vec<_> = all.map(|file| file.file_name()).collect();
        names.sort();
        names
    };
    let before = files();
    assert!(!before.is_empty());
    all_three(&place, &place.store());
    assert_eq!(files(), before);
}

#[test]
fn the_judge_tells_of_overlaps_and_tokens() {
    let place = WorkDir::new();
    let done = bench(&place, &place.store(), &["contention", "--shapes", "2x2", "--hold", "0"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("never two at once, every token larger"), "{}", done.out);
}

#[test]
fn absurd_values_are_refused_before_anything_is_measured() {
    let place = WorkDir::new();
    for (arguments, parts) in [
        (vec!["pairs", "--tasks", "0"], ["--tasks", "1 to 1000000"]),
        (vec!["pairs", "--tasks", "1000001"], ["--tasks", "1 to 1000000"]),
        (vec!["contention", "--shapes", "65x1"], ["--shapes", "64 processes"]),
        (vec!["contention", "--shapes", "64x10000"], ["--shapes", "20000 in all"]),
        (vec!["contention", "--hold", "1h"], ["--hold", "up to 10s"]),
        (vec!["hold", "--seconds", "0"], ["--seconds", "1..=3600"]),
        (vec!["pairs", "--json", "/dev/null/nowhere/at/all"], ["--json", "cannot be written"]),
    ] {
        let done = bench(&place, &place.store(), &arguments);
        assert_eq!(done.code, 125, "{done:?}");
        assert!(parts.iter().all(|part| done.err.contains(part)), "{arguments:?}: {done:?}");
    }
    let done = bench(&place, "redis://user:s3cret@127.0.0.1:1", &["pairs"]);
    assert_eq!(done.code, 69, "{done:?}");
    assert!(!done.err.contains("s3cret"), "{done:?}");
}
