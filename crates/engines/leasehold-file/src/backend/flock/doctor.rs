//! Checks for what can harm locks that callers of flock(2) share, without changing anything.

use std::path::Path;

use leasehold_core::doctor::Diagnosis;
use leasehold_core::{ErrorKind, Result};
use nix::sys::statfs::statfs;
use nix::unistd::{AccessFlags, access};

use super::super::doctor::look_at_file_system;
use super::super::here::Here;
use super::folder::Folder;
use super::kernel::sees_all;

/// Checks the directory at this path.
///
/// # Errors
/// None at the moment: the result lists what could not be checked.
pub(super) fn diagnose(root: &Path, suffix: &str) -> Result<Diagnosis> {
    let mut diagnosis = Diagnosis::at(format!("file:{}?wire=flock", root.display()));
    diagnosis.note(
        "no-lease",
        "no time ends a lock of flock(2)",
        "a holder that is stopped or hangs keeps it, and so does a child of `flock FILE COMMAND` that goes on in the \
         background",
        "run commands with `flock --close`, and end a process that hangs",
    );
    if !root.is_dir() {
        diagnosis.problem(
            "absent",
            "there is no such directory",
            "clients refuse it: the callers of flock(1) lock files elsewhere",
            "create it, or name the directory of their files",
        );
        return Ok(diagnosis);
    }
    match statfs(root) {
        Ok(found) => look_at_file_system(&mut diagnosis, &found),
        Err(error) => diagnosis.unseen("the type of the file system", error.to_string()),
    }
    match Folder::seen(root, suffix).check() {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::Foreign => diagnosis.problem(
            "foreign",
            error.message(),
            "each kind of client would hold a lock that the other one does not see",
            "give all clients the same option, or choose another directory",
        ),
        Err(error) => diagnosis.refused(&error),
    }
    if let Err(error) = access(root, AccessFlags::W_OK | AccessFlags::X_OK) {
        diagnosis.problem(
            "not-writable",
            format!("this user may not write in the directory: {}", error.desc()),
            "a holder must write the record of the lock",
            "give this user write access, or choose another directory",
        );
    }
    if !sees_all(Here::find().pid_namespace) {
        diagnosis.note(
            "container",
            "the kernel does not show the locks of processes outside this container",
            "the locks work, but status may call one free that such a process holds",
            "",
        );
    }
    Ok(diagnosis)
}
