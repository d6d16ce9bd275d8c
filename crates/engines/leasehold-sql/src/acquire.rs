//! Acquires: one statement to take a free lock without waiters alone, otherwise a step of the
//! record.

use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, Answer, Grant, Mode, Term};
use leasehold_core::proto::handoff::{self, OFFER, Reach};
use leasehold_core::proto::read_write;
use leasehold_core::{Capability, Deadline, Error, ErrorKind, Result};

use crate::notifications::Notifications;
use crate::record::{Machine, Record, Tag};
use crate::store::{Done, Step, Store};
use crate::stored_origin::stored_origin;
use crate::take_statement::{take, taken};

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
            let place = record.place(request.attempt, mode(request));
            let offers = u32::try_from(place).unwrap_or(u32::MAX);
            let ask_again = remaining.saturating_add(OFFER.saturating_mul(offers));
            Answer::Queued { place: Some(place), ask_again }
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

impl Store {
    /// Requests a lease. Returns the answer, and the other clients to notify. An attempt that is
    /// known to wait skips the single statement.
    pub(crate) async fn ask(
        &self,
        request: &AcquireRequest,
        waits: bool,
        until: Deadline,
    ) -> Result<(Answer, Notifications)> {
        let readers = request.mode == Mode::Shared;
        if !waits && !readers {
            let stamp = self.stamp();
            let telling = self.tell_observers(&request.name, stamp);
            let ways = take(&self.tables, request, stamp, telling);
            let replies = self.run_either(&ways, until, &mut false).await?;
            if let Some(answer) = taken(&replies, request)? {
                return Ok((answer, Notifications::default()));
            }
        }
        let act = |machine: &mut Machine, before: &Record, reach: Reach<'_>| {
            let now = before.now;
            machine.acquire(now, mode(request), &question(request, now.unix_us()), reach)
        };
        let step = Step { name: &request.name, attempts: &[request.attempt], readers };
        let Done { answer, record, told, .. } = self.step(step, until, false, act).await?;
        Ok((answered(answer, request, &record)?, told))
    }
}
