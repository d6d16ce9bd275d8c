//! What a name is in a memory store: a lock, or a semaphore.

use std::time::Duration;

use leasehold_proto::{Now, Token};

use super::record::{Reach, Record};
use super::semaphore::Semaphore;
use crate::backend::{
    AcquireRequest, Answer, ConvertRequest, Converted, Ended, LimitChange, LimitChanged, Mode,
    ReleaseRequest, Renewal, Renewed, StoredLimit, Verdict, is_a_lock, is_a_semaphore,
};
use crate::{Forced, Name, Result, Status};

/// The record of a name. The first request decides which kind it is.
#[derive(Debug)]
pub(super) enum Entry {
    Lock(Record),
    Semaphore(Semaphore),
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
        }
    }

    pub(super) fn limit(&self) -> Result<Option<StoredLimit>> {
        match self {
            Self::Lock(_) => Err(is_a_lock()),
            Self::Semaphore(semaphore) => Ok(semaphore.limit()),
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
        }
    }

    /// Continues the queue after a step that did as much as one step may. Returns false if nothing is
    /// left to do.
    pub(super) fn continue_queue(&mut self, now: Now, name: &Name, reach: Reach<'_>) -> bool {
        match self {
            Self::Lock(lock) => lock.remove_dead_waiters(now, name, reach),
            Self::Semaphore(semaphore) => semaphore.serve(now, name, reach),
        }
    }

    pub(super) fn status(&self, now: Now, name: &Name) -> Status {
        match self {
            Self::Lock(lock) => lock.status(now, name),
            Self::Semaphore(semaphore) => semaphore.status(now, name),
        }
    }

    /// Returns true if the record contains nothing that must be remembered.
    pub(super) fn is_idle(&self, now: Now, retention: Duration) -> bool {
        match self {
            Self::Lock(lock) => lock.is_idle(now, retention),
            Self::Semaphore(semaphore) => semaphore.is_idle(now, retention),
        }
    }
}
