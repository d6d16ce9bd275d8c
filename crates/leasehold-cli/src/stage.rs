//! The process that becomes the command, once `leasehold` knows its process group.
//!
//! The supervisor starts this stage (the same binary) in a process group of its own and reports
//! the group before it says go. If the supervisor is killed before it says go, the stage sees the
//! end of file and ends, so the command never starts. If the supervisor is killed later,
//! `leasehold` knows the group and kills it.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use nix::sys::prctl;
use nix::sys::signal::Signal;

use crate::command;
use crate::failure::code;
use crate::run::own_program;
use crate::wire::{receive_descriptors, send_descriptors};

/// The hidden subcommand.
pub(crate) const SUBCOMMAND: &str = "__stage";

/// Runs the stage; `command` is the user's command and its arguments.
pub(crate) fn main(command: impl Iterator<Item = OsString>) -> u8 {
    // The kernel ends the command with the supervisor, should `leasehold` be dead or stopped too.
    // That reaches the command itself and not its children, and no program that is set-uid.
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
        Ok(Self { child, socket })
    }

    /// The process id, and that of the process group: the command's too.
    pub(crate) fn id(&self) -> io::Result<i32> {
        i32::try_from(self.child.id()).map_err(io::Error::other)
    }

    /// Lets the stage become the command, with this standard input. A stage that has ended
    /// meanwhile is no error: its end is collected as that of the command.
    pub(crate) fn go(&self, stdin: OwnedFd) {
        let _ = send_descriptors(&self.socket, &[stdin.as_fd()]);
    }

    /// The system's error code if the stage has ended because it could not become the command.
    pub(crate) fn failure(&mut self) -> Option<i32> {
        let mut number = [0; size_of::<i32>()];
        self.socket.read_exact(&mut number).ok()?;
        Some(i32::from_be_bytes(number))
    }
}
