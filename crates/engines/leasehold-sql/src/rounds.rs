//! The rounds of a step: it reads, decides, and writes on condition that no other client wrote
//! first. Otherwise it begins anew.

use leasehold_core::{Deadline, Error, ErrorKind, Result};

use crate::connection::Reply;
use crate::dialect::Packet;
use crate::error::{What, uncertain};
use crate::hold::Hold;
use crate::pool::{Lane, Transaction};
use crate::store::Store;

/// What follows from the replies to the question of a round.
#[derive(Debug)]
pub(crate) enum Decision<A> {
    /// Another client wrote while they were read.
    Torn,
    /// The next question asks for more.
    AskMore,
    /// These statements must be written; the first one changes one row, unless another client wrote
    /// first.
    Write(Vec<String>, A),
    /// Nothing must be written.
    Done(A),
}

/// A step: what it asks, and what it decides.
pub(crate) trait Step {
    /// Its result.
    type Answer;

    /// Returns the question of a round.
    fn ask(&mut self, store: &Store, hold: Hold) -> Packet;

    /// Decides by the replies; it may be called once for each round.
    ///
    /// # Errors
    /// Errors that end the step; nothing was written in this round.
    fn decide(&mut self, store: &Store, replies: &[Reply]) -> Result<Decision<Self::Answer>>;
}

/// The result of a step.
#[derive(Debug)]
pub(crate) struct Stepped<A> {
    pub(crate) answer: A,
    /// A round may have been written although its reply was lost.
    pub(crate) repeated: bool,
}

impl Store {
    /// Does a step. If an earlier request is `open`, no error is certain.
    pub(crate) async fn run_step<S: Step>(
        &self,
        mut step: S,
        until: Deadline,
        mut open: bool,
    ) -> Result<Stepped<S::Answer>> {
        let done = self.rounds(&mut step, until, &mut open).await;
        done.map_err(|error| if open { uncertain(error) } else { error })
    }

    /// Does the rounds of a step; sets `open` if one of them may have been written without a reply.
    async fn rounds<S: Step>(
        &self,
        step: &mut S,
        until: Deadline,
        open: &mut bool,
    ) -> Result<Stepped<S::Answer>> {
        let dialect = self.tables.dialect;
        for round in 0.. {
            // After one lost round, stop single statements: they would win each time.
            let hold = match round {
                0 => Hold::Nothing,
                _ if dialect.is_file() => Hold::Everything,
                _ => Hold::Statements,
            };
            let mut transaction = None;
            let decided = loop {
                let packet = step.ask(self, hold);
                let replies = match hold {
                    Hold::Everything => {
                        let (replies, begun) = self.pool.begin(&packet, until).await?;
                        transaction = Some(begun);
                        replies
                    }
                    _ => self.run(Lane::Usual, &packet, until).await?,
                };
                let decided = step.decide(self, &replies);
                if !matches!(decided, Ok(Decision::Write(..))) {
                    self.roll_back(transaction.take(), until).await;
                }
                match decided? {
                    Decision::AskMore if !self.is_over(until) => {}
                    decided => break decided,
                }
            };
            let (statements, answer) = match decided {
                Decision::Done(answer) => return Ok(Stepped { answer, repeated: *open }),
                Decision::Write(statements, answer) => (statements, answer),
                Decision::Torn | Decision::AskMore if self.is_over(until) => break,
                Decision::Torn | Decision::AskMore => {
                    self.pause(round).await;
                    continue;
                }
            };
            let written = match transaction {
                Some(transaction) => transaction.end(&dialect.end(&statements), until, open).await,
                None => self.pool.run(Lane::Usual, &dialect.atomic(&statements), until, open).await,
            };
            match written {
                Ok(replies) if replies.first().is_some_and(|reply| reply.affected == 1) => {
                    return Ok(Stepped { answer, repeated: *open });
                }
                // A reader has kept the file locked for long.
                Err(fault) if fault.what == What::Locked && hold == Hold::Everything => {}
                Err(fault) if fault.what != What::Conflict => return Err(fault.error),
                Ok(_) | Err(_) => {}
            }
            if self.is_over(until) {
                break;
            }
            self.pause(round).await;
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            "other clients changed the row of the lock at each try: too many clients use this \
             lock at the same time; try again",
        ))
    }

    /// Ends a transaction that has written nothing.
    async fn roll_back(&self, transaction: Option<Transaction<'_>>, until: Deadline) {
        if let Some(transaction) = transaction {
            let packet = self.tables.dialect.end(&[]);
            transaction.end(&packet, until, &mut false).await.ok();
        }
    }
}
