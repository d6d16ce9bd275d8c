//! Acquires: one statement to take a free lock without waiters alone, otherwise a step of the
//! record.

use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, Answer, Grant, Mode, Term};
use leasehold_core::proto::client::PushReference;
use leasehold_core::proto::handoff::{self, Reach};
use leasehold_core::proto::read_write;
use leasehold_core::{Capability, Deadline, Error, ErrorKind, Result};

use crate::notifications::Notifications;
use crate::record::{Machine, Record, Tag};
use crate::store::{Done, Step, Store};
use crate::stored_origin::stored_origin;
use crate::take_statement::{Taken, queued, take, taken};

/// The longest ttl and minimum hold that the columns can store.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// The maximum size of host, process and metadata together, in bytes.
const PERSON: usize = 8_000;

/// Refuses values that cannot be stored.
pub(crate) fn fits(capability: &Capability, request: &AcquireRequest) -> Result<()> {
    if request.mode == Mode::Permit && !capability.semaphores {
        return Err(capability.no_semaphores());
    }
    if request.mode == Mode::Shared && !capability.shared {
        return Err(capability.no_read_write_locks());
    }
    time_fits("ttl", request.ttl)?;
    let length = stored_origin(&request.origin).len();
    if length > PERSON {
        let message =
            format!("metadata: {length} bytes with host and process; at most {PERSON} are allowed");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(())
}

pub(crate) fn time_fits(what: &str, time: Duration) -> Result<()> {
    match time > LONGEST {
        true => {
            let message = format!("{what}: {time:?}; at most {LONGEST:?} is allowed");
            Err(Error::new(ErrorKind::Invalid, message))
        }
        false => Ok(()),
    }
}

/// Converts a request to the type of the record.
pub(crate) fn question(request: &AcquireRequest, asked_us: u64) -> handoff::AcquireRequest<Tag> {
    request.for_record(Tag { person: stored_origin(&request.origin).as_bytes().to_vec(), asked_us })
}

/// Converts the answer of the record to the type of the trait.
pub(crate) fn answered(
    answer: read_write::Answer,
    request: &AcquireRequest,
    record: &Record,
) -> Result<Answer> {
    Ok(match answer {
        read_write::Answer::Granted { tokens, waiters } => {
            Answer::Granted(Grant::new(tokens, Term::Ttl, waiters > 0))
        }
        read_write::Answer::Queued { remaining, .. } => {
            queued(record.place(request.attempt, mode(request)), remaining)
        }
        read_write::Answer::Busy(remaining) => Answer::Busy { ask_again: Some(remaining) },
        read_write::Answer::Ended => Answer::Ended,
        read_write::Answer::UsedUp => return Err(used_up()),
    })
}

pub(crate) fn used_up() -> Error {
    let message = "the lock has no token left (2^53-1 was reached); use another lock name";
    Error::new(ErrorKind::Foreign, message)
}

/// Converts the mode of a request to the type of the record.
pub(crate) fn mode(request: &AcquireRequest) -> read_write::Mode {
    match request.mode {
        Mode::Shared => read_write::Mode::Read,
        _ => read_write::Mode::Write,
    }
}

/// The outcome of a request.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) answer: Answer,
    /// The other clients to notify.
    pub(crate) told: Notifications,
    /// If it waits: the reference for the times of messages.
    pub(crate) reference: Option<PushReference>,
    /// It queued behind a live lease, and changed nothing else.
    pub(crate) only_queued: bool,
}

impl Store {
    /// Requests a lease. An attempt that is known to wait skips the single statement; so does one for a `contended`
    /// lock, if the engine has a packet that takes a free lock as well.
    pub(crate) async fn ask(
        &self,
        request: &AcquireRequest,
        waits: bool,
        contended: bool,
        until: Deadline,
    ) -> Result<Asked> {
        let sent = self.clock.now();
        let reference = |server_us| PushReference { sent, server_us };
        let readers = request.mode == Mode::Shared;
        let queues =
            !waits && !readers && request.wait && self.tables.dialect.hands_on_in_a_packet();
        let skips = waits || readers || contended && queues;
        if !skips {
            let stamp = self.stamp();
            let telling = self.tell_observers(&request.name, stamp);
            let ways = take(&self.tables, request, stamp, telling);
            let replies = self.run_either(&ways, until, &mut false).await?;
            if let Some(Taken { answer, queued_us }) = taken(&replies, request)? {
                let told = Notifications::default();
                let reference = queued_us.map(reference);
                return Ok(Asked { answer, told, reference, only_queued: reference.is_some() });
            }
        }
        #[cfg(feature = "mysql")]
        if queues && let Some(answer) = self.take_or_queue(request, until).await? {
            let told = Notifications::default();
            return Ok(Asked { answer, told, reference: None, only_queued: true });
        }
        let act = |machine: &mut Machine, before: &Record, reach: Reach<'_>| {
            let now = before.now;
            machine.acquire(now, mode(request), &question(request, now.unix_us()), reach)
        };
        let step = Step { name: &request.name, attempts: &[request.attempt], readers };
        let Done { answer, record, told, .. } = self.step(step, until, false, act).await?;
        let answer = answered(answer, request, &record)?;
        let waits = matches!(answer, Answer::Queued { .. });
        let reference = waits.then(|| reference(record.now.unix_us()));
        Ok(Asked { answer, told, reference, only_queued: false })
    }
}
