//! What a denied attempt means for the call that acquires.

use core::time::Duration;

use super::{Denied, Outlook, Why};

/// A node that waits after a restart votes this long after its wait: a few round trips.
const ADMITTED: Duration = Duration::from_millis(20);

/// What the client does after an attempt was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AfterDenied {
    /// Other attempts hold the lock or ask for it: it waits and asks again.
    Taken,
    /// No majority can vote for this long: it asks again then.
    Later(Duration),
    /// Its lease had ended before it received the grant: it asks again, as after no answer.
    TooLate,
    /// Too few nodes answer: it asks again until the engine has been silent for too long.
    Unanswered,
}

impl Denied {
    /// Decides what the client does; `outlook` is [`Admission::outlook`](super::Admission::outlook)
    /// at this moment.
    pub fn decide(&self, outlook: Outlook) -> AfterDenied {
        match (self.why, outlook) {
            (Why::Busy | Why::Contended, _) => AfterDenied::Taken,
            (Why::TooLate, _) => AfterDenied::TooLate,
            (Why::Unavailable, Outlook::Later(left)) => AfterDenied::Later(left.max(ADMITTED)),
            (Why::Unavailable, _) => AfterDenied::Unanswered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quorum::Tally;

    #[test]
    fn only_too_few_votes_ask_for_the_outlook() {
        let decide = |why, outlook| {
            let tally = Tally { granted: 0, busy: 0, refused: 0, unknown: 3 };
            Denied { why, tally, seen: 0, free_in: None }.decide(outlook)
        };
        let later = |ms| Outlook::Later(Duration::from_millis(ms));
        for outlook in [Outlook::Open, later(500), Outlook::Unreachable] {
            assert_eq!(decide(Why::Busy, outlook), AfterDenied::Taken);
            assert_eq!(decide(Why::Contended, outlook), AfterDenied::Taken);
            assert_eq!(decide(Why::TooLate, outlook), AfterDenied::TooLate);
        }
        let unavailable = |outlook| decide(Why::Unavailable, outlook);
        assert_eq!(unavailable(later(500)), AfterDenied::Later(Duration::from_millis(500)));
        assert_eq!(unavailable(later(1)), AfterDenied::Later(ADMITTED));
        assert_eq!(unavailable(Outlook::Forgotten), AfterDenied::Unanswered);
    }
}
