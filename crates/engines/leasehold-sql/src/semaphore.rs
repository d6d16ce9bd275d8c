//! Semaphores: the steps of the pure record, over one row of bytes and one row for each permit.

pub(crate) mod bytes;
pub(crate) mod read;
pub(crate) mod status;
mod write;

use leasehold_core::backend::{
    AcquireRequest, Answer, Ended, LimitChange, LimitChanged, ReleaseRequest, StoredLimit, Verdict,
    answer_of_semaphore, is_a_semaphore,
};
use leasehold_core::proto::semaphore::{self, Parts, Reach};
use leasehold_core::{
    AttemptId, ClientId, Deadline, Error, ErrorKind, Forced, Name, Now, Result, Token,
};

use self::read::{Found, Stored};
pub(crate) use self::read::{permit_of, slots_of};
use crate::connection::Reply;
use crate::dialect::Packet;
use crate::hold::Hold;
use crate::kind::Kind;
use crate::notifications::Notifications;
use crate::record::Tag;
use crate::rounds::{self, Decision, Stepped};
use crate::store::Store;
use crate::stored_origin::stored_origin;

/// A semaphore that decides about its own steps.
pub(crate) type Machine = semaphore::Record<Tag>;

/// How many steps serve the waiters that one step has left. Waiters ask again themselves.
const MORE_STEPS: usize = 16;

/// A completed step.
struct Done<A> {
    answer: A,
    told: Notifications,
    /// Another step may serve waiters.
    more: bool,
    /// A round may have been written although its reply was lost.
    repeated: bool,
}

impl Store {
    /// Requests a permit. Returns the answer, and the other clients to notify.
    ///
    /// # Errors
    /// `Invalid` if the name is that of another kind, or the limit another one.
    pub(crate) async fn ask_permit(
        &self,
        request: &AcquireRequest,
        until: Deadline,
        open: bool,
    ) -> Result<(Answer, Notifications)> {
        let act = |machine: &mut Machine, now: Now, reach: Reach<'_>| {
            let person = stored_origin(&request.origin).as_bytes().to_vec();
            let question = request.for_semaphore(Tag { person, asked_us: now.unix_us() });
            question.map(|question| (machine.acquire(now, &question, reach), question.demand))
        };
        let done = self.permit_step(&request.name, until, open, act).await?;
        let Done { answer, told, .. } = done.map_err(Kind::refuses_permit)?;
        let (answer, demand) = answer.ok_or_else(is_a_semaphore)?;
        Ok((answer_of_semaphore(answer, demand)?, told))
    }

    /// Ends an attempt, and acquires for another one if requested.
    pub(crate) async fn end_permit(
        &self,
        release: &ReleaseRequest,
        until: Deadline,
    ) -> Result<(Ended, Notifications)> {
        let ending = release.for_semaphore();
        let act = |machine: &mut Machine, now: Now, reach: Reach<'_>| {
            machine.release(now, &ending, reach)
        };
        let done = self.permit_step(&release.name, until, false, act).await?;
        let (verdict, mut told) = match done {
            Ok(done) => {
                let mut told = done.told;
                self.serve_rest(&release.name, until, done.more, &mut told).await;
                (done.answer.into(), told)
            }
            // The attempt was refused, so it has left nothing.
            Err(_) => (Verdict::Gone, Notifications::default()),
        };
        let then = match &release.then {
            Some(request) => {
                let (answer, others) = self.ask_permit(request, until, true).await?;
                told.add(others);
                Some(answer)
            }
            None => None,
        };
        Ok((Ended::new(verdict, then), told))
    }

    /// Ends the permit that a token belongs to.
    pub(crate) async fn force_permit(
        &self,
        name: &Name,
        token: Token,
        until: Deadline,
    ) -> Result<(Forced, Notifications)> {
        let by_token = |machine: &mut Machine, now: Now, reach: Reach<'_>| {
            machine.force_release(now, token, None, reach)
        };
        self.force_a_permit(name, until, by_token).await
    }

    /// Ends the permit of one attempt.
    pub(crate) async fn force_permit_of(
        &self,
        name: &Name,
        attempt: AttemptId,
        until: Deadline,
    ) -> Result<(Forced, Notifications)> {
        let of_attempt = |machine: &mut Machine, now: Now, reach: Reach<'_>| {
            machine.force_release_attempt(now, attempt, reach)
        };
        self.force_a_permit(name, until, of_attempt).await
    }

    async fn force_a_permit(
        &self,
        name: &Name,
        until: Deadline,
        mut end: impl FnMut(&mut Machine, Now, Reach<'_>) -> semaphore::Forced,
    ) -> Result<(Forced, Notifications)> {
        // A round whose reply was lost may have ended the permit; the next round finds none then.
        let mut was_held = false;
        let act = |machine: &mut Machine, now: Now, reach: Reach<'_>| {
            let forced = end(machine, now, reach);
            was_held |= forced == semaphore::Forced::Ended;
            forced
        };
        let Ok(done) = self.permit_step(name, until, false, act).await? else {
            return Ok((Forced::NotHeld, Notifications::default()));
        };
        let mut told = done.told;
        self.serve_rest(name, until, done.more, &mut told).await;
        let forced = match done.answer {
            _ if done.repeated && was_held => Forced::Ended,
            semaphore::Forced::Ended => Forced::Ended,
            semaphore::Forced::NotHeld => Forced::NotHeld,
            semaphore::Forced::Several => Forced::Several,
        };
        Ok((forced, told))
    }

    /// Returns the stored limit.
    ///
    /// # Errors
    /// `Invalid` if the name is that of another kind.
    pub(crate) async fn limit(&self, name: &Name, until: Deadline) -> Result<Option<StoredLimit>> {
        let found = self.run_step(Look(name), until, false).await?.answer;
        let stored = found.map_err(Kind::refuses_permit)?;
        Ok(stored.parts.limit.map(|(limit, version)| StoredLimit::new(limit, version)))
    }

    /// Changes the limit.
    ///
    /// # Errors
    /// `Invalid` if the name is that of another kind.
    pub(crate) async fn set_limit(
        &self,
        change: &LimitChange,
        until: Deadline,
    ) -> Result<(LimitChanged, Notifications)> {
        let LimitChange { name, version, limit, .. } = change;
        let act = |machine: &mut Machine, now: Now, reach: Reach<'_>| {
            machine.set_limit(now, *version, *limit, reach)
        };
        let done = self.permit_step(name, until, false, act).await?;
        let Done { answer, mut told, more, .. } = done.map_err(Kind::refuses_permit)?;
        self.serve_rest(name, until, more, &mut told).await;
        Ok((answer.into(), told))
    }

    /// Serves the waiters that a step has left.
    async fn serve_rest(
        &self,
        name: &Name,
        until: Deadline,
        mut more: bool,
        told: &mut Notifications,
    ) {
        for _ in 0..MORE_STEPS {
            if !more {
                return;
            }
            // No attempt has this id, so the step ends nothing.
            let attempt = AttemptId::new(ClientId::from_bits(0), 0, 0);
            let (base, last, slot, suspect) = (None, None, None, false);
            let nothing = semaphore::ReleaseRequest { attempt, base, last, slot, suspect };
            let act = |machine: &mut Machine, now: Now, reach: Reach<'_>| {
                machine.release(now, &nothing, reach)
            };
            match self.permit_step(name, until, false, act).await {
                Ok(Ok(done)) => {
                    told.add(done.told);
                    more = done.more;
                }
                // The waiters ask again.
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }

    /// Does a step of a semaphore; returns the kind of the name if it is another one. Then nothing
    /// was done.
    async fn permit_step<A>(
        &self,
        name: &Name,
        until: Deadline,
        open: bool,
        act: impl FnMut(&mut Machine, Now, Reach<'_>) -> A,
    ) -> Result<Result<Done<A>, Kind>> {
        let Stepped { answer, repeated } =
            self.run_step(PermitStep { name, act }, until, open).await?;
        Ok(answer.map(|done| Done { repeated, ..done }))
    }
}

/// Reads a semaphore.
struct Look<'a>(&'a Name);

