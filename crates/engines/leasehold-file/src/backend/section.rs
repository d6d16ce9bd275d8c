//! The critical section of a semaphore or a latch: the time while its lock file is locked for one write.

use std::time::Duration;

use leasehold_core::{Error, ErrorKind, Result};

use super::directory::Files;
use super::lock_file::{LockFile, is_absent};
use super::os_error::failed;
use super::store::Store;

/// How often, and how long apart, a process tries to enter the critical section: for about 4 s.
const TRIES: usize = 2_000;
const PAUSE: Duration = Duration::from_millis(2);

/// The right to write the record, until it is dropped. No other process has it meanwhile.
pub(crate) struct Section(LockFile);

impl Drop for Section {
    fn drop(&mut self) {
        // Closing is not enough while a child of another thread is between fork and exec.
        let _ = self.0.unlock();
    }
}

impl Store {
    /// Enters the critical section of a name. While it is locked, `check` finds out whether its holder holds it
    /// as a lock, which is an error.
    pub(crate) fn section(&self, files: &Files, check: impl Fn() -> Result<()>) -> Result<Section> {
        let entering = |error| failed("lock", &files.lock, error);
        for _ in 0..TRIES {
            let file = match LockFile::open(&files.lock) {
                Err(error) if is_absent(&error) => {
                    // The directory was removed since it was opened.
                    self.directory.prepare()?;
                    LockFile::open(&files.lock)
                }
                opened => opened,
            };
            let file = file.map_err(entering)?;
            if file.try_lock().map_err(entering)? {
                if file.is_at(&files.lock).map_err(entering)? {
                    return Ok(Section(file));
                }
                continue;
            }
            check()?;
            std::thread::sleep(PAUSE);
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!(
                "{} is locked by another process that changes the semaphore or the latch and does not finish; \
                 look for a stopped process (`fuser`), and let it go on or end it",
                files.lock.display()
            ),
        ))
    }
}
