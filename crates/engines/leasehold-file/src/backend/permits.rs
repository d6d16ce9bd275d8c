//! The permits of a semaphore, and its limit.
//!
//! Each slot is a byte of one file, which the kernel locks for the open file of its permit: the end of a
//! process frees exactly its slots. What must not happen twice at a time (a grant, a change of the
//! limit) happens while the lock file is locked, for the time of one write.

use std::sync::PoisonError;
use std::time::Duration;

use leasehold_core::backend::{
    AcquireRequest, Answer, Grant, LimitChange, LimitChanged, StoredLimit, Term, refused_by_limit,
};
use leasehold_core::proto::semaphore::{Conflict, Demand, Limit, MAX_LIMIT};
use leasehold_core::{ErrorKind, Name, Result, TokenBlock};

use super::acquire::net;
use super::attempts::Begun;
use super::directory::Files;
use super::lease::Lease;
use super::lock_file::{LockFile, locked_slots, notify};
use super::order::PASS_AFTER;
use super::os_error::failed;
use super::record::Due;
use super::section::Section;
use super::semaphore_record::SemaphoreRecord;
use super::store::{Store, WaitingAttempt};
use super::waiter_queue::{About, PermitCard, PlaceKind, WaiterQueue};
use super::watch::Kind;

/// The result of a request.
enum Taken {
    Lease(Lease),
    InLine { place: u64, ask_again: Duration },
    Busy,
}

impl Store {
    /// Processes one request for a permit.
    pub(crate) fn acquire_permit(
        &self,
        request: &AcquireRequest,
        demand: Demand,
    ) -> Result<Answer> {
        let files = self.directory.files(&request.name);
        let (turn, mut waiting) = match self.attempts.begin(request.attempt) {
            Begun::Go(turn, waiting) => (turn, waiting),
            Begun::Granted(lease) => return Ok(permit(&lease)),
            Begun::Ended => return Ok(Answer::Ended),
        };
        match self.take_permit(request, demand, &files, &mut waiting) {
            Ok(Taken::Lease(lease)) => {
                drop(waiting);
                let answer = permit(&lease);
                Ok(if turn.granted(lease) { answer } else { Answer::Ended })
            }
            Ok(Taken::InLine { place, ask_again }) => {
                let queued = Answer::Queued { place: Some(place), ask_again };
                Ok(if turn.waits(waiting) { queued } else { Answer::Ended })
            }
            Ok(Taken::Busy) => Ok(Answer::Busy { ask_again: None }),
            Err(error) => {
                // Otherwise the caller considers the attempt ended, and its place would stay in the queue.
                if error.kind() == ErrorKind::Unavailable {
                    turn.waits(waiting);
                }
                Err(error)
            }
        }
    }

