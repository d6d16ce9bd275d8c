//! Reads who holds a lock of flock(2), from the kernel and from our record, without changing the lock.

use leasehold_core::{Name, Result, State, Status};

use super::super::here::note_of;
use super::super::os_error::failed;
use super::super::record::{Locker, Record};
use super::kernel::{Flocked, look, sees_all};
use super::store::FlockStore;

/// How often kernel and record are compared before they count as different.
const COMPARE: usize = 16;

/// Returns the status of one lock.
pub(super) fn status(store: &FlockStore, name: &Name) -> Result<Status> {
    let (known, files) = store.folder.files(name)?;
    let looked = || look(&files.lock).map_err(|error| failed("check", &files.lock, error));
    let mut seen = looked()?;
    let mut record = Record::read(&files.record, &known)?;
    for _ in 0..COMPARE {
        let now = looked()?;
        if now == seen {
            break;
        }
        seen = now;
        record = Record::read(&files.record, &known)?;
    }
    let mut status = Status::free(name);
    let Some(Flocked { pid, reads }) = seen else {
        status.holder = record.as_ref().and_then(Record::holder);
        status.token = record.as_ref().and_then(Record::token);
        status.since_unix_ms = record.as_ref().map(Record::since_unix_ms);
        if !sees_all(store.here.pid_namespace) {
            status.note = Some(
                "the kernel does not show the locks of processes outside this container; one of them may hold it"
                    .into(),
            );
        }
        return Ok(status);
    };
    status.state = State::Held;
    let locker = Some(Locker { pid, pid_namespace: store.here.pid_namespace });
    match record.filter(|record| !reads && record.locker() == locker) {
        Some(record) => {
            status.holder = record.holder();
            status.token = record.token();
            status.since_unix_ms = Some(record.since_unix_ms());
            status.note = note_of(pid);
        }
        None => {
            let how = if reads { "to read " } else { "" };
            let is = note_of(pid).map_or(String::new(), |note| format!("; {note}"));
            status.note = Some(format!(
                "process {pid} holds it {how}by flock(2), and is no client of Leasehold{is}"
            ));
        }
    }
    Ok(status)
}
