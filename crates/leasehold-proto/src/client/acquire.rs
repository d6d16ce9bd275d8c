//! When a waiting attempt sends its request again, and when its task stops trying.

use core::time::Duration;

use super::{AfterMail, AfterReply, Granted, Mail, PendingAttempt, Reply, Rules, Sound};
use crate::{Backoff, Deadline, Now};

/// The longest pause before a waiter sends its request again, because a message may be lost: 15 s.
pub const SLOW_POLL: Duration = Duration::from_secs(15);
/// The first and longest pause between two requests if the engine does not specify one.
const BUSY_PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));
/// The first and longest pause after a request without an answer.
const ERROR_PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// After a request without an answer, a caller sends its last request early: an answer that takes a
/// quarter longer than the previous one then still arrives before the caller's time limit, with
/// this margin.
const SPARE: Duration = Duration::from_millis(20);

/// The limits of one call that acquires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// When the call began.
    pub start: Now,
    /// When it must have ended; `None` waits forever.
    pub until: Option<Deadline>,
    /// How long it retries an engine that does not answer.
    pub patience: Duration,
    /// It waits for a lock that is taken.
    pub waits: bool,
}

/// Since when the engine has not answered. A task that inherits an attempt inherits this too, so
/// the time limit does not start again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Silence<E> {
    /// The beginning.
    pub since: Now,
    /// The error of the last request, if it failed.
    pub error: Option<E>,
}

/// One attempt of a call that acquires, from its first request to its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquire<E, R = Sound> {
    pending: PendingAttempt<R>,
    silence: Option<Silence<E>>,
    limits: Limits,
    busy: Backoff,
    errors: Backoff,
}

/// What the driver does after a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<E> {
    /// It holds the lease.
    Hold(Granted),
    /// It waits for messages until [`PendingAttempt::ask_at`], then sends its request again.
    /// `answered` is false if the request failed without an answer.
    Wait {
        /// The engine has answered that the lock is taken.
        answered: bool,
    },
    /// It sends its request again immediately.
    AskAgain,
    /// The lock is taken, and the call does not wait.
    Taken,
    /// It continues with a new attempt.
    Another,
    /// The call fails with this error.
    Fail(E),
    /// The time limit of the call has passed; the last request failed with this error.
    TimedOut(E),
}

/// What the driver does after it has read the messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard<E> {
    /// It holds the lease, which the engine has pushed. Its validity does not count from a request.
    Granted(Granted),
    /// It handles this reply to a request that another task sent at this time.
    Reply(Now, Reply<E>),
    /// It sends its request now.
    Ask,
    /// It waits for a message until this time, then calls [`Acquire::handle_timeout`].
    Wait(Deadline),
}

impl<E: Clone, R: Rules> Acquire<E, R> {
    /// Starts to acquire with an attempt. `silence` comes from earlier tasks of the process.
    pub fn new(pending: PendingAttempt<R>, silence: Option<Silence<E>>, limits: Limits) -> Self {
        let busy = Backoff::new(BUSY_PAUSES.0, BUSY_PAUSES.1);
        let errors = Backoff::new(ERROR_PAUSES.0, ERROR_PAUSES.1);
        Self { pending, silence, limits, busy, errors }
    }

    /// Returns the attempt.
    pub fn pending(&self) -> &PendingAttempt<R> {
        &self.pending
    }

    /// Returns the attempt and the silence for the next task.
    pub fn into_parts(self) -> (PendingAttempt<R>, Option<Silence<E>>) {
        (self.pending, self.silence)
    }

    /// Returns the error of the last request, if no answer has arrived since.
    pub fn last_error(&self) -> Option<&E> {
        self.silence.as_ref()?.error.as_ref()
    }

    /// Returns the error if earlier tasks got no answer for as long as this call would retry.
    pub fn fails_at_once(&self, now: Now) -> Option<&E> {
        let error = self.last_error()?;
        self.silence_limit(now).has_passed(now).then_some(error)
    }

    /// Records that a request is sent. Returns the time limit of the request: the engine has some
    /// time to answer, even if this whole process was paused.
    pub fn handle_sent(&mut self, now: Now) -> Deadline {
        self.pending.handle_sent();
        self.silence_limit(now).max(Deadline::after(now, self.limits.patience / 10))
    }

    /// Handles the reply to the last request, which was sent at `sent`. `bits` are random bits.
    pub fn handle_reply(
        &mut self,
        sent: Now,
        now: Now,
        reply: Reply<E>,
        bits: impl FnOnce() -> u64,
    ) -> Next<E> {
        let after = self.pending.handle_reply(now, reply);
        self.decide_next(sent, now, after, bits)
    }

    /// Handles the reply to a request that another task sent for the attempt.
    pub fn handle_forwarded(
        &mut self,
        sent: Now,
        now: Now,
        reply: Reply<E>,
        bits: impl FnOnce() -> u64,
    ) -> Next<E> {
        self.silence = None;
        let after = self.pending.handle_answer(now, reply);
        self.decide_next(sent, now, after, bits)
    }

