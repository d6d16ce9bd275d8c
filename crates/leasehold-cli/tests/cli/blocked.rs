//! A stderr that is blocked costs messages, and neither time nor the lock.

use std::fs;
use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::process::{Command, Stdio};

use leasehold_test_servers::{Needs, RedisServer, RedisSettings};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::screen::Terminal;
use crate::support::{LEASEHOLD, Running, WorkDir, numbers, runs, until};

const HOLD: &str = "touch ready; while [ ! -e stop ]; do sleep 0.01; done";

/// A process whose stderr is a full pipe without a reader.
struct Blocked(Running, #[allow(dead_code, reason = "it keeps the pipe open")] PipeReader);

impl Blocked {
    fn start(command: &mut Command) -> Self {
        let (reader, writer) = full_pipe();
        let child = command.stdout(Stdio::null()).stderr(writer).spawn().unwrap();
        Self(Running::from(child), reader)
    }

    fn until_blocked(&self) {
        until("it writes to stderr", || is_blocked(self.0.pid()));
    }

    /// The exit code of a process that ends although it has something to say.
    #[track_caller]
    fn code(mut self) -> i32 {
        let (pid, mut was_blocked) = (self.0.pid(), false);
        until("the process ends", || {
            was_blocked |= is_blocked(pid);
            !runs(pid)
        });
        assert!(was_blocked, "it had nothing to say");
        self.0.until_ended().code().unwrap_or(-1)
    }
}

pub(crate) fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().unwrap();
    let size = fcntl(&writer, FcntlArg::F_GETPIPE_SZ).unwrap();
    writer.write_all(&vec![0; usize::try_from(size).unwrap()]).unwrap();
    (reader, writer)
}

/// True while a thread of the process is in a call whose first argument is stderr.
fn is_blocked(pid: i32) -> bool {
    is_blocked_at(pid, 2)
}

/// True while a thread of the process is in a call whose first argument is this descriptor.
pub(crate) fn is_blocked_at(pid: i32, descriptor: i32) -> bool {
    let descriptor = format!("{descriptor:#x}");
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let calls = threads.filter_map(|thread| fs::read_to_string(thread.path().join("syscall")).ok());
    calls.into_iter().any(|call| call.split(' ').nth(1) == Some(&descriptor))
}

impl WorkDir {
    fn start_blocked(&self, arguments: &[&str]) -> Blocked {
        Blocked::start(&mut self.leasehold(arguments))
    }
}

fn server() -> Option<RedisServer> {
    if Needs::Redis.is_skipped() {
        return None;
    }
    Some(RedisServer::start(RedisSettings::new()).unwrap())
}

