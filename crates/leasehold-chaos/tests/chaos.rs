//! A few seconds of chaos, with every kind of fault and every command of an operator, and every promise
//! kept.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use leasehold_conformance::kit::Needs;
use serde_json::Value;

const CHAOS: &str = env!("CARGO_BIN_EXE_leasehold-chaos");

/// The `leasehold` command of this tree. A test of the whole workspace has built it beside the program; a
/// test of this package alone has not, and it is built now.
fn leasehold() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let path = Path::new(CHAOS).with_file_name("leasehold");
        if !path.is_file() {
            let build = ["build", "-q", "--all-features", "-p", "leasehold-cli"];
            let built = Command::new(env!("CARGO")).args(build).status().unwrap();
            assert!(built.success() && path.is_file(), "{path:?} is not built");
        }
        path
    })
}

/// What a run of 15 s has shown; nothing, and a word, where no server is installed.
fn chaos(args: &[&str]) -> Option<Value> {
    if Needs::Redis.is_skipped() {
        return None;
    }
    let mut command = Command::new(CHAOS);
    command.args(["--minutes", "0.25", "--json", "--leasehold"]).arg(leasehold());
    let output = command.args(args).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    eprint!("{told}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
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
fn one_server_with_admission_keeps_its_promises_beside_an_operator() {
    chaos(&["--strict", "--faults", "restart,empty,kill"]).iter().for_each(|seen| {
        println!("{seen}");
        kept(seen);
        operated(seen);
    });
}

fn all_is_well(seen: &Value) {
    println!("{seen}");
    kept(seen);
    operated(seen);
    let faults = seen["faults"].as_object().unwrap();
    assert!(faults.len() >= 12 && faults.values().any(|count| count.as_u64() > Some(0)), "{seen}");
}

fn kept(seen: &Value) {
    assert!(number(seen, "acquisitions") > 50, "{seen}");
    for nothing in ["overlaps", "tokens_twice", "token_inversions"] {
        assert_eq!(number(seen, nothing), 0, "{seen}");
    }
    assert_eq!(number(&seen["fenced"], "stale") + number(&seen["fenced"], "lost"), 0, "{seen}");
}

/// Each command was run, and what must be refused was.
fn operated(seen: &Value) {
    let commands =
        ["list", "status", "init", "forget", "force-release", "quorum-init", "quorum-status"];
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
    let output = Command::new(CHAOS).args(["--leasehold", "/nowhere/leasehold"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("/nowhere/leasehold") && told.contains("--no-operators"), "{told}");
}
