//! Ends an attempt: one statement for a lease without waiters, otherwise a step of the record.

use leasehold_core::backend::{Answer, Ended, Mode, ReleaseRequest, Verdict};
use leasehold_core::proto::handoff::{self, Reach};
use leasehold_core::{AttemptId, Deadline, Error, ErrorKind, Forced, Name, Result, Token};

use crate::acquire::{answered, mode, question};
use crate::kind::Kind;
use crate::notifications::Notifications;
use crate::record::{Machine, Record};
use crate::routines::Free;
use crate::store::{Done, Step, Store, Ways};
use crate::tables::Tables;

/// What this client knows of an attempt that ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// Other clients wait for its lease.
    pub(crate) waited_for: bool,
    /// It has acquired to read.
    pub(crate) reads: bool,
}

impl Store {
    /// Ends an attempt, and acquires for another one if requested. Returns the results, and which
    /// other clients they concern. If clients are known to wait, or the attempt is known to read, it
    /// uses a step.
    pub(crate) async fn end(
        &self,
        release: &ReleaseRequest,
        known: Known,
        until: Deadline,
    ) -> Result<(Ended, Notifications)> {
        if release.then.as_ref().is_some_and(|request| request.name != release.name) {
            let message = "a release can only acquire the same lock again";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut open = false;
        let plain = !known.waited_for && !known.reads;
        if plain && self.release_without_waiters(release, until, &mut open).await? {
            return Ok((Ended::new(Verdict::Released, None), Notifications::default()));
        }
        let ending = release.for_record();
        let mut attempts = vec![release.attempt];
        attempts.extend(release.then.as_ref().map(|request| request.attempt));
        let act = |machine: &mut Machine, before: &Record, reach: Reach<'_>| {
            let now = before.now;
            match &release.then {
                Some(request) => {
                    let (mode, next) = (mode(request), question(request, now.unix_us()));
                    let (verdict, answer) = machine.rotate(now, &ending, mode, &next, reach);
                    (verdict, Some(answer))
                }
                None => (machine.release(now, &ending, reach), None),
            }
        };
        let reads_next = release.then.as_ref().is_some_and(|next| next.mode == Mode::Shared);
        let readers = known.reads || reads_next;
        let step = Step { name: &release.name, attempts: &attempts, readers };
        let done = match self.step_of_lock(step, until, open, act).await? {
            Ok(done) => done,
            // The attempt was refused, so it has left nothing.
            Err(_) if release.then.is_none() => {
                return Ok((Ended::new(Verdict::Gone, None), Notifications::default()));
            }
            Err(kind) => return Err(kind.refuses_lock()),
        };
        let Done { answer: (mut verdict, then), record, told, readers, .. } = done;
        if verdict == handoff::Verdict::Lost && !readers {
            // If it was a reader, another reader of its phase may be the one that lost its lease.
            let past = Step { readers: true, ..step };
            let act = |machine: &mut Machine, before: &Record, reach: Reach<'_>| {
                machine.release(before.now, &ending, reach)
            };
            // Tables of an older program have no readers.
            if let Ok(done) = self.step(past, until, true, act).await {
                verdict = done.answer;
            }
        }
        let then: Option<Answer> = match (then, &release.then) {
            (Some(answer), Some(request)) => Some(answered(answer, request, &record)?),
            _ => None,
        };
        Ok((Ended::new(verdict.into(), then), told))
    }

    /// Releases a live lease without waiters. Returns false if a step is needed, or if a request
    /// that is `open` may have done it.
    pub(crate) async fn release_without_waiters(
        &self,
        release: &ReleaseRequest,
        until: Deadline,
        open: &mut bool,
    ) -> Result<bool> {
        let (Some(base), false, None, None) =
            (release.base, release.suspect, release.keep, &release.then)
        else {
            return Ok(false);
        };
        let Tables { dialect, locks, .. } = &self.tables;
        let free = Free {
            name: &dialect.bytes(release.name.as_str().as_bytes()),
            stamp: self.stamp(),
            attempt: &dialect.bytes(&release.attempt.to_bytes()),
            base: base.get(),
            last: release.last.map(|last| last.get().max(base.get())),
        };
        let Free { name, stamp, attempt, base, last } = free;
        let top = last.map_or_else(|| "top".to_owned(), |last| last.to_string());
        let clock = dialect.now();
        let plain = |statement: String, telling: Option<String>| {
            let statements: Vec<String> = [statement].into_iter().chain(telling).collect();
            dialect.plain(&statements)
        };
        let telling = self.tell_observers(&release.name, stamp);
        let ways = Ways {
            routine: self.tables.call_free(&free).map(|call| plain(call, None)),
            plain: plain(
                format!(
                    "UPDATE {locks} SET stamp = {stamp}, state = 0, top = {top}, until_us = {clock} \
                 WHERE name = {name} AND attempt = {attempt} AND base = {base} AND state = 1 \
                 AND until_us > {clock} AND line = 0"
                ),
                telling,
            ),
        };
        let replies = self.run_either(&ways, until, open).await?;
        let Some(reply) = replies.first() else { return Ok(false) };
        match reply.rows.first().and_then(|row| row.first()) {
            Some(done) => Ok(done.number()? == 1),
            None => Ok(reply.affected == 1),
        }
    }

    /// Ends the lease of one reader.
    pub(crate) async fn force_reader(
        &self,
        name: &Name,
        attempt: AttemptId,
        until: Deadline,
    ) -> Result<(Forced, Notifications)> {
        let mut was_held = false;
        let act = |machine: &mut Machine, before: &Record, reach: Reach<'_>| {
            let forced = machine.force_release_attempt(before.now, attempt, reach);
            was_held |= forced == handoff::Forced::Ended;
            forced
        };
        let step = Step { name, attempts: &[attempt], readers: true };
        let done = self.step(step, until, false, act).await?;
        let ended = done.repeated && was_held;
        Ok((if ended { Forced::Ended } else { done.answer.into() }, done.told))
    }

    /// Ends the lease that a token belongs to, if it is the current lease.
    pub(crate) async fn force(
        &self,
        name: &Name,
        token: Token,
        until: Deadline,
    ) -> Result<(Forced, Notifications)> {
        // A round whose reply was lost may have ended the lease; the next round then finds another
        // lease, or none.
        let mut was_current = false;
        let act = |machine: &mut Machine, before: &Record, reach: Reach<'_>| {
            let forced = machine.force_release(before.now, token, reach);
            was_current |= forced == handoff::Forced::Ended;
            forced
        };
        let step = Step { name, attempts: &[], readers: false };
        let done = match self.step_of_lock(step, until, false, act).await? {
            Ok(done) => done,
            Err(Kind::Semaphore) => return self.force_permit(name, token, until).await,
            Err(_) => return Ok((Forced::NotHeld, Notifications::default())),
        };
        let ended = done.repeated && was_current;
        Ok((if ended { Forced::Ended } else { done.answer.into() }, done.told))
    }
}
