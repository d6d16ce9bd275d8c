//! A directory whose disk is full for one program, on command.
//!
//! A library that stands before the C library's `write` and its kin. It does not reach programs that call
//! the system themselves, as those in Go do, and it does not see what is written through mapped memory.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::shim::Shim;

const SOURCE: &str = include_str!("disk_shim.c");
/// What the library reads the name of its file from.
const VARIABLE: &str = "LEASEHOLD_DISK_SHIM";
/// The longest path, with the zero behind it.
const PATH_MAX: usize = 4096;

/// What a full disk refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// What makes a file longer, as on a disk where each block of a file has its place.
    Growth = 1,
    /// Each write, as on a disk that writes to a new place.
    Writes = 2,
}

/// The disk of all programs that were started with its [`env`](Self::env). Lives longer than they.
#[derive(Debug)]
pub struct DiskShim {
    shim: Shim,
    file: File,
}

impl DiskShim {
    /// Compiles it; the disk has space at first.
    ///
    /// # Errors
    /// Without `cc`, or with what it says.
    pub fn build() -> io::Result<Self> {
        let shim = Shim::build("disk_shim", SOURCE)?;
        let file = File::options().write(true).create_new(true).open(shim.path("disk"))?;
        file.set_len((size_of::<i32>() + PATH_MAX) as u64)?;
        Ok(Self { shim, file })
    }

    /// The environment in which a program has this disk.
    pub fn env(&self) -> [(String, String); 2] {
        self.shim.env(VARIABLE, "disk")
    }

    /// From now on files below `directory` are on a full disk: writes fail with `ENOSPC`.
    ///
    /// # Errors
    /// What the file system says.
    pub fn fill(&self, directory: &Path, full: Full) -> io::Result<()> {
        let directory = directory.canonicalize()?;
        let path = [directory.as_os_str().as_bytes(), &[0]].concat();
        if path.len() > PATH_MAX {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        self.file.write_all_at(&path, size_of::<i32>() as u64)?;
        self.set(full as i32)
    }

    /// The disk has space again.
    ///
    /// # Errors
    /// What the file system says.
    pub fn free(&self) -> io::Result<()> {
        self.set(0)
    }

    fn set(&self, mode: i32) -> io::Result<()> {
        self.file.write_all_at(&mode.to_ne_bytes(), 0)
    }
}