    fn take_permit(
        &self,
        request: &AcquireRequest,
        demand: Demand,
        files: &Files,
        waiting: &mut WaitingAttempt,
    ) -> Result<Taken> {
        let section = self.semaphore_section(&request.name, files)?;
        let stored = SemaphoreRecord::read(&files.record, &request.name)?;
        let limit = stored.as_ref().and_then(SemaphoreRecord::limit).unwrap_or(demand.limit());
        let waited = waiting.place.is_some();
        if !waited && limit != demand.limit() || demand.slots() > limit.get() {
            waiting.place = None;
            return Err(refused_by_limit(limit, demand));
        }
        let mut record = match stored {
            Some(record) => record,
            None => {
                let record = SemaphoreRecord::new(&request.name, limit);
                record.write(files)?;
                record
            }
        };
        let queue = WaiterQueue::new(&files.queue);
        let (place, watched) = match waiting.place.take() {
            None if queue.is_empty()? => (0, None),
            None if !request.wait => return Ok(Taken::Busy),
            None => self.line_up(request, demand, &queue, waiting)?,
            Some(place) => match queue.ahead(&place, || Ok(Due::Until(0)))? {
                Some(ahead) => {
                    waiting.place = Some(place);
                    (ahead.count, ahead.watched)
                }
                // Its file was removed: it waits at the end.
                None => self.line_up(request, demand, &queue, waiting)?,
            },
        };
        let passes = match &watched {
            None => true,
            Some(_) => self.may_pass(&record, limit, files, &queue, waiting, place)?,
        };
        if passes {
            if let Some(lease) = self.grant_slots(request, demand, files, &mut record)? {
                return Ok(Taken::Lease(lease));
            }
            if !request.wait {
                return Ok(Taken::Busy);
            }
            if waiting.place.is_none() {
                self.line_up(request, demand, &queue, waiting)?;
            }
        }
        // Nothing is granted before the section is left, so nothing is missed: those who leave later
        // close the file that is watched by then.
        let (kind, path) = match &watched {
            Some(watched) if !passes => (Kind::Place, watched.clone()),
            _ => (Kind::Slots, files.slots.clone()),
        };
        self.watch_permit(waiting, request, kind, &path);
        let missed = match kind {
            Kind::Place => !super::enter::look_at(&path)?.is_held(),
            _ => self.free_slots(demand.slots(), limit, files)?.is_some(),
        };
        drop(section);
        let ask_again = if missed { Duration::ZERO } else { net(waiting, place.max(1)) };
        Ok(Taken::InLine { place, ask_again })
    }

    /// Joins the end of the queue. Returns how many go before, and the file of the one to watch.
    fn line_up(
        &self,
        request: &AcquireRequest,
        demand: Demand,
        queue: &WaiterQueue<'_>,
        waiting: &mut WaitingAttempt,
    ) -> Result<(u64, Option<std::path::PathBuf>)> {
        let holder = request.origin.holder(request.attempt);
        let about = About::Wants(demand.slots());
        let place = queue.join_with(&holder, PlaceKind::Plain, self.clock.now(), about)?;
        let ahead = queue.ahead(&place, || Ok(Due::Until(0)))?;
        waiting.place = Some(place);
        Ok(ahead.map_or((0, None), |ahead| (ahead.count, ahead.watched)))
    }

    /// Returns true if those before this waiter are stopped: the slots that the first one needs have
    /// been free for some time, and it has not taken them.
    fn may_pass(
        &self,
        record: &SemaphoreRecord,
        limit: Limit,
        files: &Files,
        queue: &WaiterQueue<'_>,
        waiting: &mut WaitingAttempt,
        before: u64,
    ) -> Result<bool> {
        let first = queue.waiters()?.first().and_then(|waiter| waiter.slots).unwrap_or(1);
        if first <= limit.get() && self.free_slots(first, limit, files)?.is_none() {
            waiting.free_since = None;
            return Ok(false);
        }
        let now = self.clock.now().steady_ns;
        // A grant between two looks shows that the first one, or one before it, was not stopped.
        let grants = leasehold_core::Token::new(record.grants.saturating_add(1));
        let since = match waiting.free_since {
            Some((since, after)) if after == grants => since,
            _ => now,
        };
        waiting.free_since = Some((since, grants));
        let wait = PASS_AFTER.saturating_mul(u32::try_from(before).unwrap_or(u32::MAX));
        Ok(Duration::from_nanos(now.saturating_sub(since)) >= wait)
    }

    /// Returns the lowest free slots; `None` if they do not fit now. All permits together stay within
    /// the limit, those in slots above a lowered limit included.
    fn free_slots(&self, many: u32, limit: Limit, files: &Files) -> Result<Option<Vec<u32>>> {
        let locked = locked_slots(&files.slots, MAX_LIMIT)
            .map_err(|error| failed("check", &files.slots, error))?;
        let held = u32::try_from(locked.len()).unwrap_or(u32::MAX);
        if held.saturating_add(many) > limit.get() {
            return Ok(None);
        }
        let free = (0..limit.get()).filter(|slot| locked.binary_search(slot).is_err());
        let free: Vec<u32> = free.take(many as usize).collect();
        Ok((free.len() == many as usize).then_some(free))
    }

