//! Whether a guard reported the loss of its lease in time: before the deadline, by the margin that is promised.

use std::ops::AddAssign;

use crate::{MS, TTL};

/// The margin of a lease that was valid for a whole ttl. A shorter validity has a third of itself, if that is less.
const MARGIN: u64 = TTL.as_nanos() as u64 / 10;
/// Timers of a runtime have whole milliseconds.
const TIMER: u64 = 2 * MS;
/// A client gives up so much of a ttl for clocks that run at different rates.
const DRIFT: u64 = TTL.as_nanos() as u64 / 100 + 2 * MS;

/// Losses by the clock, by when they were reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// Before the deadline.
    pub(crate) before: u64,
    /// After it: the process did not run meanwhile.
    pub(crate) after: u64,
}

/// A guard whose holder looks at it again and again. Between two looks the holder waits for the loss and for a
/// timer of a few milliseconds, and finds the loss first. So a look that finds no loss after the moment of the report
/// means that the process did not run just before the look, and two such looks mean that the report is missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    deadline: u64,
    /// When this deadline was first seen: the validity was no longer than from here to it.
    since: u64,
    /// The last look.
    last: u64,
}

impl Watched {
    pub(crate) fn new(got: u64, deadline: u64) -> Self {
        Self { deadline, since: got, last: got }
    }

    /// The holder has looked, and no loss was reported. Says what the guard did wrong.
    pub(crate) fn look(&mut self, at: u64, deadline: u64) -> Option<&'static str> {
        let before = *self;
        if deadline != self.deadline {
            (self.deadline, self.since) = (deadline, at);
        }
        self.last = at;
        if at > deadline {
            return Some("is valid after its deadline");
        }
        if is_bounded(deadline) && deadline > at + TTL.as_nanos() as u64 - DRIFT {
            return Some("is valid for longer than its ttl");
        }
        let is_late = before.deadline == deadline && before.last > before.report() + TIMER;
        is_late.then_some("did not report its loss before its deadline")
    }

    /// When the loss is reported at the latest, unless a renewal moves the deadline.
    fn report(&self) -> u64 {
        let span = self.deadline.saturating_sub(self.since);
        self.deadline.saturating_sub(MARGIN.min(span / 3))
    }
}

impl Losses {
    /// A loss by the clock was reported.
    pub(crate) fn add(&mut self, at: u64, deadline: u64) {
        match at <= deadline {
            true => self.before += 1,
            false => self.after += 1,
        }
    }
}

impl AddAssign for Losses {
    fn add_assign(&mut self, other: Self) {
        self.before += other.before;
        self.after += other.after;
    }
}

/// Leases of a session have no deadline.
fn is_bounded(deadline: u64) -> bool {
    deadline != u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times in milliseconds: had at 1000, and valid until 1988.
    fn looks(looks: &[(u64, u64)]) -> Vec<Option<&'static str>> {
        let mut watched = Watched::new(1000 * MS, 1988 * MS);
        looks.iter().map(|(at, deadline)| watched.look(at * MS, deadline * MS)).collect()
    }

    #[test]
    fn two_looks_after_the_moment_of_the_report_are_too_many() {
        let late = Some("did not report its loss before its deadline");
        assert_eq!(looks(&[(1880, 1988), (1885, 1988)]), [None, None]);
        assert_eq!(looks(&[(1895, 1988), (1900, 1988)]), [None, late]);
        assert_eq!(looks(&[(1870, 1988), (1980, 1988)]), [None, None], "it did not run before");
        assert_eq!(looks(&[(1895, 1988), (1900, 2600)]), [None, None], "it was renewed");
        // Renewed late: 180 ms are left, and a third of that is the margin.
        assert_eq!(looks(&[(1300, 1480), (1415, 1480), (1419, 1480)]), [None, None, None]);
        assert_eq!(looks(&[(1300, 1480), (1425, 1480), (1430, 1480)]), [None, None, late]);
    }

    #[test]
    fn a_guard_that_is_valid_for_too_long_is_found() {
        assert_eq!(looks(&[(1989, 1988)]), [Some("is valid after its deadline")]);
        assert_eq!(looks(&[(1500, 2488)]), [None]);
        assert_eq!(looks(&[(1500, 2489)]), [Some("is valid for longer than its ttl")]);
        let mut session = Watched::new(1, u64::MAX);
        assert_eq!((session.look(2, u64::MAX), session.look(9 * MS, u64::MAX)), (None, None));
    }
}
