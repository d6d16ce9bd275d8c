//! The command's whole process group ends before another holder can get the lock, whichever process is killed.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use leasehold_conformance::Stopwatch;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{WorkDir, numbers, runs, stat, until};

/// A command, its child and its grandchild, that none but KILL ends.
const FAMILY: &str = "trap '' TERM HUP INT
    sh -c 'sleep 60 & echo $$ $! >> pids; wait' & echo $$ >> pids
    while [ $(wc -w < pids) -lt 3 ]; do sleep 0.01; done; touch ready; wait";

/// Notes which of the first command's processes still run.
const WITNESS: &str = "for pid in $(cat pids); do
        grep -q '^State:.[^ZX]' /proc/$pid/status 2> /dev/null && echo $pid >> survivors
    done; touch second";

#[test]
fn killing_leasehold_ends_the_group_before_the_next_one_starts() {
    let place = WorkDir::new();
    let first = place.start_ready(&["a"], FAMILY);
    let (second, _) = place.start_waiting(&["a", "--", "sh", "-c", WITNESS]);
    let stopwatch = Stopwatch::start();
    first.send(Signal::SIGKILL);
    place.until_exists("second");
    let took = stopwatch.elapsed();
    assert_eq!(place.read("survivors"), "");
    assert!(numbers(&place.read("pids")).iter().all(|pid| !runs(*pid)));
    assert_eq!(second.end().code, 0);
    assert!(took < Duration::from_millis(1500), "{took:?}");
}

#[test]
fn killing_the_supervisor_ends_the_group_and_is_125() {
    let place = WorkDir::new();
    let first = place.start_ready(&["a"], FAMILY);
    let second = place.start(&["run", "a", "--", "sh", "-c", WITNESS]);
    kill(Pid::from_raw(first.supervisor()), Signal::SIGKILL).unwrap();
    let done = first.end();
    assert_eq!(done.code, 125);
    assert!(done.err.contains("supervisor"), "{done:?}");
    assert_eq!(second.end().code, 0);
    assert_eq!(place.read("survivors"), "");
}

#[test]
fn signals_that_are_meant_for_leasehold_do_not_hurt_the_supervisor() {
    let place = WorkDir::new();
    let script = "touch ready; while [ ! -e stop ]; do sleep 0.01; done; exit 3";
    let running = place.start_ready(&["a"], script);
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1] {
        kill(Pid::from_raw(running.supervisor()), signal).unwrap();
    }
    place.write("stop", "");
    assert_eq!(running.end().code, 3);
}

#[test]
fn what_the_command_leaves_behind_is_ended_before_the_lock_passes_on() {
    let place = WorkDir::new();
    let script = "sh -c 'trap \"\" TERM; touch deaf; sleep 60' & echo $! > pids
        sh -c 'trap \"echo term > heard; exit\" TERM; touch ready; while :; do sleep 0.01; done' &
        echo $! >> pids; while [ ! -e deaf -o ! -e ready ]; do sleep 0.01; done; exit 9";
    let first = place.start_ready(&["--kill-after", "300ms", "a"], script);
    let second = place.start(&["run", "a", "--", "sh", "-c", WITNESS]);
    assert_eq!(first.end().code, 9);
    assert_eq!(place.read("heard"), "term\n");
    assert_eq!(second.end().code, 0);
    assert_eq!(place.read("survivors"), "");
}

#[test]
fn a_process_that_left_the_group_is_on_its_own() {
    let place = WorkDir::new();
    let script = "setsid sh -c 'echo $$ > pid; touch ready; sleep 60' > /dev/null 2>&1 &
        while [ ! -e ready ]; do sleep 0.01; done";
    assert_eq!(place.start_ready(&["a"], script).end().code, 0);
    let pid = numbers(&place.read("pid"))[0];
    assert!(runs(pid));
    kill(Pid::from_raw(-pid), Signal::SIGKILL).unwrap();
}

#[test]
fn the_command_has_a_process_group_of_its_own() {
    let place = WorkDir::new();
    let running = place.start_ready(&["a"], "echo $$ > pid; touch ready; sleep 60");
    let pid = numbers(&place.read("pid"))[0];
    let (_, parent, group) = stat(pid).unwrap();
    assert_eq!((parent, group), (running.supervisor(), pid));
    assert_ne!(stat(running.supervisor()).unwrap().2, stat(running.pid()).unwrap().2);
}

#[test]
fn a_holder_that_stands_still_keeps_a_lock_that_hangs_on_its_process() {
    let place = WorkDir::new();
    let running = place.start_ready(&["a"], "touch ready; sleep 60");
    running.send(Signal::SIGSTOP);
    assert_eq!(place.run(&["run", "-n", "a", "true"]).code, 1);
    running.send(Signal::SIGCONT);
}

