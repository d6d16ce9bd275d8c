//! The judge's own file locks: a holder takes one when it has got the lock, and nothing of Leasehold knows of it.
//! The kernel frees it when its process ends. A stopped process keeps it, also after its lease has ended.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::part::Part;

/// The files of a run: one for the lock, or one for each slot.
#[derive(Clone, Debug)]
pub(crate) struct Gates(PathBuf);

/// What a holder has locked; it is freed when this is dropped.
#[derive(Debug)]
pub(crate) struct Entered {
    files: Vec<File>,
    /// Another holder had locked a file.
    pub(crate) met: bool,
}

impl Gates {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self(folder.to_path_buf())
    }

    /// Locks the files of a part without waiting.
    pub(crate) fn enter(&self, part: Part) -> io::Result<Entered> {
        let operation = match part {
            Part::Read => FlockOperation::NonBlockingLockShared,
            Part::Whole | Part::Slots(_) => FlockOperation::NonBlockingLockExclusive,
        };
        let (mut files, mut met) = (Vec::new(), false);
        for track in part.tracks() {
            let path = self.0.join(format!("gate-{track}"));
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)?;
            match flock(&file, operation) {
                Ok(()) => files.push(file),
                Err(Errno::WOULDBLOCK) => met = true,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Entered { files, met })
    }
}

impl Drop for Entered {
    /// Closing the files is not enough: a process that another thread has just forked has a copy of each until it
    /// executes its program.
    fn drop(&mut self) {
        for file in &self.files {
            flock(file, FlockOperation::Unlock).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_tells_of_whom_it_meets() {
        let folder = tempfile::tempdir().unwrap();
        let gates = Gates::in_folder(folder.path());
        let met = |part| gates.enter(part).unwrap().met;
        let one = gates.enter(Part::Read).unwrap();
        assert!(!met(Part::Read) && met(Part::Whole));
        drop(one);
        let one = gates.enter(Part::of_slots(&[1, 2])).unwrap();
        assert!(!one.met && !met(Part::of_slots(&[0, 3])) && met(Part::of_slots(&[2, 3])));
    }
}
