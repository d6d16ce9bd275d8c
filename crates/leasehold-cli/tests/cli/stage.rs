//! The supervisor is killed while it starts the command: nothing runs while the lock is free.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{LEASEHOLD, Running, WorkDir, children, numbers, runs, stat, until};

/// Slows down every call by which the supervisor starts the command and reports it.
const SLOWLY: &str = "inject=execve,write,writev,sendto,sendmsg,recvmsg,wait4,waitid:delay_enter=";

/// How long each of these calls is delayed.
const DELAY: Duration = Duration::from_millis(50);

/// Between two moments of the start at which the supervisor is killed.
const STEP: Duration = Duration::from_millis(25);

/// Says when it runs although the lock has passed on.
const JOB: &str = "echo $$ > pids; test -e second && touch overlap; exec sleep 60";

/// Notes whether the first command still runs.
const WITNESS: &str = "touch second; for pid in $(cat pids 2> /dev/null); do
        grep -q '^State:.[^ZX]' /proc/$pid/status 2> /dev/null && touch overlap
    done; true";

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

/// Kills the supervisor this long after it has begun to start the command; true when the command
/// had started by then.
fn kill_supervisor_after(pause: Duration) -> bool {
    let place = WorkDir::new();
    let slowly = format!("{SLOWLY}{}", DELAY.as_micros());
    let mut command = place.program("strace");
    command.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", &slowly, LEASEHOLD]);
    command.args(["--store", &place.store(), "run", "a", "--", "sh", "-c", JOB]);
    // Every process of the run holds the other end.
    let (mut reader, writer) = std::io::pipe().unwrap();
    let child = command.stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    drop(command);
    let mut run = Running::from(child);
    let mut supervisor = 0;
    until("the supervisor starts the command", || {
        let of_its_own_group = |&pid: &i32| stat(pid).is_some_and(|(_, _, group)| group == pid);
        supervisor = children(run.pid()).into_iter().find(of_its_own_group).unwrap_or(0);
        supervisor != 0 && !children(supervisor).is_empty()
    });
    thread::sleep(pause);
    kill(Pid::from_raw(supervisor), Signal::SIGKILL).unwrap();
    assert_eq!(run.until_ended().code(), Some(125), "{pause:?}");
    assert_eq!(place.run(&["run", "a", "--", "sh", "-c", WITNESS]).code, 0, "{pause:?}");
    let ended = thread::spawn(move || reader.read_to_end(&mut Vec::new()));
    let pids = || numbers(&place.read("pids"));
    until(&format!("all has ended ({pause:?})"), || {
        assert!(!pids().iter().any(|pid| runs(*pid)), "the command runs ({pause:?})");
        ended.is_finished()
    });
    assert!(!place.path("overlap").exists(), "the lock was free ({pause:?})");
    !pids().is_empty()
}

#[test]
fn supervisor_killed_while_it_starts_the_command_leaves_nothing_running() {
    if !strace_works() {
        return;
    }
    let mut started = Vec::new();
    while started.iter().filter(|has| **has).count() < 2 {
        started.push(kill_supervisor_after(STEP * started.len() as u32));
        assert!(started.len() < 100, "the command never starts");
    }
    assert!(!started[0], "the first is killed before the command starts");
}

#[test]
fn leasehold_and_supervisor_killed_together_end_the_command_itself() {
    let place = WorkDir::new();
    let run = place.start_ready(&["a"], "echo $$ > pids; touch ready; exec sleep 60");
    let (supervisor, command) = (run.supervisor(), numbers(&place.read("pids"))[0]);
    run.send(Signal::SIGSTOP);
    until("leasehold has stopped", || stat(run.pid()).unwrap().0 == 'T');
    kill(Pid::from_raw(supervisor), Signal::SIGKILL).unwrap();
    until("the command has ended", || !runs(command));
    assert_eq!(stat(run.pid()).unwrap().0, 'T', "without leasehold");
}

#[test]
fn leasehold_killed_while_its_supervisor_is_stopped_ends_the_group() {
    let place = WorkDir::new();
    let script = "trap '' TERM HUP; echo $$ > pids; sleep 60 & echo $! >> pids; touch ready; wait";
    let run = place.start_ready(&["a"], script);
    let supervisor = run.supervisor();
    kill(Pid::from_raw(supervisor), Signal::SIGSTOP).unwrap();
    until("the supervisor has stopped", || stat(supervisor).unwrap().0 == 'T');
    run.send(Signal::SIGKILL);
    until("the group has ended", || !numbers(&place.read("pids")).iter().any(|pid| runs(*pid)));
}