    /// Decides what the driver does after a reply.
    fn decide_next(
        &mut self,
        sent: Now,
        now: Now,
        after: AfterReply<E>,
        bits: impl FnOnce() -> u64,
    ) -> Next<E> {
        let waits = self.limits.waits;
        match after {
            AfterReply::Hold(granted) => return Next::Hold(granted),
            AfterReply::Over => return Next::Another,
            AfterReply::Refused(error) => {
                self.silence = None;
                return Next::Fail(error);
            }
            AfterReply::Unanswered(error) => return self.handle_silence(sent, now, error, bits),
            AfterReply::Later(_, why) if !waits => return Next::Fail(why),
            AfterReply::Later(pause, why) => {
                let pause = pause.min(self.limits.patience / 2);
                self.pending.set_ask_at(Some(Deadline::after(now, pause)));
                self.silence = Some(Silence { since: now, error: Some(why) });
                return Next::Wait { answered: false };
            }
            AfterReply::Free if !waits => {
                self.pending.handle_not_kept();
                if self.limits.until.is_some_and(|until| until.has_passed(now)) {
                    return Next::Taken;
                }
                self.silence = None;
                return Next::AskAgain;
            }
            AfterReply::Taken(_) if !waits => {
                self.pending.handle_not_kept();
                return Next::Taken;
            }
            AfterReply::Free => self.pending.set_ask_at(Some(Deadline::after(now, Duration::ZERO))),
            AfterReply::Taken(pause) => {
                let pause = pause.unwrap_or_else(|| self.busy.next(bits()));
                self.pending.set_ask_at(Some(Deadline::after(now, pause)));
            }
            AfterReply::Wait => {}
        }
        self.pending.ask_by(Deadline::after(now, SLOW_POLL));
        self.silence = None;
        self.errors.reset();
        Next::Wait { answered: true }
    }

    /// Handles a request without an answer: the same attempt is sent again until the engine has
    /// been silent for too long.
    fn handle_silence(
        &mut self,
        sent: Now,
        now: Now,
        error: E,
        bits: impl FnOnce() -> u64,
    ) -> Next<E> {
        let Limits { start, until, waits, .. } = self.limits;
        let last = match waits {
            true => until.map(|until| last_ask(sent, now, start, until)),
            false => until,
        };
        let over = last.is_some_and(|last| last.has_passed(now));
        let silence = self.silence_since(sent);
        if over && waits {
            return Next::TimedOut(error);
        }
        silence.error = Some(error.clone());
        let silence_limit = self.silence_limit(now);
        if over || silence_limit.has_passed(now) {
            return Next::Fail(error);
        }
        let pause = Deadline::after(now, self.errors.next(bits())).min(silence_limit);
        self.pending.set_ask_at(Some(last.map_or(pause, |last| pause.min(last))));
        Next::Wait { answered: false }
    }

    /// Handles the messages that have arrived.
    pub fn handle_mail(&mut self, now: Now, mail: Mail<E>) -> Heard<E> {
        let broken = mail.broken;
        match self.pending.handle_mail(mail) {
            AfterMail::Granted(granted) => return Heard::Granted(granted),
            AfterMail::Reply(sent, reply) => return Heard::Reply(sent, reply),
            AfterMail::Ask => return Heard::Ask,
            AfterMail::Wait => {}
        }
        if let Some(since) = broken {
            self.silence_since(since);
            self.pending.ask_by(Deadline::after(now, self.limits.patience / 2));
        }
        match self.pending.ask_at() {
            None => Heard::Ask,
            Some(ask_at) => {
                Heard::Wait(self.limits.until.map_or(ask_at, |until| until.min(ask_at)))
            }
        }
    }

    /// Handles the end of a wait without a message. Returns true if the time limit of the call has
    /// passed; otherwise the request is sent now. A call that does not wait reports its last answer
    /// instead.
    pub fn handle_timeout(&mut self, now: Now) -> bool {
        let over = self.limits.until.is_some_and(|until| until.has_passed(now));
        over && self.limits.waits
    }

    /// Returns the silence, which begins at this moment unless it began before.
    fn silence_since(&mut self, now: Now) -> &mut Silence<E> {
        self.silence.get_or_insert(Silence { since: now, error: None })
    }

    /// Returns when the call fails if the engine stays silent from `now` on.
    fn silence_limit(&self, now: Now) -> Deadline {
        let start = self.limits.start;
        let since = self.silence.as_ref().map_or(now, |silence| silence.since);
        let later = if since.steady_ns > start.steady_ns { since } else { start };
        Deadline::after(later, self.limits.patience)
    }
}

/// Returns when a call that began at `start` sends its last request, if its request failed between
/// `sent` and `now`. Its error must be ready before `until`.
fn last_ask(sent: Now, now: Now, start: Now, until: Deadline) -> Deadline {
    let given = until.remaining(start);
    let took = Duration::from_nanos(now.steady_ns.saturating_sub(sent.steady_ns));
    let early = took.saturating_add(took / 4).saturating_add(SPARE.min(given / 10));
    Deadline::after(start, given.saturating_sub(early.min(given / 2)))
}

#[cfg(test)]
#[path = "acquire_tests.rs"]
mod tests;
