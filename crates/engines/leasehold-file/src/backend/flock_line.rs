//! Those of one process that wait for a file to be unlocked by flock(2).
//!
//! No thread blocks in flock(2): only a signal could end that, and a wait that was given up would take the lock later.
//! The thread that hears when the file is closed locks it for the first that waits, which then asks and has it.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_core::{AttemptId, Name, Result};

use super::flock_open::open;
use super::lock_file::LockFile;
use super::os_error::failed;

/// The attempts that wait for one file, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Line {
    name: Name,
    path: PathBuf,
    waiting: Mutex<VecDeque<Entry>>,
}

#[derive(Debug)]
struct Entry {
    attempt: AttemptId,
    file: Option<LockFile>,
    /// The thread has locked the file, and the attempt does not know yet.
    locked: bool,
    /// The file was opened again since the attempt has asked, so that another one is to be watched.
    reopened: bool,
}

impl Line {
    pub(crate) fn new(name: Name, path: PathBuf) -> Self {
        Self { name, path, waiting: Mutex::default() }
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name of the lock.
    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    /// Enters the line with a file that is open.
    pub(crate) fn enter(&self, attempt: AttemptId, file: LockFile) {
        let entry = Entry { attempt, file: Some(file), locked: false, reopened: false };
        self.lock().push_back(entry);
    }

    /// Leaves the line, and unlocks what was locked for the attempt.
    pub(crate) fn leave(&self, attempt: AttemptId) {
        let mut waiting = self.lock();
        let at = waiting.iter().position(|entry| entry.attempt == attempt);
        let Some(entry) = at.and_then(|at| waiting.remove(at)) else { return };
        if let Entry { file: Some(file), locked: true, .. } = entry {
            // Closing is not enough while a child of another thread is between fork and exec.
            let _ = file.unlock();
        }
    }

    /// Returns the locked file, if the attempt or the thread could lock it; and whether another file is under the path
    /// since the attempt has asked last.
    pub(crate) fn try_for(&self, attempt: AttemptId) -> (Result<Option<LockFile>>, bool) {
        let mut waiting = self.lock();
        let entry = waiting.iter_mut().find(|entry| entry.attempt == attempt);
        let Some(entry) = entry else { return (Ok(None), false) };
        let locked = entry.try_lock(&self.path);
        let reopened = std::mem::take(&mut entry.reopened);
        let file = entry.file.take_if(|_| entry.locked);
        entry.locked = false;
        let file = locked.map(|_| file).map_err(|error| failed("lock", &self.path, error));
        (file, reopened)
    }

    /// Tries so often to lock the file for the first; true if that has just succeeded.
    pub(crate) fn try_first(&self, tries: usize) -> bool {
        let mut waiting = self.lock();
        if waiting.iter().any(|entry| entry.locked) {
            return false;
        }
        let Some(first) = waiting.front_mut() else { return false };
        for _ in 0..tries {
            match first.try_lock(&self.path) {
                // Without giving up the processor: on a busy machine each time would cost milliseconds, in which others
                // wait for this line.
                Ok(false) => std::hint::spin_loop(),
                // The attempt finds out about an error itself.
                tried => return tried.is_ok(),
            }
        }
        false
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Tries to lock the file that is now under the path.
    fn try_lock(&mut self, path: &Path) -> io::Result<bool> {
        if self.locked {
            return Ok(true);
        }
        if let Some(file) = &self.file
            && !file.is_at(path)?
        {
            self.file = None;
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                self.reopened = true;
                open(path)?
            }
        };
        let locked = file.try_lock();
        self.file = Some(file);
        self.locked = locked?;
        Ok(self.locked)
    }
}
