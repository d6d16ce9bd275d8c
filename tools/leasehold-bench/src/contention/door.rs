//! The files of a judge, in memory where there is such a place.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::judge::{file_of, notes_of};
use crate::Result;

/// Each has files of its own.
static NUMBER: AtomicU32 = AtomicU32::new(0);

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
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("leasehold-bench-judge-{}-{number}", std::process::id()));
        let door = Self { path, slots };
        for slot in 0..slots {
            let path = file_of(&door.path, slot);
            let _ = fs::remove_file(&path);
            let _ = fs::remove_file(notes_of(&path));
            let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
            file.write_all(&vec![0; length])?;
        }
        Ok(door)
    }

    /// The file of the first slot.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How often two were inside at once, and how often a token fell, in all processes.
    #[cfg(feature = "servers")]
    pub(crate) fn notes(&self) -> Result<(u64, u64)> {
        let notes = match fs::read(notes_of(&self.path)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            notes => notes?,
        };
        let number = |what| notes.iter().filter(|note| **note == what).count() as u64;
        Ok((number(b'o'), number(b't')))
    }

    /// The number of the process that was inside last, or is, and when it entered by the file's time.
    #[cfg(feature = "servers")]
    pub(crate) fn last_entry(&self) -> Result<(u32, std::time::SystemTime)> {
        // In this order: one that enters in between is seen with its number.
        let entered = fs::metadata(&self.path)?.modified()?;
        Ok((self.entered_last()?, entered))
    }

    /// The number of the process that was inside last, or is; 0 before the first.
    #[cfg(feature = "servers")]
    pub(crate) fn entered_last(&self) -> Result<u32> {
        let mut process = [0; 4];
        std::os::unix::fs::FileExt::read_exact_at(&fs::File::open(&self.path)?, &mut process, 0)?;
        Ok(u32::from_le_bytes(process))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        for slot in 0..self.slots {
            let path = file_of(&self.path, slot);
            let _ = fs::remove_file(notes_of(&path));
            let _ = fs::remove_file(path);
        }
    }
}
