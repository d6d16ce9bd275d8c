//! Reads a lock's holder without changing the lock: from the kernel and from the record.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_core::{Name, Result, State, Status};

use super::directory::{Directory, Files};
use super::lock_file::{Seen, look};
use super::os_error::failed;
use super::permit_status;
use super::record::Record;
use super::store::Store;
use super::stored_record::StoredRecord;
use super::waiter_queue::WaiterQueue;

/// How often kernel and record are compared before they count as different. A comparison fails
/// if the holder changes between its two reads, or has not written its record yet.
const COMPARE: usize = 16;
/// The pause between two comparisons: a holder writes its record in less than one.
const PAUSE: Duration = Duration::from_millis(1);

/// The maximum number of readers that a status shows.
const SHOWN: usize = 100;

/// Returns one lock's status.
pub(crate) fn status(store: &Store, name: &Name) -> Result<Status> {
    let (directory, here) = (&store.directory, &store.here);
    if let Some(status) = store.latch_status(name) {
        return Ok(status);
    }
    if let Some(status) = permit_status::status(directory, name)? {
        return Ok(status);
    }
    let files = directory.files(name);
    let (seen, record) = compare(&files, name)?;
    let token = record.as_ref().and_then(Record::token);
    let mut status = Status::free(name);
    let held = match seen {
        Seen::Absent | Seen::Free => None,
        Seen::Held(token) => Some(token),
        Seen::Read(token) => {
            // Those that have not marked the lock have joined the phase of the record.
            let read = record.as_ref().is_some_and(|record| record.read_phase().is_some());
            Some(token.or(record.as_ref().filter(|_| read).and_then(Record::token)))
        }
    };
    status.state = state(seen);
    status.holder = record.as_ref().and_then(Record::holder);
    if status.state == State::Shared {
        let cards = WaiterQueue::new(&files.readers).waiters()?;
        status.readers = cards.into_iter().take(SHOWN).map(|card| card.holder).collect();
        status.holder = status.readers.first().cloned().or(status.holder);
    }
    status.token = token;
    status.since_unix_ms = record.as_ref().map(Record::since_unix_ms);
    let mut waiters = WaiterQueue::new(&files.queue).waiters()?;
    // A new holder is about to leave the queue.
    waiters
        .retain(|waiter| Some(waiter.holder.attempt) != status.holder.as_ref().map(|h| h.attempt));
    status.waiters = Some(waiters);
    match held {
        None => {}
        Some(marked) if marked.is_some() && marked == token => {
            // The record names the reader that began the phase, which may have left.
            let sole = record.as_ref().filter(|record| match &status.readers[..] {
                [] => true,
                [reader] => record.holder().as_ref() == Some(reader),
                _ => false,
            });
            status.note = sole.and_then(|record| here.note(record));
        }
        // The record belongs to an earlier holder.
        Some(marked) => {
            status.token = marked;
            (status.holder, status.since_unix_ms) = (None, None);
            status.note = Some("the holder is still writing its record".into());
        }
    }
    Ok(status)
}

/// Returns the lock as the kernel reports it, and the record.
fn compare(files: &Files, name: &Name) -> Result<(Seen, Option<Record>)> {
    let mut seen = Seen::Absent;
    let mut record = None;
    for comparison in 0..COMPARE {
        if comparison > 0 {
            std::thread::sleep(PAUSE);
        }
        seen = look(&files.lock).map_err(|error| failed("check", &files.lock, error))?;
        record = Record::read(&files.record, name)?;
        match seen {
            Seen::Held(Some(token)) | Seen::Read(Some(token))
                if record.as_ref().and_then(Record::token) != Some(token) => {}
            _ => break,
        }
    }
    Ok((seen, record))
}

fn state(seen: Seen) -> State {
    match seen {
        Seen::Absent | Seen::Free => State::Free,
        Seen::Held(_) => State::Held,
        Seen::Read(_) => State::Shared,
    }
}

/// Lists the known locks whose names start with `prefix`. A lock with an unreadable record is
/// listed with a note.
pub(crate) fn list(store: &Store, prefix: &str, limit: usize) -> Result<Vec<Status>> {
    let directory = &store.directory;
    let name_of = |stem: String| StoredRecord::name_of(directory, &stem);
    let names: BTreeSet<Name> = directory.stems()?.into_iter().filter_map(name_of).collect();
    let mut found = Vec::new();
    for name in names.into_iter().filter(|name| name.as_str().starts_with(prefix)) {
        if found.len() >= limit {
            break;
        }
        match status(store, &name) {
            // A client has only tried to acquire it.
            Ok(status)
                if status.state == State::Free
                    && status.holder.is_none()
                    && status.permits.is_none()
                    && status.note.is_none() => {}
            Ok(status) => found.push(status),
            Err(error) => found.push(unreadable(directory, name, &error)),
        }
    }
    Ok(found)
}

fn unreadable(directory: &Directory, name: Name, error: &leasehold_core::Error) -> Status {
    let seen = look(&directory.files(&name).lock).unwrap_or(Seen::Absent);
    let mut status = Status::unknown(&name, error);
    if let Seen::Held(token) | Seen::Read(token) = seen {
        (status.state, status.token) = (state(seen), token);
    }
    status
}
