//! The files of a judge, in memory where there is such a place.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::judge::file_of;
use crate::Result;

/// The files, one for each slot. They go when this is dropped.
#[derive(Debug)]
pub(crate) struct Door {
    path: PathBuf,
    slots: u32,
}

impl Door {
    /// Makes files of so many bytes, all zero.
    pub(crate) fn new(length: usize, slots: u32) -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let path = folder.join(format!("leasehold-bench-judge-{}", std::process::id()));
        let door = Self { path, slots };
        for slot in 0..slots {
            let path = file_of(&door.path, slot);
            let _ = fs::remove_file(&path);
            let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
            file.write_all(&vec![0; length])?;
        }
        Ok(door)
    }

    /// The file of the first slot.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        for slot in 0..self.slots {
            let _ = fs::remove_file(file_of(&self.path, slot));
        }
    }
}
