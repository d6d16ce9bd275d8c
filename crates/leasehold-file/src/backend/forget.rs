//! Removing the files of locks that nobody will want again.

use std::fs;
use std::io;
use std::path::Path;

use leasehold_core::Result;

use super::directory::Directory;
use super::escape::unescape;
use super::lockfile::{LockFile, is_absent};
use super::oserror::failed;

/// Removes the files of the free locks whose names start with `names`, and says of how many. Names
/// so long that their files have a hash are left out.
pub(super) fn forget(directory: &Directory, names: &str) -> Result<u64> {
    let mut removed = 0;
    for stem in directory.stems()? {
        let Some(name) = unescape(&stem).filter(|name| name.as_str().starts_with(names)) else {
            continue;
        };
        let files = directory.files(&name);
        let forgotten = || -> io::Result<bool> {
            // Locked, so that nobody takes it meanwhile; a waiter finds the file gone and makes anew.
            let lock = LockFile::open(&files.lock)?;
            if !lock.try_lock()? {
                return Ok(false);
            }
            absent(fs::remove_dir_all(&files.line))?;
            for file in [&files.record, &files.draft, &files.lock] {
                absent(fs::remove_file(file))?;
            }
            Ok(true)
        };
        let forgotten =
            forgotten().map_err(|error| failed("remove", Path::new(&files.lock), error));
        removed += u64::from(forgotten?);
    }
    Ok(removed)
}

fn absent(done: io::Result<()>) -> io::Result<()> {
    done.or_else(|error| if is_absent(&error) { Ok(()) } else { Err(error) })
}
