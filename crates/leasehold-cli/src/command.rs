//! Starting the command in a process group of its own.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;

/// Starts a command with this standard input. A script without a `#!` line is run by `/bin/sh`,
/// as `execvp` does, and with it `env`, `timeout` and every shell.
pub(crate) fn spawn(words: &[OsString], stdin: OwnedFd) -> io::Result<Child> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let again = stdin.try_clone()?;
    let direct = start(Command::new(program).args(arguments), stdin);
    match direct {
        Err(error) if error.raw_os_error() == Some(Errno::ENOEXEC as i32) => {
            let script = find(program).ok_or(error)?;
            start(Command::new("/bin/sh").arg(script).args(arguments), again)
        }
        other => other,
    }
}

fn start(command: &mut Command, stdin: OwnedFd) -> io::Result<Child> {
    command.stdin(Stdio::from(stdin)).process_group(0).spawn()
}

/// Where `execvp` found the program.
fn find(program: &OsStr) -> Option<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return Some(program.into());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
