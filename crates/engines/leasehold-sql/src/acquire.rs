//! Acquires: one statement for a free lock without waiters, otherwise a step of the record.

use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, Answer, Grant, Mode, Term};
use leasehold_core::proto::handoff::{self, OFFER};
use leasehold_core::{Deadline, Error, ErrorKind, Result};

use crate::notifications::Notifications;
use crate::record::{Record, Tag};
use crate::store::{Done, Store};
use crate::stored_origin::stored_origin;
use crate::take_statement::{take, taken};

/// The longest ttl and minimum hold that the columns can store.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// The maximum size of host, process and metadata together, in bytes.
const PERSON: usize = 8_000;

/// Refuses values that cannot be stored.
pub(crate) fn fits(engine: &str, request: &AcquireRequest) -> Result<()> {
    if request.mode != Mode::Exclusive {
        let message = format!("{engine}: shared mode is not supported");
        return Err(Error::new(ErrorKind::Unsupported, message));
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
    answer: handoff::Answer,
    request: &AcquireRequest,
    record: &Record,
) -> Result<Answer> {
    Ok(match answer {
        handoff::Answer::Granted(tokens) => {
            Answer::Granted(Grant::new(tokens, Term::Ttl, record.waiting() > 0))
        }
        handoff::Answer::Queued { remaining, .. } => {
            let place = record.place(request.attempt);
            let offers = u32::try_from(place).unwrap_or(u32::MAX);
            let ask_again = remaining.saturating_add(OFFER.saturating_mul(offers));
            Answer::Queued { place: Some(place), ask_again }
        }
        handoff::Answer::Busy(remaining) => Answer::Busy { ask_again: Some(remaining) },
        handoff::Answer::Ended => Answer::Ended,
        handoff::Answer::UsedUp => {
            let message = "the lock has no token left (2^53-1 was reached); use another lock name";
            return Err(Error::new(ErrorKind::Foreign, message));
        }
    })
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
        if !waits {
            let ways = take(&self.tables, request, self.stamp());
            let replies = self.run_either(&ways, until, &mut false).await?;
            if let Some(answer) = taken(&replies, request)? {
                return Ok((answer, Notifications::default()));
            }
        }
        let act =
            |machine: &mut handoff::Record<Tag>, before: &Record, reach: handoff::Reach<'_>| {
                let now = before.now;
                machine.acquire(now, &question(request, now.unix_us()), reach)
            };
        let Done { answer, record, told, .. } =
            self.step(&request.name, &[request.attempt], until, false, act).await?;
        Ok((answered(answer, request, &record)?, told))
    }
}
