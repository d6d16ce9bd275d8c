//! A few seconds of chaos, with every kind of fault, and every promise kept.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

use leasehold_conformance::kit::Needs;
use serde_json::Value;

/// What a run of 15 s has shown; nothing, and a word, where no server is installed.
fn chaos(args: &[&str]) -> Option<Value> {
    if Needs::Redis.is_skipped() {
        return None;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold-chaos"));
    let output = command.args(["--minutes", "0.25", "--json"]).args(args).output().unwrap();
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

fn all_is_well(seen: &Value) {
    println!("{seen}");
    assert!(number(seen, "acquisitions") > 50, "{seen}");
    let faults = seen["faults"].as_object().unwrap();
    assert!(faults.len() >= 12 && faults.values().any(|count| count.as_u64() > Some(0)), "{seen}");
    for nothing in ["overlaps", "tokens_twice", "token_inversions"] {
        assert_eq!(number(seen, nothing), 0, "{seen}");
    }
    assert_eq!(number(&seen["fenced"], "stale") + number(&seen["fenced"], "lost"), 0, "{seen}");
}
