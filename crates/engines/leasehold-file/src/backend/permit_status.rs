//! Reads the permits of a semaphore without changing it.

use leasehold_core::proto::semaphore::{Limit, MAX_LIMIT};
use leasehold_core::{Name, Permits, Result, State, Status};

use super::directory::Directory;
use super::lock_file::locked_slots;
use super::os_error::failed;
use super::semaphore_record::SemaphoreRecord;
use super::waiter_queue::WaiterQueue;

/// The maximum number of permits that a status shows.
const SHOWN: usize = 100;

/// Returns the status of a semaphore; `None` if the name is not that of one.
pub(crate) fn status(directory: &Directory, name: &Name) -> Result<Option<Status>> {
    let files = directory.files(name);
    let Ok(Some(record)) = SemaphoreRecord::read(&files.record, name) else { return Ok(None) };
    let locked = locked_slots(&files.slots, MAX_LIMIT)
        .map_err(|error| failed("check", &files.slots, error))?;
    let mut status = Status::free(name);
    let mut permits = Permits::new(record.limit().map_or(0, Limit::get), record.limit_version);
    permits.held = u32::try_from(locked.len()).unwrap_or(u32::MAX);
    permits.holders = WaiterQueue::new(&files.readers).permits()?;
    // A new holder has made its card, and an old one may not have removed it yet.
    permits.holders.retain(|one| one.slots.iter().all(|slot| locked.binary_search(slot).is_ok()));
    permits.holders.truncate(SHOWN);
    if permits.held > 0 {
        status.state = State::Permits;
    }
    status.holder = permits.holders.first().map(|one| one.holder.clone());
    let mut waiters = WaiterQueue::new(&files.queue).waiters()?;
    // A new holder is about to leave the queue.
    let holds = |attempt| permits.holders.iter().any(|one| one.holder.attempt == attempt);
    waiters.retain(|waiter| !holds(waiter.holder.attempt));
    status.waiters = Some(waiters);
    status.permits = Some(permits);
    Ok(Some(status))
}
