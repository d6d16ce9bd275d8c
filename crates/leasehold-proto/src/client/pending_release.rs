//! A release that is sent until the engine has answered it.

use core::time::Duration;

use super::Rules;
use super::rules::Bug;
use crate::handoff::ReleaseRequest;
use crate::{AttemptId, Backoff, Deadline, Now, Token};

/// The first and longest pause between two ends.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// An attempt that is being ended. With `then`, the same request acquires for an attempt of another
/// task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PendingRelease<T> {
    then: Option<T>,
    /// It was sent before, without an answer.
    again: bool,
}

/// What the driver does after the result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterRelease<T> {
    /// The attempt has ended.
    Done {
        /// The attempt that gets the second part of the answer.
        forward_to: Option<T>,
        /// The request was sent more than once: another copy may arrive later.
        again: bool,
    },
    /// The engine refused the exchange: `forward_to` gets the refusal, and the release is sent
    /// alone immediately.
    Alone {
        /// The attempt that gets the refusal.
        forward_to: T,
        /// The request was sent more than once: another copy may arrive later.
        again: bool,
    },
    /// The engine refuses the release, and will refuse it again.
    Stop,
    /// It is sent again later.
    Repeat,
}

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseResult {
    /// The engine has executed it.
    Answered,
    /// The engine has refused it. `for_good`: a repetition is refused too.
    Refused {
        /// True if a repetition is refused too.
        for_good: bool,
    },
    /// No answer has arrived.
    Unanswered,
}

impl<T: Clone> PendingRelease<T> {
    /// Starts to end an attempt, and to acquire for `then`.
    pub fn new(then: Option<T>) -> Self {
        Self { then, again: false }
    }

    /// Returns the attempt that the next request acquires for, besides the release.
    pub fn then(&self) -> Option<&T> {
        self.then.as_ref()
    }

    /// Records that the driver was dropped after it had sent a request, before the result arrived.
    pub fn handle_dropped(&mut self) {
        self.again = true;
    }

    /// Handles the result of the last request. Both attempts of an exchange get their own answer:
    /// if the exchange is refused, the release is sent alone.
    pub fn handle_result(&mut self, result: ReleaseResult, rules: impl Rules) -> AfterRelease<T> {
        match (result, self.then.take()) {
            (ReleaseResult::Answered, forward_to) => {
                AfterRelease::Done { forward_to, again: self.again }
            }
            (ReleaseResult::Refused { .. }, Some(forward_to))
                if rules.breaks(Bug::RefusedExchangeEndsNothing) =>
            {
                AfterRelease::Done { forward_to: Some(forward_to), again: self.again }
            }
            (ReleaseResult::Refused { .. }, Some(forward_to)) => {
                AfterRelease::Alone { forward_to, again: self.again }
            }
            (ReleaseResult::Refused { for_good: true }, None) => AfterRelease::Stop,
            (ReleaseResult::Unanswered, _) if rules.breaks(Bug::EndIsSentOnce) => {
                AfterRelease::Stop
            }
            (ReleaseResult::Unanswered | ReleaseResult::Refused { .. }, then) => {
                (self.then, self.again) = (then, true);
                AfterRelease::Repeat
            }
        }
    }
}

/// When an end without an answer is sent again.
#[derive(Clone, Debug)]
pub struct ReleasePauses {
    until: Deadline,
    pauses: Backoff,
}

impl ReleasePauses {
    /// Begins with the first end. The attempt can hold the lock for no longer than `lasts` from now.
    pub fn new(now: Now, lasts: Duration) -> Self {
        let pauses = Backoff::new(PAUSES.0, PAUSES.1);
        Self { until: Deadline::after(now, lasts), pauses }
    }

    /// Returns the pause before the next end; `None` if the lease has expired by itself.
    pub fn next(&mut self, now: Now, bits: impl FnOnce() -> u64) -> Option<Duration> {
        (!self.until.has_passed(now)).then(|| self.pauses.next(bits()))
    }
}

/// Returns how to end an attempt whose lease was pushed to this client although no task waits for
/// it.
pub fn unwanted(attempt: AttemptId, base: Token) -> ReleaseRequest {
    ReleaseRequest { attempt, base: Some(base), last: None, suspect: false, keep: None }
}

/// Returns how to end an attempt that the engine has, although no task of this client knows it: a
/// repeated request has created it again.
pub fn stray(attempt: AttemptId) -> ReleaseRequest {
    ReleaseRequest { attempt, base: None, last: None, suspect: true, keep: None }
}

#[cfg(test)]
mod tests {
    use super::super::Sound;
    use super::*;

    #[test]
    fn an_exchange_without_an_answer_is_repeated_and_says_so() {
        let mut ending = PendingRelease::new(Some(7));
        assert_eq!(ending.handle_result(ReleaseResult::Unanswered, Sound), AfterRelease::Repeat);
        assert_eq!(ending.then(), Some(&7));
        let done = AfterRelease::Done { forward_to: Some(7), again: true };
        assert_eq!(ending.handle_result(ReleaseResult::Answered, Sound), done);
    }

    #[test]
    fn after_a_refused_exchange_the_end_is_sent_alone() {
        for again in [false, true] {
            let mut ending = PendingRelease::new(Some(7));
            if again {
                ending.handle_result(ReleaseResult::Unanswered, Sound);
            }
            let refused = ReleaseResult::Refused { for_good: true };
            let alone = AfterRelease::Alone { forward_to: 7, again };
            assert_eq!(ending.handle_result(refused, Sound), alone);
            assert_eq!(ending.then(), None);
            assert_eq!(ending.handle_result(refused, Sound), AfterRelease::Stop);
        }
    }

    #[test]
    fn an_end_is_repeated_until_the_lease_has_expired() {
        let at = |ms: u64| Now { steady_ns: ms * 1_000_000, wall_ns: 0 };
        let mut pauses = ReleasePauses::new(at(0), Duration::from_secs(10));
        let almost = |ms: u64| Some(Duration::from_millis(ms) - Duration::from_nanos(1));
        assert_eq!(pauses.next(at(1), || u64::MAX), almost(20));
        assert_eq!(pauses.next(at(9_999), || u64::MAX), almost(40));
        assert_eq!(pauses.next(at(10_000), || u64::MAX), None);
    }

    #[test]
    fn a_refusal_that_passes_is_not_the_end() {
        let mut ending = PendingRelease::<u8>::new(None);
        let refused = ReleaseResult::Refused { for_good: false };
        assert_eq!(ending.handle_result(refused, Sound), AfterRelease::Repeat);
        let done = AfterRelease::Done { forward_to: None, again: true };
        assert_eq!(ending.handle_result(ReleaseResult::Answered, Sound), done);
    }
}
