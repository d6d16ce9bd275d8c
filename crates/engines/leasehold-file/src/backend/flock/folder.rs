//! The directory of the files that callers of flock(2) lock, and the hidden one beside them that has our records.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use leasehold_core::{Error, ErrorKind, Name, Result};
use nix::unistd::geteuid;

use super::super::directory::{FLOCK_RECORDS, Files, refuse_network, sync};
use super::super::escape::escape;
use super::super::lock_file::is_absent;
use super::super::os_error::{failed, foreign};
use super::file_name::file_name;

/// A directory, by absolute path.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    pub(super) root: PathBuf,
    records: PathBuf,
    suffix: String,
}

impl Folder {
    /// Opens a directory, which must exist: a caller of flock(1) does not create it either.
    pub(super) fn open(path: &Path, suffix: &str) -> Result<Self> {
        let root =
            std::path::absolute(path).map_err(|error| failed("resolve the path", path, error))?;
        refuse_network(&root)?;
        let folder = Self::seen(&root, suffix);
        if !root.is_dir() {
            let what = format!(
                "{} is no directory; create it, or name the directory of the files that are locked with flock(1)",
                root.display()
            );
            return Err(Error::new(ErrorKind::Refused, what));
        }
        folder.prepare()?;
        Ok(folder)
    }

    /// Returns the directory without a look at it.
    pub(super) fn seen(root: &Path, suffix: &str) -> Self {
        let (root, suffix) = (root.to_owned(), suffix.to_owned());
        Self { records: root.join(FLOCK_RECORDS), root, suffix }
    }

    /// Creates the directory of the records if it is missing.
    pub(super) fn prepare(&self) -> Result<()> {
        let made = DirBuilder::new().mode(0o700).create(&self.records);
        let made = match made {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(failed("create the directory", &self.records, error)),
        };
        self.check().inspect_err(|_| {
            if made {
                let _ = fs::remove_dir(&self.records);
            }
        })?;
        if made {
            // Otherwise a power loss could remove the directory, and with it all tokens.
            sync(&self.root).map_err(|error| failed("sync", &self.root, error))?;
        }
        Ok(())
    }

    /// Refuses records that another user could change, and a directory that clients without the option use.
    pub(super) fn check(&self) -> Result<()> {
        let meta = match self.records.symlink_metadata() {
            Err(error) if is_absent(&error) => None,
            meta => Some(meta.map_err(|error| failed("check", &self.records, error))?),
        };
        if meta.is_some_and(|meta| !meta.is_dir() || meta.uid() != geteuid().as_raw()) {
            let what = format!(
                "{} belongs to another user, or is no directory; choose a directory where all clients of Leasehold run \
                 as one user, or a server as store",
                self.records.display()
            );
            return Err(Error::new(ErrorKind::Refused, what));
        }
        if self.root.join("format").exists() && self.root.join("locks").exists() {
            return Err(foreign(
                &self.root,
                "clients without the option wire use it, and this client would not exclude them; give all clients the \
                 same option, or choose another directory",
            ));
        }
        Ok(())
    }

    /// Returns true unless the directory of the records was removed.
    pub(super) fn is_prepared(&self) -> bool {
        self.records.is_dir()
    }

    /// Returns the files of a lock, and the name of the locked one, by which the record is known: clients with another
    /// suffix may have another name for it.
    pub(super) fn files(&self, name: &Name) -> Result<(Name, Files)> {
        let file = file_name(name, &self.suffix);
        let lock = self.root.join(&file);
        let known = Name::new(file)?;
        let stem = escape(&known);
        let beside = |suffix| self.records.join(format!("{stem}.{suffix}"));
        let (record, draft) = (beside("json"), beside("tmp"));
        let (queue, readers, slots) = (beside("wait"), beside("readers"), beside("slots"));
        Ok((known, Files { lock, record, draft, queue, readers, slots }))
    }
}
