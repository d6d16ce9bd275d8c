//! `leasehold`'s side of the supervisor: starts it, receives its reports, and ends it.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;

use crate::command::own_program;
use crate::ipc::{Report, send_descriptors};
use crate::supervise::Orders;

/// The running supervisor.
#[derive(Debug)]
pub(crate) struct Supervisor {
    child: Child,
    socket: tokio::net::UnixStream,
    received: VecDeque<u8>,
}

impl Supervisor {
    /// Starts it, and passes it the standard input, the locks' descriptors, and until when the
    /// command's group must have ended.
    pub(crate) fn start(
        orders: &Orders,
        locks: &[OwnedFd],
        environment: &[(&str, Option<String>)],
        deadline_steady_ns: Option<u64>,
    ) -> io::Result<Self> {
        let (here, there) = UnixStream::pair()?;
        let mut command = Command::new(own_program()?);
        command
            .arg0("leasehold")
            .args(orders.to_arguments())
            .stdin(Stdio::from(OwnedFd::from(there)))
            .process_group(0);
        for (key, value) in environment {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        let child = command.spawn()?;
        drop(command); // It keeps the supervisor's end of the socket open.

        let stdin = io::stdin();
        let mut descriptors = vec![stdin.as_fd()];
        descriptors.extend(locks.iter().map(AsFd::as_fd));
        send_descriptors(&here, &descriptors)?;
        if let Some(deadline) = deadline_steady_ns {
            tell_first(&here, deadline)?;
        }
        here.set_nonblocking(true)?;
        let socket = tokio::net::UnixStream::from_std(here)?;
        Ok(Self { child, socket, received: VecDeque::new() })
    }

    /// Returns the next report; `None` at its end. The future may be dropped.
    pub(crate) async fn next(&mut self) -> Option<Report> {
        loop {
            if self.received.len() >= Report::LEN {
                let mut bytes = [0; Report::LEN];
                bytes.iter_mut().zip(self.received.drain(..Report::LEN)).for_each(|(to, from)| {
                    *to = from;
                });
                return Report::decode(bytes);
            }
            let mut chunk = [0; 64];
            match self.socket.read(&mut chunk).await {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.received.extend(&chunk[..count]),
            }
        }
    }

    /// Sends until when the group must have ended. Returns false if that must be tried again.
    pub(crate) fn tell_deadline(&mut self, steady_ns: u64) -> bool {
        let word = steady_ns.to_be_bytes();
        self.socket.try_write(&word).is_ok_and(|count| count == word.len())
    }

    /// Continues it, in case it was stopped: no other process detects that the command ends.
    pub(crate) fn wake(&self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
        }
    }

    /// Waits until the process has ended, and with it its copy of the lock's descriptor.
    pub(crate) fn collect(mut self) {
        // It closes the socket only by ending, so this kills only a faulty supervisor.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends the first deadline. A command that has ended meanwhile needs none: its reports wait to be
/// read.
fn tell_first(mut socket: &UnixStream, deadline: u64) -> io::Result<()> {
    match socket.write_all(&deadline.to_be_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        told => told,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_command_that_ends_before_it_is_told_its_deadline_has_its_end_heard() {
        let (here, mut there) = UnixStream::pair().unwrap();
        for report in [Report::Spawned(7), Report::Gone] {
            there.write_all(&report.encode()).unwrap();
        }
        drop(there);
        tell_first(&here, 1).unwrap();
        here.set_nonblocking(true).unwrap();
        let socket = tokio::net::UnixStream::from_std(here).unwrap();
        let child = Command::new("true").spawn().unwrap();
        let mut supervisor = Supervisor { child, socket, received: VecDeque::new() };
        assert!(matches!(supervisor.next().await, Some(Report::Spawned(7))));
        assert!(matches!(supervisor.next().await, Some(Report::Gone)));
        assert!(supervisor.next().await.is_none());
        supervisor.collect();
    }
}
