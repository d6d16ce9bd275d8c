//! Libraries that stand before the C library in one program, compiled when the test runs.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A compiled library, in a directory that every user may read.
#[derive(Debug)]
pub(super) struct Shim {
    directory: TempDir,
    name: &'static str,
}

impl Shim {
    /// Compiles it by `cc`, which Rust needs for linking anyway.
    pub(super) fn build(name: &'static str, source: &str) -> io::Result<Self> {
        let directory = tempfile::tempdir()?;
        // A server that refuses to be root has another user.
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755))?;
        std::fs::write(directory.path().join("shim.c"), source)?;
        let output = Command::new("cc")
            .args(["-O1", "-shared", "-fPIC", "-o", &format!("{name}.so"), "shim.c"])
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        Ok(Self { directory, name })
    }

    /// A file beside it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The environment in which a program has it; `variable` names the file by which it is moved.
    pub(super) fn env(&self, variable: &str, file: &str) -> [(String, String); 2] {
        let text = |name: &str| self.path(name).to_string_lossy().into_owned();
        let library = text(&format!("{}.so", self.name));
        [(PRELOAD.into(), library), (variable.into(), text(file))]
    }
}

/// What the linker reads the names of libraries from.
const PRELOAD: &str = "LD_PRELOAD";

/// Puts environments together, so that a program has the libraries of all.
pub fn together(environments: impl IntoIterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for (name, value) in environments {
        match all.iter_mut().find(|(other, _)| *other == name) {
            Some((_, libraries)) if name == PRELOAD => *libraries += &format!(":{value}"),
            Some((_, other)) => *other = value,
            None => all.push((name, value)),
        }
    }
    all
}
