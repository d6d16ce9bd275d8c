//! A few seconds of chaos, with every kind of fault and every command of an operator, and every promise
//! kept.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod runs;

use std::path::{Path, PathBuf};
use std::process::Command;

use leasehold_test_servers::Needs;
use runs::{CHAOS, Place, leasehold};
use serde_json::Value;

/// 20 s.
const MINUTES: &str = "0.334";

/// What a run of 20 s on Redis servers has shown; nothing, and a word, where they are not installed.
fn chaos(args: &[&str]) -> Option<Value> {
    (!Needs::Redis.is_skipped()).then(|| run(&[&["--minutes", MINUTES], args].concat()))
}

/// What a run has shown that kept every promise.
fn run(args: &[&str]) -> Value {
    let _place = Place::take();
    let mut command = Command::new(CHAOS);
    command.args(["--json", "--leasehold"]).arg(leasehold()).args(args);
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let seen = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{seen}");
    eprint!("{told}");
    serde_json::from_str(&seen).unwrap()
}

/// Runs set-ups side by side, each with few clients, where their servers are installed.
fn side_by_side(setups: &[(&str, Needs)]) {
    let installed: Vec<&str> =
        { setups.iter() }.filter(|(_, needs)| !needs.is_skipped()).map(|(name, _)| *name).collect();
    std::thread::scope(|scope| {
        for name in installed {
            scope.spawn(move || {
                let seen = run(&["--engine", name, "--clients", "3", "--minutes", MINUTES]);
                println!("{seen}");
                kept(&seen);
                operated(&seen);
            });
        }
    });
}

fn number(seen: &Value, name: &str) -> u64 {
    seen[name].as_u64().unwrap()
}

#[test]
fn one_server_keeps_its_promises_whatever_happens_to_it_and_its_clients() {
    chaos(&[]).iter().for_each(all_is_well);
}

#[test]
fn five_servers_keep_more_promises_whatever_happens_to_two_of_them() {
    chaos(&["--nodes", "5"]).iter().for_each(all_is_well);
}

#[test]
fn quorums_of_other_sizes_keep_their_promises_too() {
    side_by_side(&[("redlock3", Needs::Redis), ("redlock7", Needs::Redis)]);
}

#[test]
fn one_server_with_admission_keeps_its_promises_beside_an_operator() {
    chaos(&["--strict", "--faults", "restart,empty,kill"]).iter().for_each(|seen| {
        println!("{seen}");
        kept(seen);
        operated(seen);
    });
}

#[test]
fn databases_keep_their_promises_whatever_happens_to_them_and_their_clients() {
    side_by_side(&[
        ("postgres", Needs::Postgres),
        ("pgbouncer", Needs::Pooler),
        ("mariadb", Needs::MySql),
        ("sqlite", Needs::Nothing),
    ]);
}

#[test]
fn servers_over_tls_keep_their_promises_whatever_certificates_they_have() {
    if Needs::OpenSsl.is_skipped() {
        return;
    }
    side_by_side(&[
        ("redis-tls", Needs::Redis),
        ("postgres-tls", Needs::Postgres),
        ("mariadb-tls", Needs::MySql),
        ("etcd-tls", Needs::Etcd),
    ]);
}

#[test]
fn ensembles_and_files_keep_their_promises_whatever_happens_to_them_and_their_clients() {
    side_by_side(&[
        ("file", Needs::Nothing),
        ("etcd", Needs::Etcd),
        ("zookeeper", Needs::ZooKeeper),
        ("sentinel", Needs::Redis),
        ("cluster", Needs::Redis),
    ]);
}

/// Each plan drives what a mended defect needed. See `tools/leasehold-chaos/RUNS.md` for what a replay finds.
#[test]
fn replays_of_plans_keep_every_promise() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans");
    let plans: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!plans.is_empty());
    std::thread::scope(|scope| {
        for plan in &plans {
            scope.spawn(move || {
                let seen = run(&["--plan", plan.to_str().unwrap()]);
                println!("{seen}");
                kept(&seen);
            });
        }
    });
}

#[test]
fn a_plan_that_is_not_understood_is_refused_with_its_line() {
    let plan = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&plan, "engine redis\n12 fault fire 1 0\n").unwrap();
    let output = Command::new(CHAOS).arg("--plan").arg(plan.path()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && told.contains("12 fault fire 1 0"), "{told}");
}

fn all_is_well(seen: &Value) {
    println!("{seen}");
    kept(seen);
    operated(seen);
    let faults = seen["faults"].as_object().unwrap();
    assert!(faults.len() >= 12 && faults.values().any(|count| count.as_u64() > Some(0)), "{seen}");
}

/// No promise was broken, and each client got the lock. How often it goes round depends on the faults: a
/// server with admission that is emptied every second grants nothing meanwhile. A run that ends well has
/// granted it to each client after the last fault.
fn kept(seen: &Value) {
    assert!(number(seen, "acquisitions") >= number(seen, "clients"), "{seen}");
    for nothing in ["overlaps", "tokens_twice", "token_inversions"] {
        assert_eq!(number(seen, nothing), 0, "{seen}");
    }
    assert_eq!(number(&seen["fenced"], "stale") + number(&seen["fenced"], "lost"), 0, "{seen}");
}

/// Each command was run, and what must be refused was.
fn operated(seen: &Value) {
    let commands = [
        "list",
        "status",
        "doctor",
        "init",
        "forget",
        "clean-up",
        "run",
        "force-release",
        "quorum-init",
        "quorum-status",
    ];
    for command in commands {
        assert!(number(&seen["operators"][command], "run") > 0, "{command}: {seen}");
    }
    assert!(number(&seen["operators"]["force-release"], "refused") > 0, "{seen}");
}

#[test]
fn a_run_without_the_command_says_how_to_get_it() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let output =
        Command::new(CHAOS).args(["--leasehold", "/dev/null/nowhere/leasehold"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        told.contains("/dev/null/nowhere/leasehold") && told.contains("--no-operators"),
        "{told}"
    );
}

/// The table of the documentation is the one that the program has.
#[test]
fn the_documentation_has_the_table_of_set_ups() {
    let output = Command::new(CHAOS).arg("set-ups").output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("RUNS.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(&table), "write this into tools/leasehold-chaos/RUNS.md:\n{table}");
}
