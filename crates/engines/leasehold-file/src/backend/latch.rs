//! The value of a latch. It is replaced while the lock file is locked, for the time of one write.

use leasehold_core::backend::ValueSwap;
use leasehold_core::{ErrorKind, Name, Result, Status};

use super::directory::write_record;
use super::latch_record::LatchRecord;
use super::os_error::failed;
use super::store::Store;
use super::waiter_queue::WaiterQueue;

impl Store {
    /// Returns the value, until it expires.
    pub(crate) fn value(&self, name: &Name) -> Result<Option<Vec<u8>>> {
        let stored = LatchRecord::read(&self.directory.files(name).record, name)?;
        let now = self.clock.now();
        Ok(stored.and_then(|record| record.value(now).map(<[u8]>::to_vec)))
    }

    /// Replaces the value, if it is the one that the client has read.
    pub(crate) fn swap_value(&self, swap: &ValueSwap) -> Result<bool> {
        let files = self.directory.files(&swap.name);
        let read = || LatchRecord::read(&files.record, &swap.name);
        let _section = self.section(&files, || read().map(drop))?;
        let (stored, now) = (read()?, self.clock.now());
        if stored.as_ref().and_then(|record| record.value(now)) != swap.seen.as_deref() {
            return Ok(false);
        }
        write_record(&LatchRecord::new(swap, now), &files)?;
        Ok(true)
    }

    /// Returns the status of a latch; `None` if the name is not that of one.
    pub(crate) fn latch_status(&self, name: &Name) -> Option<Status> {
        let files = self.directory.files(name);
        let record = LatchRecord::read(&files.record, name).ok()??;
        let now = self.clock.now();
        let Some(value) = record.value(now) else {
            let mut status = Status::free(name);
            status.waiters = WaiterQueue::new(&files.queue).waiters().ok();
            return Some(status);
        };
        let left = record.until_unix_ms().saturating_sub(now.unix_ms());
        Some(Status::of_latch(name, value, Some(std::time::Duration::from_millis(left))))
    }

    /// Does a step for a lock or a semaphore, again if the name was that of a latch that has expired.
    pub(crate) fn after_latch<T>(&self, name: &Name, step: impl Fn() -> Result<T>) -> Result<T> {
        match step() {
            Err(error) if error.kind() == ErrorKind::Invalid && self.remove_expired(name)? => {
                step()
            }
            done => done,
        }
    }

    /// Removes the record of a latch that has expired. Returns true if it did.
    fn remove_expired(&self, name: &Name) -> Result<bool> {
        let files = self.directory.files(name);
        let is_expired = || {
            let Ok(Some(record)) = LatchRecord::read(&files.record, name) else { return false };
            record.value(self.clock.now()).is_none()
        };
        if !is_expired() {
            return Ok(false);
        }
        let _section = self.section(&files, || Ok(()))?;
        let removed = is_expired();
        if removed {
            let removing = |error| failed("remove", &files.record, error);
            std::fs::remove_file(&files.record).map_err(removing)?;
        }
        Ok(removed)
    }
}
