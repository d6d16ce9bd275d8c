//! Whether readers and writers take turns: a reader that comes while a writer waits does not enter before it, and is
//! passed by one writer at most.

use super::Evidence;
use super::calm::is_calm;
use crate::journal::Hold;
use crate::part::Part;
use crate::workload::Workload;
use crate::{MS, SECOND, TTL};

/// On a busy machine a request is in the store so long after a client wanted the lock.
const REQUEST: u64 = SECOND;
/// A client that reads learns of a waiting writer at its next renewal at the latest.
const NOTICE: u64 = TTL.as_nanos() as u64 / 3;

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Phases {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    /// The longest wait of a writer.
    pub(crate) longest: u64,
    /// The longest one with no fault near, and how many writers and phases of readers went before it.
    pub(crate) longest_in_calm: u64,
    pub(crate) before: (u64, u64),
    /// The longest that one of these went on, with no fault near.
    pub(crate) turn_in_calm: u64,
    /// Waits with no fault near, which were judged.
    pub(crate) judged: u64,
    /// Those in which another one passed that may not.
    pub(crate) against: Vec<String>,
}

pub(super) fn of(evidence: &Evidence) -> Phases {
    if evidence.workload != Workload::Readers {
        return Phases::default();
    }
    let judge = Judge { evidence, holds: &evidence.holds };
    let mut seen = Phases::default();
    for hold in &evidence.holds {
        let (is_write, wait) = (hold.part == Part::Whole, hold.got - hold.wanted);
        seen.reads += u64::from(!is_write);
        seen.writes += u64::from(is_write);
        if is_write {
            seen.longest = seen.longest.max(wait);
        }
        if !is_calm(evidence, hold.wanted, hold.got) {
            continue;
        }
        seen.turn_in_calm = seen.turn_in_calm.max(hold.until - hold.got);
        if is_write && wait > seen.longest_in_calm {
            (seen.longest_in_calm, seen.before) = (wait, judge.before(hold));
        }
        if wait > REQUEST {
            seen.judged += 1;
            seen.against.extend(judge.passed(hold));
        }
    }
    seen
}

struct Judge<'a> {
    evidence: &'a Evidence,
    /// In order of `got`.
    holds: &'a [Hold],
}

impl Judge<'_> {
    /// Those that got the lock while another one waited, from `after` on.
    fn between(&self, after: u64, until: u64) -> &[Hold] {
        let at = |time| self.holds.partition_point(|hold| hold.got <= time);
        self.holds.get(at(after)..at(until.saturating_sub(1))).unwrap_or_default()
    }

    /// The writers and the phases of readers that came while a writer waited.
    fn before(&self, writer: &Hold) -> (u64, u64) {
        let count = |part| {
            let met = self.between(writer.wanted, writer.got).iter();
            let mut tokens: Vec<u64> =
                met.filter(|hold| hold.part == part).map(|hold| hold.token).collect();
            tokens.sort_unstable();
            tokens.dedup();
            tokens.len() as u64
        };
        (count(Part::Whole), count(Part::Read))
    }

    /// Says who passed a waiter that may not.
    fn passed(&self, waiter: &Hold) -> Option<String> {
        let met = self.between(waiter.wanted + REQUEST, waiter.got);
        let passed: Vec<&Hold> = match waiter.part {
            // It came after the writer, and after its phase had begun, and entered that phase.
            Part::Whole => {
                let since = |hold: &Hold| self.phase(hold).max(waiter.wanted + REQUEST) + NOTICE;
                let late = |hold: &&Hold| hold.part == Part::Read && hold.wanted > since(hold);
                met.iter().filter(late).take(1).collect()
            }
            // Each writer has a lease of its own, unless it was passed on inside a process.
            _ if self.evidence.setup.reads_in_order() => Vec::new(),
            _ => {
                let mut writers: Vec<&Hold> =
                    met.iter().filter(|hold| hold.part == Part::Whole).collect();
                writers.dedup_by_key(|hold| hold.lease());
                if writers.len() > 1 { writers } else { Vec::new() }
            }
        };
        let (first, start) = (passed.first()?, self.holds.first()?.got);
        Some(format!(
            "{} passed, after {} ms of waiting: {}; {}",
            if waiter.part == Part::Whole { "writer" } else { "reader" },
            (waiter.got - waiter.wanted) / MS,
            waiter.told(start),
            first.told(start),
        ))
    }

    /// When the phase of a reader began.
    fn phase(&self, reader: &Hold) -> u64 {
        let at = self.holds.partition_point(|hold| hold.got < reader.got);
        let same = self.holds[..at].iter().rev().take(1000);
        let first = same.filter(|hold| hold.token == reader.token).map(|hold| hold.got).min();
        first.unwrap_or(reader.got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::SetUp;

    /// Times in milliseconds.
    fn hold(part: Part, wanted: u64, got: u64, until: u64, token: u64) -> Hold {
        let (asked, wanted) = (wanted * MS, wanted * MS);
        let lease = (token * 1000 + got) as u32;
        Hold { client: 1, lease, asked, wanted, got: got * MS, until: until * MS, token, part }
    }

    fn against(holds: &[Hold], setup: SetUp) -> usize {
        let mut holds = holds.to_vec();
        holds.sort_unstable_by_key(|hold| hold.got);
        let workload = Workload::Readers;
        of(&Evidence { holds, workload, setup, ..Evidence::default() }).against.len()
    }

    #[test]
    fn readers_that_join_a_phase_while_a_writer_waits_are_found() {
        let long = hold(Part::Read, 0, 10, 5000, 1);
        let writer = hold(Part::Whole, 100, 5010, 5020, 2);
        let late = |wanted| hold(Part::Read, wanted, wanted + 10, wanted + 20, 1);
        assert_eq!(against(&[long, writer, late(1300)], SetUp::Redis), 0, "not known yet");
        assert_eq!(against(&[long, writer, late(1500)], SetUp::Redis), 1);
        // It waited before, and entered when the phase began.
        let due = hold(Part::Read, 50, 3000, 3010, 3);
        assert_eq!(against(&[writer, due], SetUp::Redis), 0);
    }

    #[test]
    fn a_reader_that_two_writers_pass_is_found() {
        let reader = hold(Part::Read, 0, 6000, 6010, 9);
        let writer = |got, token| hold(Part::Whole, 10, got, got + 10, token);
        assert_eq!(against(&[reader, writer(2000, 5)], SetUp::Redis), 0);
        let two = [reader, writer(2000, 5), writer(3000, 6)];
        assert_eq!(against(&two, SetUp::Redis), 1);
        assert_eq!(against(&two, SetUp::Zookeeper), 0, "there they are served in order");
    }
}