impl rounds::Step for Look<'_> {
    type Answer = Result<Stored, Kind>;

    fn ask(&mut self, store: &Store, hold: Hold) -> Packet {
        read::ask(&store.tables, self.0, hold)
    }

    fn decide(&mut self, _: &Store, replies: &[Reply]) -> Result<Decision<Self::Answer>> {
        Ok(match read::read(replies)? {
            Found::Stored(stored) => Decision::Done(Ok(*stored)),
            Found::Other(kind) => Decision::Done(Err(kind)),
            Found::Torn => Decision::Torn,
        })
    }
}

/// A step of the record of one semaphore.
struct PermitStep<'a, F> {
    name: &'a Name,
    act: F,
}

impl<A, F> rounds::Step for PermitStep<'_, F>
where
    F: FnMut(&mut Machine, Now, Reach<'_>) -> A,
{
    type Answer = Result<Done<A>, Kind>;

    fn ask(&mut self, store: &Store, hold: Hold) -> Packet {
        read::ask(&store.tables, self.name, hold)
    }

    fn decide(&mut self, store: &Store, replies: &[Reply]) -> Result<Decision<Self::Answer>> {
        let before = match read::read(replies)? {
            Found::Stored(stored) => *stored,
            Found::Other(kind) => return Ok(Decision::Done(Err(kind))),
            Found::Torn => return Ok(Decision::Torn),
        };
        let now = before.row.now;
        let mut machine = Machine::from(before.parts.clone());
        let mut told = Notifications::default();
        let answer = (self.act)(&mut machine, now, &mut |attempt: AttemptId, push| {
            told.note_permit(attempt, push);
            true
        });
        let more = machine.needs_another_step(now);
        let after = Parts::from(machine);
        let words = store.words(&told, now);
        let stamp = store.stamp();
        let writing = before.write(&store.tables, self.name, &after, stamp, &words)?;
        let done = Ok(Done { answer, told, more, repeated: false });
        Ok(match writing {
            Some(mut writing) => {
                writing.extend(store.tell_observers(self.name, stamp));
                Decision::Write(writing, done)
            }
            None => Decision::Done(done),
        })
    }
}

/// Returns the error for a record that has become too long.
fn too_long(bytes: usize) -> Error {
    let message = format!(
        "the record of the semaphore would have {bytes} bytes: too many clients wait for it with \
         long metadata; use shorter metadata, or several semaphores"
    );
    Error::new(ErrorKind::Refused, message)
}
