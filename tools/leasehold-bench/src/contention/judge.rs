//! Whether two were inside at once: a file that says so, whatever the locks believe. A semaphore has a file
//! for each slot.
//!
//! This file is also a part of `tools/peers/rslock`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, fcntl_lock, flock};

/// Process (4 bytes, little endian), task (4 bytes), token (8 bytes) of who was inside last.
pub(crate) const LENGTH: usize = 16;

/// The file of a slot, from 0; a lock has the first alone.
pub(crate) fn file_of(path: &Path, slot: u32) -> PathBuf {
    match slot {
        0 => path.to_path_buf(),
        _ => PathBuf::from(format!("{}.{slot}", path.display())),
    }
}

/// The file beside it where a task notes at once what must not be: it may be killed before its report.
pub(crate) fn notes_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.notes", path.display()))
}

/// One task's view of the file: its lock belongs to this opening of it alone.
#[derive(Debug)]
pub(crate) struct Judge {
    file: File,
    notes: PathBuf,
    process: u32,
    task: u32,
    /// It locks records too: `FileChannel.tryLock` of Java knows nothing else.
    records: bool,
}

/// What was seen at the door.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Visit {
    /// No other task was inside.
    Alone { before: Before, token_grew: bool },
    /// Another task was inside.
    Overlap,
}

/// Who was inside before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Before {
    /// This task, or no task yet.
    Same,
    /// Another task of this process.
    Local,
    /// Another process.
    Remote,
}

impl Judge {
    /// Opens the file; numbers count from 1.
    pub(crate) fn open(path: &Path, process: u32, task: u32) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Self { file, notes: notes_of(path), process, task, records: false })
    }

    /// Sees those too who lock records of the file, in other processes.
    pub(crate) fn with_records(self) -> Self {
        Self { records: true, ..self }
    }

    /// The task has got the lock; `token` is 0 where there is none.
    pub(crate) fn enter(&self, token: u64) -> io::Result<Visit> {
        let visit = self.look(token)?;
        match visit {
            Visit::Overlap => self.note(b"o")?,
            Visit::Alone { token_grew: false, .. } => self.note(b"t")?,
            Visit::Alone { .. } => {}
        }
        Ok(visit)
    }

    fn note(&self, what: &[u8]) -> io::Result<()> {
        OpenOptions::new().append(true).create(true).open(&self.notes)?.write_all(what)
    }

    fn look(&self, token: u64) -> io::Result<Visit> {
        match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(error) if error == rustix::io::Errno::WOULDBLOCK => return Ok(Visit::Overlap),
            Err(error) => return Err(error.into()),
        }
        if self.records && fcntl_lock(&self.file, FlockOperation::NonBlockingLockExclusive).is_err()
        {
            flock(&self.file, FlockOperation::Unlock)?;
            return Ok(Visit::Overlap);
        }
        let mut last = [0; LENGTH];
        self.file.read_exact_at(&mut last, 0)?;
        let [a, b, c, d, e, f, g, h, token_before @ ..] = last;
        let (process, task) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        let mut now = [0; LENGTH];
        now[..4].copy_from_slice(&self.process.to_le_bytes());
        now[4..8].copy_from_slice(&self.task.to_le_bytes());
        now[8..].copy_from_slice(&token.to_le_bytes());
        self.file.write_all_at(&now, 0)?;
        let before = match (process, task) {
            (0, _) => Before::Same,
            both if both == (self.process, self.task) => Before::Same,
            (process, _) if process == self.process => Before::Local,
            _ => Before::Remote,
        };
        Ok(Visit::Alone {
            before,
            token_grew: token == 0 || token > u64::from_le_bytes(token_before),
        })
    }

    /// The task is about to give the lock back.
    pub(crate) fn leave(&self, visit: Visit) -> io::Result<()> {
        match visit {
            Visit::Overlap => Ok(()),
            Visit::Alone { .. } => {
                if self.records {
                    fcntl_lock(&self.file, FlockOperation::Unlock)?;
                }
                Ok(flock(&self.file, FlockOperation::Unlock)?)
            }
        }
    }
}
