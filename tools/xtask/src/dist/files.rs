//! Files of a package, and how they are written to a tree that has the same bytes and modes on every machine.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::failed;

/// A file of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The path below the root of the package, with slashes.
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
    pub(super) is_program: bool,
}

impl Entry {
    pub(super) fn new(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), bytes: bytes.into(), is_program: false }
    }

    pub(super) fn program(path: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { is_program: true, ..Self::new(path, bytes) }
    }

    /// Returns the same file at another place.
    pub(super) fn at(&self, path: impl Into<String>) -> Self {
        Self { path: path.into(), ..self.clone() }
    }
}

/// Writes the files below an empty folder. The mask of this process does not matter.
pub(super) fn write(folder: &Path, entries: &[Entry]) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| failed("remove", folder, &error))?;
    }
    for entry in entries {
        let path = folder.join(&entry.path);
        let above = path.parent().unwrap_or(folder);
        fs::create_dir_all(above).map_err(|error| failed("create", above, &error))?;
        fs::write(&path, &entry.bytes).map_err(|error| failed("write", &path, &error))?;
        set_mode(&path, if entry.is_program { 0o755 } else { 0o644 })?;
    }
    set_folders(folder)
}

fn set_folders(folder: &Path) -> Result<(), String> {
    set_mode(folder, 0o755)?;
    let unreadable = |error| failed("read", folder, &error);
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            set_folders(&path)?;
        }
    }
    Ok(())
}

fn set_mode(path: &Path, mode: u32) -> Result<(), String> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(|error| failed("set the mode of", path, &error))
}
