//! The program `leasehold-bench` on servers of its own, with tiny numbers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

use leasehold_conformance::kit::{RedisServer, required};
use serde_json::Value;

/// The figures of a benchmark on Redis; none, and a word, where no server is installed.
fn figures(arguments: &[&str]) -> Option<Vec<Value>> {
    if !RedisServer::is_present() && !required("redis") {
        eprintln!("SKIPPED: redis-server is not installed");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("bench.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold-bench"));
    command.args(arguments).args(["--quick", "--rounds", "1", "--json"]);
    let output = command.arg(&json).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = std::fs::read_to_string(json).unwrap();
    Some(lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// The values of a metric for a subject.
fn of(figures: &[Value], subject: &str, metric: &str) -> Vec<f64> {
    let fits = |one: &&Value| one["subject"] == subject && one["metric"] == metric;
    figures.iter().filter(fits).map(|one| one["value"].as_f64().unwrap()).collect()
}

#[test]
fn pairs_stand_beside_the_limits_with_fresh_names_and_from_afar() {
    let all = ["pairs", "--backend=redis", "--tasks=3", "--names=both", "--delay=0,20ms"];
    let Some(figures) = figures(&all) else { return };
    for (subject, rows) in [("leasehold", 8), ("raw", 8), ("raw-socket", 2)] {
        for metric in ["pairs_per_s", "client_us_per_pair", "server_us_per_pair"] {
            let values = of(&figures, subject, metric);
            assert_eq!(values.len(), rows, "{subject} {metric}");
            assert!(values.iter().all(|value| *value > 0.0), "{subject} {metric}: {values:?}");
        }
    }
    // Two requests of 20 ms each: no more than 25 pairs a second for each of three tasks.
    let far = figures.iter().filter(|one| one["delay_ms"] == 20.0);
    let mut far = far.filter(|one| one["metric"] == "pairs_per_s");
    assert!(far.all(|one| one["value"].as_f64().unwrap() <= 75.0 * 1.5), "{figures:?}");
}

#[test]
fn a_quorums_pairs_need_one_round_and_the_time_of_all_servers() {
    let Some(figures) = figures(&["quorum", "--nodes=3,5", "--tasks=3"]) else { return };
    let each = |metric| of(&figures, "leasehold", metric);
    for metric in ["pairs_per_s", "client_us_per_pair", "server_us_per_pair"] {
        let values = each(metric);
        assert_eq!(values.len(), 4, "{metric}");
        assert!(values.iter().all(|value| *value > 0.0), "{metric}: {values:?}");
    }
    let shares = each("one_round_share");
    assert_eq!(shares.len(), 4);
    assert!(shares.iter().all(|share| *share > 0.9 && *share <= 1.0), "{shares:?}");
    for nodes in [3, 5] {
        let rows =
            figures.iter().filter(|one| one["nodes"] == nodes && one["backend"] == "redlock");
        assert_eq!(rows.count(), figures.len() / 2, "{figures:?}");
    }
}

#[test]
fn held_locks_stand_beside_a_task_for_each() {
    let all = ["hold", "--backend=redis", "--locks=200", "--waiters=20", "--runtime=current"];
    let Some(figures) = figures(&all) else { return };
    for subject in ["leasehold", "task-per-lock"] {
        for metric in ["client_ms_per_s", "server_ms_per_s"] {
            assert!(of(&figures, subject, metric).iter().any(|value| *value > 0.0), "{metric}");
        }
    }
}

#[test]
fn contention_knows_commands_contenders_and_the_servers_time() {
    let all = ["contention", "--backend=redis", "--shapes=2x2", "--hold=0"];
    let Some(figures) = figures(&all) else { return };
    let each = |metric| of(&figures, "leasehold", metric);
    assert_eq!(each("overlaps"), [0.0, 0.0]);
    for metric in ["handoffs_per_s", "acquired_per_s", "server_us_per_handoff", "contenders"] {
        assert!(each(metric).iter().any(|value| *value > 0.0), "{metric}: {figures:?}");
    }
    // An ask and a release at the most, but for what is asked again.
    let commands = each("commands_per_handoff");
    assert!(commands.iter().all(|sent| *sent > 0.0 && *sent < 6.0), "{commands:?}");
}
