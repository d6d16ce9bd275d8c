//! A process group: signals all of it, and checks whether any of it still runs.

use std::fs;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The process group of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group(pub(crate) Pid);

impl Group {
    /// Sends a signal to every member. Members that have gone or belong to other users are not an
    /// error, since the caller cannot change that.
    pub(crate) fn signal(self, signal: Signal) {
        let _ = killpg(self.0, signal);
    }

    /// Asks every member to end; a stopped member is continued, or it would not receive the signal.
    pub(crate) fn terminate(self) {
        self.signal(Signal::SIGTERM);
        self.signal(Signal::SIGCONT);
    }

    /// Returns true while a member runs. A zombie that its parent outside the group does not
    /// collect does not run. If `/proc` shows no member (it may hide those of other users, or
    /// belong to another namespace of process ids), all count as running.
    pub(crate) fn is_alive(self) -> bool {
        self.exists() && self.has_running_member().unwrap_or_else(|| self.exists())
    }

    fn exists(self) -> bool {
        killpg(self.0, None) != Err(Errno::ESRCH)
    }

    /// Returns what `/proc` shows; `None` if it shows no member.
    fn has_running_member(self) -> Option<bool> {
        let group = self.0.to_string();
        let mut seen = None;
        for process in fs::read_dir("/proc").ok()?.flatten() {
            let Some(stat) = Stat::read(&process.file_name().to_string_lossy()) else { continue };
            if stat.field(PGRP) == Some(&group) {
                if !stat.is_zombie() {
                    return Some(true);
                }
                seen = Some(false);
            }
        }
        seen
    }
}

/// The line of a process in `/proc/PID/stat`, from the state on: fields are counted from there,
/// since the name before them may contain anything.
pub(crate) struct Stat(Vec<String>);

const STATE: usize = 0;
const PPID: usize = 1;
const PGRP: usize = 2;
const THREADS: usize = 17;

impl Stat {
    /// Reads the line of a process; `None` if there is none (any more), or `pid` is not a number.
    pub(crate) fn read(pid: &str) -> Option<Self> {
        if !pid.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let line = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let line = String::from_utf8_lossy(&line);
        let (_, fields) = line.rsplit_once(')')?;
        Some(Self(fields.split_whitespace().map(str::to_owned).collect()))
    }

    /// Returns the parent's process id.
    pub(crate) fn parent(&self) -> Option<Pid> {
        self.field(PPID)?.parse().ok().map(Pid::from_raw)
    }

    fn field(&self, at: usize) -> Option<&String> {
        self.0.get(at)
    }

    /// Returns true for a dead process that was not collected, unless other threads of it are
    /// alive.
    fn is_zombie(&self) -> bool {
        let state = self.field(STATE).map(String::as_str);
        let threads = self.field(THREADS).and_then(|count| count.parse().ok()).unwrap_or(0);
        matches!(state, Some("Z" | "X")) && threads <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn a_zombie_does_not_count_as_alive() {
        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let group = Group(Pid::from_raw(child.id() as i32));
        assert!(group.is_alive());
        group.signal(Signal::SIGKILL);
        while group.is_alive() {
            std::thread::yield_now();
        }
        assert_eq!(killpg(group.0, None), Ok(()), "the zombie still exists");
        child.wait().unwrap();
        assert!(!group.is_alive());
    }
}
