//! The process that becomes the command, once `leasehold` knows its process group.
//!
//! The supervisor starts this stage (the same binary) in its own process group, and reports the
//! group before it sends the go. If the supervisor is killed before that, the stage sees the end of
//! file and ends, so the command never starts. If the supervisor is killed later, `leasehold` knows
//! the group and kills it.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use nix::sys::prctl;
use nix::sys::signal::Signal;

use crate::command::{self, own_program};
use crate::failure::code;
use crate::ipc::{receive_descriptors, send_descriptors};

/// The hidden subcommand.
pub(crate) const SUBCOMMAND: &str = "__stage";

/// Runs the stage; `command` is the user's command and its arguments.
pub(crate) fn main(command: impl Iterator<Item = OsString>) -> u8 {
    // The kernel ends the command with the supervisor, in case `leasehold` is dead or stopped too.
    // That reaches the command itself but not its children, and no set-uid program.
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    let Ok(socket) = io::stdin().as_fd().try_clone_to_owned() else { return code::OWN };
    let mut socket = UnixStream::from(socket);
    let Ok(descriptors) = receive_descriptors(&socket) else { return code::OWN };
    let Some(stdin) = descriptors.into_iter().next() else { return code::OWN };
    let error = command::exec(&command.collect::<Vec<_>>(), stdin);
    let _ = socket.write_all(&error.raw_os_error().unwrap_or_default().to_be_bytes());
    code::OWN
}

/// The supervisor's side of a stage.
#[derive(Debug)]
pub(crate) struct Stage {
    child: Child,
    socket: UnixStream,
    /// The system's error code of a go that could not be sent.
    unsent: Option<i32>,
}

impl Stage {
    /// Starts a stage that waits for [`go`](Self::go).
    pub(crate) fn start(command: &[OsString]) -> io::Result<Self> {
        let (socket, there) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let child = Command::new(own_program()?)
            .arg0("leasehold")
            .arg(SUBCOMMAND)
            .args(command)
            .stdin(Stdio::from(OwnedFd::from(there)))
            .process_group(0)
            .spawn()?;
        Ok(Self { child, socket, unsent: None })
    }

    /// Returns the process id, which is also that of the process group, and the command's.
    pub(crate) fn id(&self) -> io::Result<i32> {
        i32::try_from(self.child.id()).map_err(io::Error::other)
    }

    /// Lets the stage become the command, with this standard input. A stage that has ended
    /// meanwhile is not an error: its end is collected as that of the command. A stage that does
    /// not receive the go would wait for ever: it is killed, and [`failure`](Self::failure) returns
    /// the reason.
    pub(crate) fn go(&mut self, stdin: OwnedFd) {
        let Err(error) = send_descriptors(&self.socket, &[stdin.as_fd()]) else { return };
        if error.kind() != io::ErrorKind::BrokenPipe {
            self.unsent = Some(error.raw_os_error().unwrap_or_default());
            let _ = self.child.kill();
        }
    }

    /// Returns the system's error code if the stage has ended because it could not become the
    /// command.
    pub(crate) fn failure(&mut self) -> Option<i32> {
        if self.unsent.is_some() {
            return self.unsent;
        }
        let mut number = [0; size_of::<i32>()];
        self.socket.read_exact(&mut number).ok()?;
        Some(i32::from_be_bytes(number))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use nix::errno::Errno;

    use super::*;

    /// Starts a stage that waits, and returns the socket that it reads.
    fn waiting() -> (Stage, UnixStream) {
        let (socket, there) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        (Stage { child, socket, unsent: None }, there)
    }

    #[test]
    fn stage_that_cannot_be_told_to_go_is_ended_with_the_reason() {
        let (mut stage, _there) = waiting();
        while stage.socket.write(&[0; 4096]).is_ok() {} // No space for another byte.
        stage.go(io::stdin().as_fd().try_clone_to_owned().unwrap());
        let ended = stage.child.wait().unwrap();
        assert_eq!(ended.signal(), Some(Signal::SIGKILL as i32));
        assert_eq!(stage.failure(), Some(Errno::EAGAIN as i32));
    }

    #[test]
    fn stage_that_has_ended_before_it_was_told_is_collected_as_it_ended() {
        let (mut stage, there) = waiting();
        drop(there);
        stage.go(io::stdin().as_fd().try_clone_to_owned().unwrap());
        assert_eq!(stage.failure(), None);
        assert_eq!(stage.child.try_wait().unwrap(), None);
        stage.child.kill().unwrap();
        stage.child.wait().unwrap();
    }
}