#[test]
fn no_descriptor_leaks_into_the_command() {
    let place = WorkDir::new();
    let list = "for file in /proc/self/fd/*; do echo ${file##*/}; done";
    let plain = place.program("sh").args(["-c", list]).output().unwrap().stdout;
    let under = place.leasehold(&["run", "a", "--", "sh", "-c", list]).output().unwrap().stdout;
    assert!(!plain.is_empty());
    assert_eq!(String::from_utf8(under), String::from_utf8(plain));
}

#[test]
fn standard_input_goes_through() {
    let place = WorkDir::new();
    let mut command = place.leasehold(&["run", "a", "--", "wc", "-c"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&vec![b'x'; 300_000]).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "300000");
}

#[test]
fn the_environment_names_the_lock_and_the_store() {
    let place = WorkDir::new();
    let mut command = place.leasehold(&["run", "a/b", "--max-hold", "1h", "--", "env"]);
    let output = command.env("LEASEHOLD_STORE", "file:/elsewhere").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("LEASEHOLD_{key}=")));
        line.map(str::to_owned)
    };
    assert_eq!(value("NAME").as_deref(), Some("a/b"));
    assert!(value("TOKEN").unwrap().parse::<u64>().unwrap() > 0);
    assert_eq!(value("OWNER").unwrap().len(), 32);
    assert!(value("HELD").unwrap().ends_with("#a/b"));
    assert!(value("DEADLINE_UNIX_MS").unwrap().parse::<u64>().unwrap() > 1_700_000_000_000);
    assert_eq!(value("STORE").as_deref(), Some(place.store().as_str()));
}

#[test]
fn a_group_that_was_given_the_number_of_the_ended_one_is_left_alone() {
    // Process ids of our own, to say which one comes next.
    let own = ["-U", "-r", "-m", "-p", "-f"];
    let can = std::process::Command::new("unshare").args(own).arg("true").output();
    if !can.is_ok_and(|output| output.status.success()) {
        return;
    }
    let place = WorkDir::new();
    let script = place.write(
        "script",
        "mount -t proc proc /proc && : > /proc/sys/kernel/ns_last_pid || exit 7
        $LEASEHOLD --store $PLACE run a -- sh -c 'echo $$ > pid; touch ready; sleep 0.2' & first=$!
        while [ ! -e ready ]; do sleep 0.01; done
        kill -STOP $first
        while [ -e /proc/$(cat pid) ]; do sleep 0.01; done
        sleep 0.2
        echo $(($(cat pid) - 1)) > /proc/sys/kernel/ns_last_pid
        setsid sh -c 'echo $$ > other; sleep 60' & other=$!
        while [ ! -s other ]; do sleep 0.01; done
        [ $(cat pid) = $(cat other) ] || exit 8
        kill -CONT $first
        wait $first
        kill -0 $other && touch lives",
    );
    let mut command = place.program("unshare");
    command.args(own).args(["sh", "-e"]).arg(script).env("PLACE", place.store());
    let output = command.output().unwrap();
    assert!(place.path("lives").exists(), "{output:?}");
}

#[test]
fn a_supervisor_that_was_stopped_goes_on_when_the_command_is_told_to_end() {
    let place = WorkDir::new();
    let mut first = place.start_ready(&["a"], "touch ready; exec sleep 60");
    let supervisor = first.supervisor();
    kill(Pid::from_raw(supervisor), Signal::SIGSTOP).unwrap();
    until("the supervisor is stopped", || stat(supervisor).is_some_and(|stat| stat.0 == 'T'));
    first.send(Signal::SIGTERM);
    assert_eq!(first.until_ended().code(), Some(128 + 15));
}

#[test]
fn what_proc_does_not_show_is_waited_for() {
    // Process ids of our own, and a /proc that tells those of others.
    let own = ["-U", "-r", "-p", "-f"];
    let can = std::process::Command::new("unshare").args(own).arg("true").output();
    if !can.is_ok_and(|output| output.status.success()) {
        return;
    }
    let place = WorkDir::new();
    let mut command = place.program("unshare");
    let script = "$LEASEHOLD --store $PLACE run --kill-after 60 a -- \
            sh -c \"trap '' TERM; (sleep 0.7; touch late) & true\"
        [ -e late ]";
    let output = command.args(own).args(["sh", "-c", script]).env("PLACE", place.store()).output();
    assert!(output.as_ref().is_ok_and(|output| output.status.success()), "{output:?}");
}
