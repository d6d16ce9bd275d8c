//! The validity of a lease that the server has pushed.

use core::time::Duration;

use super::Rules;
use super::rules::Bug;
use crate::{Deadline, Now, drift};

/// The last answered request of a waiter. The ages of pushes to the waiter are counted from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PushReference {
    /// When the request was sent.
    pub sent: Now,
    /// The server's wall clock in its answer, in microseconds.
    pub server_us: u64,
}

impl PushReference {
    /// Returns the end of validity of a lease that was pushed at the server's time `server_us` for
    /// the duration `offer`. `None` if it has passed, or is unknown: the waiter then sends its
    /// request, and the server grants the lease again if no other client holds it.
    ///
    /// The client ignores a push that the server sent before the answer, even if it arrives later.
    /// The answer said that the attempt waits, so the lease of the push had ended by then. A server
    /// whose clock was set back looks the same.
    ///
    /// The push may have waited in this process. Its age is computed from the server's clock and
    /// the reference. This fails if the server's clock was set forward between the two. If it was
    /// set forward by more than the push has waited, the push seems to come from the future. The
    /// client cannot detect a smaller step: the lease then seems valid for too long, by that step.
    pub fn valid_until(
        &self,
        server_us: u64,
        offer: Duration,
        now: Now,
        rules: impl Rules,
    ) -> Option<Deadline> {
        let valid = offer.saturating_sub(drift(offer));
        if rules.breaks(Bug::PushCountsFromReceipt) {
            return Some(Deadline::after(now, valid));
        }
        let passed = match server_us.checked_sub(self.server_us) {
            // It was sent before the answer that the attempt waits, so it is over.
            None if !rules.breaks(Bug::EarlierPushIsBelieved) => return None,
            passed => Duration::from_micros(passed.unwrap_or(0)),
        };
        let passed = passed - passed / 100;
        if !Deadline::after(self.sent, passed).has_passed(now) {
            return None;
        }
        let until = Deadline::after(self.sent, passed + valid).min(Deadline::after(now, valid));
        (!until.has_passed(now)).then_some(until)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sound;
    use super::*;

    const OFFER: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> Now {
        Now { steady_ns: ms * 1_000_000, wall_ns: 0 }
    }

    /// The answer to an acquire that was sent at 0.
    const ASKED: PushReference =
        PushReference { sent: Now { steady_ns: 0, wall_ns: 0 }, server_us: 5_000_000 };

    #[test]
    fn the_time_that_a_push_has_waited_does_not_count() {
        let valid = |now| ASKED.valid_until(7_000_000, OFFER, at(now), Sound);
        assert_eq!(valid(2_000), Some(Deadline::after(at(1_980), OFFER - drift(OFFER))));
        assert_eq!(valid(2_900), valid(2_000));
        assert_eq!(valid(3_100), None);
    }

    #[test]
    fn a_push_that_seems_to_come_from_the_future_is_not_used() {
        // Sent after 2 s, 1.9 s ago, by a server whose clock was set forward by 2.5 s.
        assert_eq!(ASKED.valid_until(9_500_000, OFFER, at(3_900), Sound), None);
    }

    #[test]
    fn a_push_from_before_the_answer_is_not_used() {
        assert_eq!(ASKED.valid_until(4_999_999, OFFER, at(900), Sound), None);
        assert!(ASKED.valid_until(5_000_000, OFFER, at(900), Sound).is_some());
    }
}
