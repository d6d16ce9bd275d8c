//! The readers that hold a lock: a card for each, and the message that a writer waits.
//!
//! The kernel keeps writers out as long as a reader's lock file is open; the cards are for people. They
//! are files in `NAME.readers`, made and removed as the places in the queue. Readers watch that
//! directory, whose attributes a writer sets when it joins the queue.

use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::PoisonError;

use leasehold_core::Result;
use leasehold_core::backend::AcquireRequest;
use nix::libc;

use super::directory::Files;
use super::lease::Presence;
use super::lock_file::NO_TRICKS;
use super::store::Store;
use super::waiter_queue::{PlaceKind, WaiterQueue};
use super::watch::Kind;

impl Store {
    /// Shows others that this attempt reads, and learns from now on when a writer begins to wait.
    pub(crate) fn appear(&self, request: &AcquireRequest, files: &Files) -> Result<Presence> {
        let cards = WaiterQueue::new(&files.readers);
        cards.remove_last_dead()?;
        let holder = request.origin.holder(request.attempt);
        let card = cards.join(&holder, PlaceKind::Plain, self.clock.now())?;
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        // Without a watch, the next renewal tells that a writer waits.
        let AcquireRequest { name, attempt, .. } = request;
        let watch = watching.watch(*attempt, Kind::Readers, &files.readers, name, &self.clock);
        Ok(Presence { _watch: watch, _card: card })
    }

    /// Returns true if a reader must expect that a writer waits.
    pub(crate) fn is_wanted(&self, files: &Files) -> bool {
        WaiterQueue::new(&files.queue).has_writer().unwrap_or(true)
    }
}

/// Tells the readers of a lock that a writer waits.
pub(crate) fn tell(readers: &Path) {
    let mut options = OpenOptions::new();
    let directory: std::io::Result<File> =
        options.read(true).custom_flags(NO_TRICKS | libc::O_DIRECTORY).open(readers);
    if let Ok(directory) = directory {
        // The mode that it has: only the event matters.
        let _ = directory.set_permissions(Permissions::from_mode(0o700));
    }
}