fn force_release(place: &WorkDir, url: &str) {
    let json = place.run(&["status", "--store", url, "--json", "a"]).out;
    let status: serde_json::Value = serde_json::from_str(&json).unwrap();
    let token = status["token"].to_string();
    let done = place.run(&["force-release", "--store", url, "a", "--token", &token]);
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn blocked_stderr_does_not_delay_the_end_of_a_command_whose_lock_is_lost() {
    let Some(server) = server() else { return };
    let (place, url) = (WorkDir::new(), server.url());
    // The next renewal, in 10 s, finds the loss; the supervisor would end the command after 30 s.
    let script = "echo $$ > pids; trap '' TERM; touch ready; while :; do sleep 0.01; done";
    let ttl = ["--ttl", "30s", "--kill-after", "100ms"];
    let run = [&["run", "--store", &url], &ttl[..], &["a", "--", "sh", "-c", script]].concat();
    let run = place.start_blocked(&run);
    place.until_exists("ready");
    force_release(&place, &url);
    let command = numbers(&place.read("pids"))[0];
    until("the command has ended", || !runs(command));
    assert_eq!(run.code(), 76);
}

#[test]
fn blocked_stderr_does_not_stop_a_command_that_may_outlive_its_lock() {
    let place = WorkDir::new();
    let script = "while [ ! -e stop ]; do sleep 0.01; done; exit 4";
    let options = ["run", "--max-hold", "300ms", "--on-lost", "warn", "a", "--", "sh", "-c"];
    let run = place.start_blocked(&[&options[..], &[script]].concat());
    run.until_blocked();
    place.write("stop", "");
    assert_eq!(run.code(), 4);
}

#[test]
fn blocked_stderr_does_not_stop_waiting() {
    let Some(server) = server() else { return };
    for store in [None, Some(server.url())] {
        let place = WorkDir::new();
        let store = store.unwrap_or(place.store());
        let holder = place.start_ready(&["--store", &store, "a"], HOLD);
        let run = ["run", "--store", &store, "--ttl", "3s", "a", "--", "touch", "ran"];
        let waiter = place.start_blocked(&run);
        waiter.until_blocked();
        place.write("stop", "");
        assert_eq!(waiter.code(), 0);
        assert!(place.path("ran").exists());
        assert_eq!(holder.end().code, 0);
    }
}

#[test]
fn blocked_stderr_does_not_keep_a_signal_from_a_waiter() {
    let place = WorkDir::new();
    let _holder = place.start_ready(&["a"], HOLD);
    let waiter = place.start_blocked(&["run", "a", "--", "touch", "ran"]);
    waiter.until_blocked();
    waiter.0.send(Signal::SIGTERM);
    assert_eq!(waiter.code(), 143);
}

#[test]
fn blocked_stderr_does_not_stop_renewal() {
    let Some(server) = server() else { return };
    let (place, url) = (WorkDir::new(), server.url());
    let script = "touch ready; sleep 4; exit 4";
    let run = ["-v", "run", "--store", &url, "--ttl", "1s", "a", "--", "sh", "-c", script];
    let run = place.start_blocked(&run);
    place.until_exists("ready");
    run.until_blocked();
    assert_eq!(run.code(), 4);
}

#[test]
fn blocked_stderr_does_not_hold_up_a_refusal() {
    let place = WorkDir::new();
    let _holder = place.start_ready(&["a"], HOLD);
    assert_eq!(place.start_blocked(&["run", "-v", "-n", "a", "true"]).code(), 1);
    assert_eq!(place.start_blocked(&["run", "-w", "300ms", "-E", "7", "a", "true"]).code(), 7);
    let mut inner = place.leasehold(&["run", "a", "true"]);
    let nested = place.run(&["run", "b", "--", "sh", "-c", "echo $LEASEHOLD_HELD"]).out;
    inner.env("LEASEHOLD_HELD", nested.trim().replace("#b", "#a"));
    assert_eq!(Blocked::start(&mut inner).code(), 125);
}

#[test]
fn blocked_stderr_does_not_hold_up_a_command_that_cannot_be_started() {
    let place = WorkDir::new();
    assert_eq!(place.start_blocked(&["run", "a", "no-such-command"]).code(), 127);
    assert_eq!(place.start_blocked(&["run", "a", "/"]).code(), 126);
    let nowhere = format!("file:{}/locks", place.write("plain", "").display());
    assert_eq!(place.start_blocked(&["--store", &nowhere, "run", "a", "true"]).code(), 69);
}

#[test]
fn blocked_stderr_does_not_keep_the_lock_after_its_minimum_hold() {
    let place = WorkDir::new();
    assert_eq!(place.start_blocked(&["-v", "run", "--min-hold", "1s", "a", "true"]).code(), 0);
    assert_eq!(place.run(&["run", "-n", "a", "true"]).code, 0);
}

#[test]
fn blocked_stderr_does_not_hold_up_the_end_after_a_supervisor_was_killed() {
    let place = WorkDir::new();
    let script = "echo $$ > pids; touch ready; exec sleep 60";
    let run = place.start_blocked(&["run", "a", "--", "sh", "-c", script]);
    place.until_exists("ready");
    kill(Pid::from_raw(run.0.supervisor()), Signal::SIGKILL).unwrap();
    assert_eq!(run.code(), 125);
    assert!(!runs(numbers(&place.read("pids"))[0]));
}

#[test]
fn blocked_stderr_does_not_hold_up_the_end_where_the_lock_cannot_be_released() {
    let Some(server) = server() else { return };
    let (place, url) = (WorkDir::new(), server.url());
    let run = ["run", "--store", &url, "--ttl", "20m", "a", "--", "sh", "-c", HOLD];
    let run = place.start_blocked(&run);
    place.until_exists("ready");
    server.stop().unwrap();
    place.write("stop", "");
    let code = run.code();
    server.resume().unwrap();
    assert_eq!(code, 0);
}

#[test]
fn blocked_stderr_does_not_hide_a_loss_that_is_found_at_the_end() {
    let Some(server) = server() else { return };
    let (place, url) = (WorkDir::new(), server.url());
    let run = ["run", "--store", &url, "--ttl", "20m", "a", "--", "sh", "-c", HOLD];
    let run = place.start_blocked(&run);
    place.until_exists("ready");
    run.0.send(Signal::SIGSTOP);
    force_release(&place, &url);
    place.write("stop", "");
    until("the command has ended", || crate::support::children(run.0.supervisor()).is_empty());
    run.0.send(Signal::SIGCONT);
    assert_eq!(run.code(), 76);
}

#[test]
fn blocked_stderr_does_not_stop_a_watch() {
    let Some(mut server) = server() else { return };
    let (place, url) = (WorkDir::new(), server.url());
    let mut command = place.leasehold(&["watch", "--store", &url, "--interval", "20ms", "a"]);
    let (_reader, writer) = full_pipe();
    let out = fs::File::create(place.path("out")).unwrap();
    let watch = Running::from(command.stdout(out).stderr(writer).spawn().unwrap());
    until("it looks", || place.read("out").contains("never held"));
    server.kill();
    until("it writes to stderr", || is_blocked(watch.pid()));
    server.start_again().unwrap();
    assert_eq!(place.run(&["run", "--store", &url, "a", "true"]).code, 0);
    until("it goes on", || place.read("out").contains(", token "));
}

#[test]
fn blocked_terminal_does_not_stop_waiting() {
    let place = WorkDir::new();
    let holder = place.start_ready(&["a"], HOLD);
    let script = "touch ran; echo mine";
    let mut terminal = Terminal::start(&place, LEASEHOLD, &["run", "a", "--", "sh", "-c", script]);
    terminal.expect("waiting for a, held by ");
    terminal.send("\x13");
    until("it writes to the terminal", || is_blocked(terminal.pid()));
    place.write("stop", "");
    place.until_exists("ran");
    terminal.send("\x11");
    terminal.expect("mine");
    assert_eq!(terminal.end(), 0);
    assert_eq!(holder.end().code, 0);
}
