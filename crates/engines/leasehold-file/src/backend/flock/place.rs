//! A place in the line of those that wait for a file.

use std::sync::Arc;

use leasehold_core::{AttemptId, Result};

use super::super::flock_line::Line;
use super::super::lock_file::LockFile;
use super::super::watch::Watch;

/// A place in a line. Dropping it leaves the line, and unlocks what was locked for it.
#[derive(Debug)]
pub(super) struct Place {
    line: Arc<Line>,
    attempt: AttemptId,
    /// `None` if no event wakes it, so that it asks at intervals.
    watch: Option<Watch>,
}

impl Place {
    /// Enters the line with a file that is open.
    pub(super) fn enter(line: Arc<Line>, attempt: AttemptId, file: LockFile) -> Self {
        line.enter(attempt, file);
        Self { line, attempt, watch: None }
    }

    /// Has the thread lock the file for this place.
    pub(super) fn watch(&mut self, begin: impl FnOnce(&Arc<Line>) -> Option<Watch>) {
        self.watch = begin(&self.line);
    }

    /// Returns true if the file of the path is watched.
    pub(super) fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// Returns the locked file, if this attempt or the thread could lock it.
    pub(super) fn try_lock(&mut self) -> Result<Option<LockFile>> {
        let (locked, reopened) = self.line.try_for(self.attempt);
        if reopened {
            // It is the watch of another file. The line must not be locked here: the thread locks both, in this order.
            self.watch = None;
        }
        locked
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.line.leave(self.attempt);
    }
}