    /// Grants the permit, if its slots are free.
    fn grant_slots(
        &self,
        request: &AcquireRequest,
        demand: Demand,
        files: &Files,
        record: &mut SemaphoreRecord,
    ) -> Result<Option<Lease>> {
        let limit = record.limit().unwrap_or(demand.limit());
        let Some(slots) = self.free_slots(demand.slots(), limit, files)? else { return Ok(None) };
        let locking = |error| failed("lock", &files.slots, error);
        let file = LockFile::open(&files.slots).map_err(locking)?;
        let mut grant = || {
            if !file.try_slots(&slots).map_err(locking)? {
                return Ok(None);
            }
            let now = self.clock.now();
            let token = record.grant(&slots, now, files)?;
            record.write(files)?;
            let cards = WaiterQueue::new(&files.readers);
            cards.remove_last_dead()?;
            let holder = request.origin.holder(request.attempt);
            let card = PermitCard { slots: slots.clone(), token: token.get() };
            let card = cards.join_with(&holder, PlaceKind::Plain, now, About::Holds(card))?;
            if !file.is_at(&files.slots).map_err(locking)? {
                return Ok(None);
            }
            Ok(Some((token, card)))
        };
        let granted: Result<_> = grant();
        if !matches!(granted, Ok(Some(_))) {
            let _ = file.unlock();
        }
        let Some((token, card)) = granted? else { return Ok(None) };
        let lease = Lease::new(file, files.slots.clone(), token);
        Ok(Some(lease.with_slots(slots, card)))
    }

    /// Makes the waiting watch this file instead of the earlier one.
    fn watch_permit(
        &self,
        waiting: &mut WaitingAttempt,
        request: &AcquireRequest,
        kind: Kind,
        path: &std::path::Path,
    ) {
        if waiting.watch.as_ref().is_some_and(|(watched, _)| watched == path) {
            return;
        }
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        let AcquireRequest { name, attempt, .. } = request;
        let watch = watching.watch(*attempt, kind, path, name, &self.clock);
        waiting.watch = watch.map(|watch| (path.to_owned(), watch));
    }

    /// Returns the stored limit.
    pub(crate) fn limit(&self, name: &Name) -> Result<Option<StoredLimit>> {
        let files = self.directory.files(name);
        let record = SemaphoreRecord::read(&files.record, name)?;
        let stored =
            |record: SemaphoreRecord| Some(StoredLimit::new(record.limit()?, record.limit_version));
        Ok(record.and_then(stored))
    }

    /// Changes the limit, if its version is still the named one.
    pub(crate) fn set_limit(&self, change: &LimitChange) -> Result<LimitChanged> {
        let files = self.directory.files(&change.name);
        let section = self.semaphore_section(&change.name, &files)?;
        let stored = SemaphoreRecord::read(&files.record, &change.name)?;
        let version = stored.as_ref().map_or(0, |record| record.limit_version);
        let limit = stored.as_ref().and_then(SemaphoreRecord::limit);
        if change.version.checked_add(1) == Some(version) && limit == Some(change.limit) {
            return Ok(LimitChanged::Changed(version));
        }
        if change.version != version {
            return Ok(LimitChanged::Conflict(Conflict { limit, version }));
        }
        let record = match stored {
            Some(mut record) => {
                record.set_limit(change.limit);
                record
            }
            None => SemaphoreRecord::new(&change.name, change.limit),
        };
        record.write(&files)?;
        drop(section);
        notify(&files.slots);
        Ok(LimitChanged::Changed(record.limit_version))
    }

    /// Enters the critical section of a semaphore.
    fn semaphore_section(&self, name: &Name, files: &Files) -> Result<Section> {
        self.section(files, || SemaphoreRecord::read(&files.record, name).map(drop))
    }
}

fn permit(lease: &Lease) -> Answer {
    let grant = Grant::new(TokenBlock::single(lease.token()), Term::Session, false);
    Answer::Permit { grant, slots: lease.slots().to_vec() }
}
