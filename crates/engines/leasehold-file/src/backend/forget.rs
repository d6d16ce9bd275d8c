//! Removes the files of locks that are never used again.

use std::fs;
use std::io;

use leasehold_core::clock::Clock;
use leasehold_core::proto::semaphore::MAX_LIMIT;
use leasehold_core::{Name, Result, Token};

use super::directory::{Directory, Files};
use super::lock_file::{LockFile, is_absent, locked_slots, look};
use super::os_error::failed;
use super::record::next_token;
use super::stored_record::StoredRecord;
use super::waiter_queue::WaiterQueue;

/// Removes the files of the free locks whose names start with `names`, and returns the number of
/// these locks.
pub(super) fn forget(directory: &Directory, names: &str, clock: &Clock) -> Result<u64> {
    let mut removed = 0;
    for stem in directory.stems()? {
        let name = StoredRecord::name_of(directory, &stem);
        let Some(name) = name.filter(|name| name.as_str().starts_with(names)) else { continue };
        removed += u64::from(forget_lock(&directory.files(&name), &name, clock)?);
    }
    Ok(removed)
}

/// Removes the files of one lock; false if they remain, or another process has removed them.
fn forget_lock(files: &Files, name: &Name, clock: &Clock) -> Result<bool> {
    let removing = |error| failed("remove", &files.lock, error);
    // Check first: closing a file that is open for writing notifies the waiters.
    if look(&files.lock).map_err(removing)?.is_held() {
        return Ok(false);
    }
    let lock = LockFile::open(&files.lock).map_err(removing)?;
    if !lock.try_lock().map_err(removing)? {
        return Ok(false);
    }
    let removed = remove_locked(&lock, files, name, clock);
    // Closing is not enough while a child of another thread is between fork and exec.
    let _ = lock.unlock();
    removed
}

/// Removes the files of a lock that this process has locked. They remain if a waiter is about to
/// acquire it, if more dead waiters are left than one call removes, or if its next token would not
/// be larger than the last one.
fn remove_locked(lock: &LockFile, files: &Files, name: &Name, clock: &Clock) -> Result<bool> {
    let removing = |error| failed("remove", &files.lock, error);
    // Another process may have removed this file since it was opened, and a holder may have locked a
    // new one.
    if !lock.is_at(&files.lock).map_err(removing)? {
        return Ok(false);
    }
    for queue in [WaiterQueue::new(&files.queue), WaiterQueue::new(&files.readers)] {
        if !queue.is_empty()? || queue.leaves_dead() {
            return Ok(false);
        }
    }
    let last = match StoredRecord::read(&files.record, name)? {
        None => None,
        Some(StoredRecord::Lock(record)) => record.token(),
        Some(StoredRecord::Semaphore(_)) if is_in_use(files)? => return Ok(false),
        Some(StoredRecord::Semaphore(record)) => Token::new(record.top().max(1)),
        Some(StoredRecord::Latch(record)) if record.value(clock.now()).is_some() => {
            return Ok(false);
        }
        Some(StoredRecord::Latch(_)) => None,
    };
    if last >= Some(next_token(None, clock.now(), files)?) {
        return Ok(false);
    }
    // This removes only an empty directory: a waiter may have arrived since. The lock file is last,
    // because the next process that opens it may acquire the lock.
    let _ = fs::remove_dir(&files.queue);
    for file in [&files.record, &files.draft, &files.slots, &files.lock] {
        absent(fs::remove_file(file)).map_err(removing)?;
    }
    Ok(last.is_some())
}

/// Returns true if a slot of a semaphore is in use.
fn is_in_use(files: &Files) -> Result<bool> {
    let locked = locked_slots(&files.slots, MAX_LIMIT);
    let locked = locked.map_err(|error| failed("check", &files.slots, error))?;
    Ok(!locked.is_empty())
}

fn absent(done: io::Result<()>) -> io::Result<()> {
    done.or_else(|error| if is_absent(&error) { Ok(()) } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_that_another_process_has_replaced_is_left_to_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let (directory, name) = (Directory::open(dir.path()).unwrap(), Name::new("a").unwrap());
        let files = directory.files(&name);
        let opened = LockFile::open(&files.lock).unwrap();
        // Between open and lock, another process removes the file, and a third one acquires.
        fs::remove_file(&files.lock).unwrap();
        let holder = LockFile::open(&files.lock).unwrap();
        assert!(holder.try_lock().unwrap() && opened.try_lock().unwrap());
        assert!(!remove_locked(&opened, &files, &name, &Clock::system()).unwrap());
        assert!(holder.is_at(&files.lock).unwrap(), "the holder has lost its lock");
    }
}
