//! Ends an attempt: one statement for a lease without waiters, otherwise a step of the record.

use leasehold_core::backend::{Answer, Ended, Mode, ReleaseRequest, Verdict};
use leasehold_core::proto::handoff::{self, Reach};
use leasehold_core::{AttemptId, Deadline, Error, ErrorKind, Forced, Name, Result, Token};

use crate::acquire::{answered, mode, question};
use crate::kind::Kind;
use crate::notifications::Notifications;
use crate::record::{Machine, Record};
use crate::routines::{FREED, Free, HANDED_ON_HERE};
use crate::store::{Done, Step, Store, Ways};

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
        // The function of the database hands the lock on too.
        let hands_on = self.tables.dialect.plans_anew() && self.uses_routines();
        if (!known.waited_for || hands_on) && !known.reads {
            let done = self.release_at_once(release, until, &mut open).await?;
            if done != 0 {
                let told = match done {
                    HANDED_ON_HERE => Notifications::to(release.attempt.client()),
                    _ => Notifications::default(),
                };
                return Ok((Ended::new(Verdict::Released, None), told));
            }
        }
        if self.tables.dialect.hands_on_in_a_packet() && !known.reads {
            let told = match self.hand_on(release, until, &mut open).await? {
                0 => None,
                FREED => Some(Notifications::default()),
                // Its own waiters may be concerned.
                _ => Some(Notifications::to(release.attempt.client())),
            };
            if let Some(told) = told {
                return Ok((Ended::new(Verdict::Released, None), told));
            }
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

    /// Releases a live lease without waiters, or hands it on if the database has the function. Returns 0 if a step is
    /// needed, or if a request that is `open` may have done it; otherwise what was done, as the function says it.
    pub(crate) async fn release_at_once(
        &self,
        release: &ReleaseRequest,
        until: Deadline,
        open: &mut bool,
    ) -> Result<i64> {
        let Some(free) = self.plain_free(release) else { return Ok(0) };
        let dialect = self.tables.dialect;
        let packet = |statement: String, telling: Option<String>| {
            let statements: Vec<String> = [statement].into_iter().chain(telling).collect();
            dialect.plain(&statements)
        };
        let telling = self.tell_observers(&release.name, free.stamp);
        let ways = Ways {
            routine: self.tables.call_free(&free).map(|call| packet(call, None)),
            plain: packet(free.statement(&self.tables), telling),
        };
        let replies = self.run_either(&ways, until, open).await?;
        let Some(reply) = replies.first() else { return Ok(0) };
        match reply.rows.first().and_then(|row| row.first()) {
            Some(done) => done.number(),
            None => Ok(if reply.affected == 1 { FREED } else { 0 }),
        }
    }

    /// Returns the parameters of one statement that frees a lock; `None` if a step is needed.
    pub(crate) fn plain_free(&self, release: &ReleaseRequest) -> Option<Free> {
        let dialect = self.tables.dialect;
        let plain = !release.suspect && release.keep.is_none() && release.then.is_none();
        let base = release.base.filter(|_| plain)?.get();
        Some(Free {
            name: dialect.bytes(release.name.as_str().as_bytes()),
            stamp: self.stamp(),
            attempt: dialect.bytes(&release.attempt.to_bytes()),
            base,
            last: release.last.map(|last| last.get().max(base)),
        })
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
