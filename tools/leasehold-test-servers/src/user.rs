//! The user that a server runs as which refuses to be root.

use std::io;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::unistd::{User as Passwd, geteuid};

use crate::programs::setpriv;

/// Another user of the system.
#[derive(Clone, Debug)]
pub(super) struct User {
    uid: u32,
    gid: u32,
}

impl User {
    /// For root, returns the user `name`, or the system's unprivileged user if it does not exist.
    /// Returns `None` for other users, which start servers as themselves.
    pub(super) fn for_root(name: &str) -> io::Result<Option<Self>> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        for name in [name, "nobody"] {
            if let Some(user) = Passwd::from_name(name)? {
                return Ok(Some(Self { uid: user.uid.as_raw(), gid: user.gid.as_raw() }));
            }
        }
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("neither the user {name} nor the user nobody exists"),
        ))
    }

    /// The arguments of `setpriv` for it.
    pub(super) fn setpriv(&self) -> Vec<String> {
        vec![
            format!("--reuid={}", self.uid),
            format!("--regid={}", self.gid),
            "--clear-groups".into(),
        ]
    }

    /// Gives it a file or directory.
    pub(super) fn own(&self, path: &Path) -> io::Result<()> {
        chown(path, Some(self.uid), Some(self.gid))
    }
}

/// Runs a program to its end, in `directory`, as `user` if there is one; its output.
pub(super) fn run(
    user: Option<&User>,
    program: &Path,
    directory: &Path,
    prepare: impl FnOnce(&mut Command),
) -> io::Result<String> {
    let mut command = match user {
        Some(user) => {
            let mut command = setpriv()?;
            command.args(user.setpriv()).arg("--").arg(program);
            command
        }
        None => Command::new(program),
    };
    prepare(&mut command);
    command.env("TMPDIR", directory);
    let output = command.current_dir(directory).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("{}: {}", program.display(), said.trim())))
}
