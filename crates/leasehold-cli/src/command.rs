//! Programs that this process starts or becomes.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::errno::Errno;

/// Replaces this process with the command, with this standard input; returns only on failure.
/// `/bin/sh` runs a script without a `#!` line, as with `execvp`, `env`, `timeout` and every shell.
pub(crate) fn exec(words: &[OsString], stdin: OwnedFd) -> io::Error {
    let Some((program, arguments)) = words.split_first() else {
        return io::ErrorKind::InvalidInput.into();
    };
    let again = match stdin.try_clone() {
        Ok(again) => again,
        Err(error) => return error,
    };
    let error = Command::new(program).args(arguments).stdin(Stdio::from(stdin)).exec();
    match find(program) {
        Some(script) if error.raw_os_error() == Some(Errno::ENOEXEC as i32) => {
            Command::new("/bin/sh").arg(script).args(arguments).stdin(Stdio::from(again)).exec()
        }
        _ => error,
    }
}

/// Returns this program, even if its file was replaced meanwhile.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    let own = Path::new("/proc/self/exe");
    if own.exists() { Ok(own.into()) } else { env::current_exe() }
}

/// Returns where `execvp` found the program.
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
