//! What a name is in a memory store: a lock, a semaphore, or a latch.

use std::time::Duration;

use leasehold_proto::{AttemptId, Now, Token};

use super::record::{Reach, Record};
use super::semaphore::Semaphore;
use super::value::Value;
use crate::backend::{
    AcquireRequest, Answer, ConvertRequest, Converted, Ended, LimitChange, LimitChanged, Mode,
    ReleaseRequest, Renewal, Renewed, StoredLimit, ValueSwap, Verdict, is_a_latch, is_a_lock,
    is_a_semaphore, is_no_latch,
};
use crate::{Forced, Name, Result, Status};

/// The record of a name. The first request decides which kind it is.
#[derive(Debug)]
pub(super) enum Entry {
    Lock(Record),
    Semaphore(Semaphore),
    Latch(Option<Value>),
}

impl Entry {
    /// Creates an empty record for requests of this mode.
    pub(super) fn new(mode: Mode) -> Self {
        match mode {
            Mode::Permit => Self::Semaphore(Semaphore::default()),
            Mode::Exclusive | Mode::Shared => Self::Lock(Record::default()),
        }
    }

    pub(super) fn acquire(
        &mut self,
        now: Now,
        request: &AcquireRequest,
        reach: Reach<'_>,
    ) -> Result<Answer> {
        match (self, request.mode) {
            (Self::Lock(_), Mode::Permit) => Err(is_a_lock()),
            (Self::Lock(lock), _) => lock.acquire(now, request, reach),
            (Self::Semaphore(semaphore), _) => semaphore.acquire(now, request, reach),
            (Self::Latch(_), _) => Err(is_a_latch()),
        }
    }

    pub(super) fn renew(&mut self, now: Now, renewal: &Renewal, reach: Reach<'_>) -> Renewed {
        match (self, renewal.mode) {
            (Self::Semaphore(semaphore), Mode::Permit) => semaphore.renew(now, renewal),
            (Self::Lock(lock), Mode::Exclusive | Mode::Shared) => lock.renew(now, renewal, reach),
            _ => Renewed::Lost,
        }
    }

    pub(super) fn release(
        &mut self,
        now: Now,
        release: &ReleaseRequest,
        reach: Reach<'_>,
    ) -> Result<Ended> {
        match (self, release.mode) {
            (Self::Semaphore(semaphore), Mode::Permit) => semaphore.end(now, release, reach),
            (Self::Lock(lock), Mode::Exclusive | Mode::Shared) => lock.release(now, release, reach),
            // The attempt was refused, so it has left nothing.
            _ => Ok(Ended::new(Verdict::Gone, None)),
        }
    }

    pub(super) fn convert(
        &mut self,
        now: Now,
        request: &ConvertRequest,
        reach: Reach<'_>,
    ) -> Result<Converted> {
        match self {
            Self::Lock(lock) => lock.convert(now, request, reach),
            Self::Semaphore(_) => Err(is_a_semaphore()),
            Self::Latch(_) => Err(is_a_latch()),
        }
    }

    pub(super) fn force_release(
        &mut self,
        now: Now,
        name: &Name,
        token: Token,
        reach: Reach<'_>,
    ) -> Forced {
        match self {
            Self::Lock(lock) => lock.force_release(now, name, token, reach),
            Self::Semaphore(semaphore) => semaphore.force_release(now, name, token, reach),
            Self::Latch(_) => Forced::NotHeld,
        }
    }

    pub(super) fn force_release_attempt(
        &mut self,
        now: Now,
        name: &Name,
        attempt: AttemptId,
        reach: Reach<'_>,
    ) -> Forced {
        match self {
            Self::Lock(lock) => lock.force_release_attempt(now, name, attempt, reach),
            Self::Semaphore(semaphore) => {
                semaphore.force_release_attempt(now, name, attempt, reach)
            }
            Self::Latch(_) => Forced::NotHeld,
        }
    }

    pub(super) fn limit(&self) -> Result<Option<StoredLimit>> {
        match self {
            Self::Lock(_) => Err(is_a_lock()),
            Self::Semaphore(semaphore) => Ok(semaphore.limit()),
            Self::Latch(_) => Err(is_a_latch()),
        }
    }

    pub(super) fn set_limit(
        &mut self,
        now: Now,
        change: &LimitChange,
        reach: Reach<'_>,
    ) -> Result<LimitChanged> {
        match self {
            Self::Lock(_) => Err(is_a_lock()),
            Self::Semaphore(semaphore) => Ok(semaphore.set_limit(now, change, reach)),
            Self::Latch(_) => Err(is_a_latch()),
        }
    }

    pub(super) fn value(&self, now: Now) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Latch(value) => {
                Ok(value.as_ref().and_then(|value| value.bytes(now)).map(<[u8]>::to_vec))
            }
            Self::Lock(_) | Self::Semaphore(_) => Err(is_no_latch()),
        }
    }

    pub(super) fn swap_value(&mut self, now: Now, swap: &ValueSwap) -> Result<bool> {
        match self {
            Self::Latch(value) => Ok(Value::swap(value, now, swap)),
            Self::Lock(_) | Self::Semaphore(_) => Err(is_no_latch()),
        }
    }

    /// Continues the queue after a step that did as much as one step may. Returns false if nothing is
    /// left to do.
    pub(super) fn continue_queue(&mut self, now: Now, name: &Name, reach: Reach<'_>) -> bool {
        match self {
            Self::Lock(lock) => lock.remove_dead_waiters(now, name, reach),
            Self::Semaphore(semaphore) => semaphore.serve(now, name, reach),
            Self::Latch(_) => false,
        }
    }

    pub(super) fn status(&self, now: Now, name: &Name) -> Status {
        match self {
            Self::Lock(lock) => lock.status(now, name),
            Self::Semaphore(semaphore) => semaphore.status(now, name),
            Self::Latch(value) => {
                value.as_ref().map_or_else(|| Status::free(name), |value| value.status(now, name))
            }
        }
    }

    /// Returns true for a latch that the store does not keep any more.
    pub(super) fn is_expired_latch(&self, now: Now) -> bool {
        matches!(self, Self::Latch(value) if value.as_ref().is_none_or(|value| value.is_idle(now)))
    }

    /// Returns true if the record contains nothing that must be remembered.
    pub(super) fn is_idle(&self, now: Now, retention: Duration) -> bool {
        match self {
            Self::Lock(lock) => lock.is_idle(now, retention),
            Self::Semaphore(semaphore) => semaphore.is_idle(now, retention),
            Self::Latch(value) => value.as_ref().is_none_or(|value| value.is_idle(now)),
        }
    }
}
