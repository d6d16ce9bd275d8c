//! Killed between any two system calls: what is on the disk is always whole, and tokens grow.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use leasehold_core::backend::{Backend, ValueSwap};

use crate::helper::{Helper, command};
use crate::kit::{Kit, name};

/// A file that is not there, looked for last before the part that is killed.
const MARKER: &str = "/leasehold-crash-test-marker";

/// Begins the part that is killed.
///
/// strace counts by thread and call. So that its kill never hits the main thread, this one calls
/// whatever that one calls more often than it does.
pub(crate) fn mark() {
    let empty = tempfile::tempdir().unwrap();
    for _ in 0..100 {
        let mut null = std::fs::File::options().read(true).write(true).open("/dev/null").unwrap();
        null.write_all(b"x").unwrap();
        null.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0);
    }
    drop(empty);
    for _ in 0..100 {
        std::fs::metadata(MARKER).unwrap_err();
    }
}

/// The calls that touch files, which all of the backend's are.
const CALLS: &str = "%file,%desc";

fn strace_works() -> bool {
    let works = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    if works.is_ok_and(|status| status.success()) {
        return true;
    }
    let required = std::env::var("LEASEHOLD_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|tool| tool == "strace"), "strace is required");
    eprintln!("SKIPPED: install strace (apt-get install strace), and allow it to trace");
    false
}

/// The calls after the marker in a run that is not killed: name, and how often the thread has
/// called it by then.
fn calls(role: &str, store: &Path) -> Vec<(String, usize)> {
    let log = tempfile::NamedTempFile::new().unwrap();
    let (trace, output) = (format!("trace={CALLS}"), log.path().to_str().unwrap());
    let role = [role, store.to_str().unwrap(), "a", "1"];
    let status = command(&["strace", "-f", "-qq", "-o", output, "-e", &trace], &role)
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let log = std::fs::read_to_string(log.path()).unwrap();
    let mut counts = HashMap::<(&str, &str), usize>::new();
    let mut ours = Vec::new();
    let mut marked = None;
    for line in log.lines().filter(|line| !line.contains(" resumed>")) {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let Some((name, _)) = call.trim_start().split_once('(') else { continue };
        let count = counts.entry((thread, name)).or_default();
        *count += 1;
        if call.contains(MARKER) {
            marked = Some(thread);
            ours.clear();
        } else if marked == Some(thread) && name != "mmap" {
            ours.push((name, *count));
        }
    }
    for ((thread, name), count) in &counts {
        let first = ours.iter().find(|(ours, _)| ours == name).map(|(_, first)| first);
        let apart = marked == Some(thread) || first.is_none_or(|first| count < first);
        assert!(apart, "another thread calls {name} as often");
    }
    ours.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

/// Kills a process in this role at each of its calls in turn. It says growing numbers; `after` checks what a
/// crash has left behind, and returns a larger number.
async fn crash_everywhere(
    role: &str,
    store: impl Fn(usize) -> PathBuf,
    after: impl AsyncFn(&Kit, u64) -> u64,
) -> usize {
    let calls = calls(role, &store(0));
    let mut highest = 0;
    let mut granted = 0;
    for (at, (name, count)) in calls.iter().enumerate() {
        let store = store(at + 1);
        let (trace, kill) =
            (format!("trace={name}"), format!("inject={name}:signal=SIGKILL:when={count}"));
        let wrapper = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &kill];
        let role = [role, store.to_str().unwrap(), "a", "1"];
        let mut helper = Helper::wrapped(&wrapper, &role);
        while let Some(said) = helper.next() {
            let token: u64 = said.parse().unwrap_or_else(|_| panic!("{name} {count}: {said}"));
            assert!(token > highest, "{name} {count}: {token} after {highest}");
            highest = token;
            granted += 1;
        }
        assert!(helper.was_killed(), "{name} {count}: survived");

        let kit = Kit::open(&store);
        // Errors if the record is neither readable nor absent.
        kit.status("a").await;
        let next = after(&kit, highest).await;
        assert!(next > highest, "{name} {count}: {next} after {highest}");
        highest = next;
    }
    // Some die before they have the lock, and some after.
    assert!((1..calls.len()).contains(&granted), "{granted} of {} had the lock", calls.len());
    calls.len()
}

/// Acquires and releases the lock; returns the token.
async fn a_pair(kit: &Kit, _highest: u64) -> u64 {
    let (attempt, grant) = kit.try_lock("a").await.expect("the dead hold nothing");
    let token = grant.tokens.base();
    kit.release("a", attempt, token).await;
    token.get()
}

/// Adds one to the value of the latch, which is the one before or after the write that was killed.
async fn a_step(kit: &Kit, highest: u64) -> u64 {
    let name = name("a");
    let seen = kit.backend.value(&name).await.unwrap();
    let value = seen.as_deref().map_or(0, |seen| String::from_utf8_lossy(seen).parse().unwrap());
    let known = highest == 0 || value == highest || value == highest + 1;
    assert!(known, "{value} after {highest}");
    let next = (value + 1).to_string().into_bytes();
    let swap = ValueSwap::new(name, seen, next, std::time::Duration::from_secs(3600));
    assert!(kit.backend.swap_value(swap).await.unwrap());
    value + 1
}

#[tokio::test]
async fn a_latch_killed_at_any_call_has_the_value_before_or_after() {
    if !strace_works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    // Made before the calls are listed, so that every run finds it made.
    a_step(&Kit::open(&store), 0).await;
    let killed = crash_everywhere("steps", |_| store.clone(), a_step).await;
    assert!(killed > 15, "killed {killed} times");
}

#[tokio::test]
async fn a_holder_killed_at_any_call_leaves_a_whole_record_and_a_free_lock() {
    if !strace_works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    // Made before the calls are listed, so that every run finds it made.
    Kit::open(&store);
    let killed = crash_everywhere("pairs", |_| store.clone(), a_pair).await;
    assert!(killed > 15, "killed {killed} times");
}

#[tokio::test]
async fn a_process_killed_at_any_call_of_making_the_store_does_not_spoil_it() {
    if !strace_works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let killed = crash_everywhere("pairs", |at| dir.path().join(at.to_string()), a_pair).await;
    assert!(killed > 25, "killed {killed} times");
}
