//! A step of some attempts on the record of one lock.

use leasehold_core::proto::handoff::Reach;
use leasehold_core::{AttemptId, Deadline, Result};

use crate::connection::Reply;
use crate::dialect::Packet;
use crate::hold::Hold;
use crate::kind::Kind;
use crate::notifications::Notifications;
use crate::record::{self, Found, Machine, Question, Record};
use crate::rounds::{self, Decision, Stepped};
use crate::store::{Done, Step, Store};

impl Store {
    /// Does a step of some attempts on the record of one lock. If an earlier request is `open`, no
    /// error is certain.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](leasehold_core::ErrorKind::Invalid) if the name belongs to another
    /// kind.
    pub(crate) async fn step<A>(
        &self,
        step: Step<'_>,
        until: Deadline,
        open: bool,
        act: impl FnMut(&mut Machine, &Record, Reach<'_>) -> A,
    ) -> Result<Done<A>> {
        self.step_of_lock(step, until, open, act).await?.map_err(Kind::refuses_lock)
    }

    /// Does the same; returns the kind of the name if it is not that of a lock. Then nothing was
    /// done.
    pub(crate) async fn step_of_lock<A>(
        &self,
        Step { name, attempts, readers }: Step<'_>,
        until: Deadline,
        open: bool,
        act: impl FnMut(&mut Machine, &Record, Reach<'_>) -> A,
    ) -> Result<Result<Done<A>, Kind>> {
        let shared = self.has_readers();
        let asked = Question { name, attempts, shared, readers, hold: Hold::Nothing };
        let Stepped { answer, repeated } =
            self.run_step(LockStep { asked, act }, until, open).await?;
        Ok(answer.map(|done| Done { repeated, ..done }))
    }
}

/// A step of the record of one lock.
struct LockStep<'a, F> {
    asked: Question<'a>,
    act: F,
}

impl<A, F> rounds::Step for LockStep<'_, F>
where
    F: FnMut(&mut Machine, &Record, Reach<'_>) -> A,
{
    type Answer = Result<Done<A>, Kind>;

    fn ask(&mut self, store: &Store, hold: Hold) -> Packet {
        self.asked.hold = hold;
        record::ask(&store.tables, &self.asked)
    }

    fn decide(&mut self, store: &Store, replies: &[Reply]) -> Result<Decision<Self::Answer>> {
        let Question { name, readers, .. } = self.asked;
        let before = match Record::read(replies, &self.asked)? {
            Found::Record(record) => *record,
            Found::Other(kind) => return Ok(Decision::Done(Err(kind))),
            Found::Torn => return Ok(Decision::Torn),
            Found::Readers => {
                self.asked.readers = true;
                return Ok(Decision::AskMore);
            }
        };
        let mut machine = Machine::from(before.parts.clone());
        let mut told = Notifications::default();
        let answer = (self.act)(&mut machine, &before, &mut |attempt: AttemptId, push| {
            told.note(attempt, push);
            true
        });
        let mut record = before.clone();
        record.parts = machine.into();
        let words = store.words(&told, before.now);
        let stamp = store.stamp();
        let writing = record.write(&store.tables, name, &before, stamp, &words);
        let done = Ok(Done { answer, record, told, repeated: false, readers });
        Ok(match writing {
            Some(mut writing) => {
                writing.extend(store.tell_observers(name, stamp));
                Decision::Write(writing, done)
            }
            None => Decision::Done(done),
        })
    }
}
