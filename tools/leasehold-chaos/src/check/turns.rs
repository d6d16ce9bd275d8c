//! Whether a writer that stands in the store's queue waits for at most one phase of readers for each writer before it, and
//! for the one that it meets; and whether a phase ends, although readers come all the time.

use std::collections::BTreeMap;

use super::Evidence;
use super::calm::{AFTERMATH, is_calm};
use super::order::Troubles;
use crate::journal::{DROPPED_WRITES, Hold, Waiting};
use crate::part::Part;
use crate::workload::Workload;
use crate::{MS, TTL};

/// On files, readers pass a writer that has not entered a free lock for 0.3 s.
const IDLE: u64 = 250 * MS;
/// A client that reads has renewed its lease within this time, and knows since then that a writer waits. On files, where
/// a lease needs no renewal, it has looked for a writer several times.
const NOTICE: u64 = TTL.as_nanos() as u64;
/// How many holds are looked at for the beginning of a phase.
const LOOKED_AT: usize = 2000;

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turns {
    /// Waits of writers that were judged.
    pub(crate) judged: u64,
    /// Those with more phases before them than the promise allows, or readers that entered a phase late, in words.
    pub(crate) against: Vec<String>,
}

/// Judges each writer from the time on at which the store named it in its queue. Only engines with phase-fair locks
/// promise it.
pub(super) fn of(evidence: &Evidence) -> Turns {
    let mut seen = Turns::default();
    if evidence.workload != Workload::Readers || evidence.setup.reads_in_order() {
        return seen;
    }
    let troubles = Troubles::of(evidence);
    for (attempt, waiting) in first_named(evidence) {
        let Some(writer) = granted(evidence, attempt) else { continue };
        if writer.got <= waiting.at || is_troubled(evidence, &troubles, waiting, writer) {
            continue;
        }
        seen.judged += 1;
        let met = between(&evidence.holds, waiting.at, writer.got);
        let (writers, phases) = (count(met, Part::Whole), count(met, Part::Read));
        let unseen = unseen_writers(evidence, waiting.at, writer.got);
        let start = evidence.holds.first().map_or(0, |hold| hold.got);
        if let Some(late) = late_reader(evidence, &troubles, waiting.at, met) {
            seen.against.push(format!(
                "a reader came {} ms after a phase of readers had begun, and entered it before a writer, which stood in the \
                 queue: {}; {}",
                (late.wanted - phase(evidence, late)) / MS,
                late.told(start),
                writer.told(start)
            ));
        }
        if phases > writers + unseen + 1 {
            seen.against.push(format!(
                "{phases} phases of readers and {writers} writers went before a writer, which stood in the queue, \
                 and {unseen} more may have: {}",
                writer.told(start)
            ));
        }
    }
    seen
}

/// When the store first named each attempt as one that waits.
fn first_named(evidence: &Evidence) -> BTreeMap<&str, &Waiting> {
    let mut first: BTreeMap<&str, &Waiting> = BTreeMap::new();
    for (_, waiting) in &evidence.queues {
        for attempt in &waiting.queue {
            let earliest = first.entry(attempt).or_insert(waiting);
            if waiting.at < earliest.at {
                *earliest = waiting;
            }
        }
    }
    first
}

/// The first hold of an attempt, if it is to write.
fn granted<'a>(evidence: &'a Evidence, attempt: &str) -> Option<&'a Hold> {
    let granted = evidence.granted.get(attempt)?;
    let from = evidence.holds.partition_point(|hold| hold.got < granted.got);
    let at_once = evidence.holds[from..].iter().take_while(|hold| hold.got == granted.got);
    { at_once }.find(|hold| hold.client == granted.client && hold.part == Part::Whole)
}

/// Whether something may have taken the writer out of the queue, or another writer's turn may have passed that no
/// journal has.
fn is_troubled(evidence: &Evidence, troubles: &Troubles, waiting: &Waiting, writer: &Hold) -> bool {
    let (from, until) = (waiting.asked, writer.got);
    let mut switches = evidence.switches.iter();
    !is_calm(evidence, from, until)
        || switches.any(|switch| switch.from < until && switch.until + AFTERMATH > from)
        || troubles.is_silent(writer.client, from, until)
        || troubles.is_idle(from, until, IDLE)
}

/// The holds that began in a time.
fn between(holds: &[Hold], after: u64, until: u64) -> &[Hold] {
    let first = holds.partition_point(|hold| hold.got <= after);
    let last = holds.partition_point(|hold| hold.got < until);
    holds.get(first..last).unwrap_or_default()
}

/// A reader that came when every client of its phase knew that a writer waits, and entered this phase. One whose client
/// was silent is not judged.
fn late_reader<'a>(
    evidence: &Evidence,
    troubles: &Troubles,
    named: u64,
    met: &'a [Hold],
) -> Option<&'a Hold> {
    let came_late = |hold: &&Hold| hold.part == Part::Read && hold.wanted > named + NOTICE;
    met.iter().filter(came_late).find(|reader| {
        reader.wanted > phase(evidence, reader) + NOTICE
            && !troubles.is_silent(reader.client, named, reader.wanted)
    })
}

/// When the phase of a reader began, as far as the holds before it tell.
fn phase(evidence: &Evidence, reader: &Hold) -> u64 {
    let until = evidence.holds.partition_point(|hold| hold.got <= reader.got);
    let before = &evidence.holds[until.saturating_sub(LOOKED_AT)..until];
    let mut same = before.iter().filter(|hold| hold.token == reader.token);
    same.next().map_or(reader.got, |first| first.got)
}

/// How many turns of a kind these are: readers of a phase have one token.
fn count(holds: &[Hold], part: Part) -> u64 {
    let mut tokens: Vec<u64> =
        holds.iter().filter(|hold| hold.part == part).map(|hold| hold.token).collect();
    tokens.sort_unstable();
    tokens.dedup();
    tokens.len() as u64
}

/// How many writers may have had a turn without a hold in a journal: each acquire that was dropped or that failed.
fn unseen_writers(evidence: &Evidence, from: u64, until: u64) -> u64 {
    let near = |at: u64| at < until && at + AFTERMATH > from;
    let dropped =
        evidence.abandoned.iter().filter(|one| one.what == DROPPED_WRITES && near(one.at));
    let failed = evidence.failed.iter().filter(|one| near(one.at));
    (dropped.count() + failed.count()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Granted, Verdict};
    use crate::failure::{Failure, FailureKind};
    use crate::fault::{Fault, Injected};
    use crate::journal::Abandoned;
    use crate::setup::SetUp;

    fn hold(client: u32, part: Part, got: u64, until: u64, token: u64) -> Hold {
        let (got, until) = (got * MS, until * MS);
        Hold { client, lease: token as u32, asked: 0, wanted: 0, got, until, token, part }
    }

    /// Client 1 wants to write, and stands in the queue from 5000 ms on, with looks at the queue until it has the lock at
    /// 5900 ms. Each of `turns` lasts 100 ms, from 5100 ms on.
    fn evidence(turns: &[Part]) -> Evidence {
        let turn = |(number, part): (usize, &Part)| {
            let (at, token) = (5100 + 100 * number as u64, 20 + number as u64);
            // Two readers of a phase.
            [hold(2, *part, at, at + 90, token), hold(3, *part, at + 10, at + 95, token)]
                .into_iter()
                .take(if *part == Part::Read { 2 } else { 1 })
        };
        let met = hold(2, Part::Read, 4000, 5090, 10);
        let writer = hold(1, Part::Whole, 5900, 5950, 90);
        let mut holds: Vec<Hold> = turns.iter().enumerate().flat_map(turn).collect();
        let last = holds.last().map_or(5090, |hold| hold.until / MS);
        // The lock is not idle before the writer.
        holds.extend([met, hold(4, Part::Whole, last, 5890, 80), writer]);
        holds.sort_unstable_by_key(|hold| hold.got);
        let look = |at: u64| {
            let queue = vec!["attempt".to_owned()];
            (1, Waiting { asked: (at - 1) * MS, at: at * MS, queue })
        };
        Evidence {
            holds,
            workload: Workload::Readers,
            setup: SetUp::Redis,
            queues: [5400, 5000, 5800].map(look).to_vec(),
            granted: BTreeMap::from([("attempt".into(), Granted { client: 1, got: 5900 * MS })]),
            ..Evidence::default()
        }
    }

    fn judged(evidence: &Evidence) -> (u64, usize) {
        let seen = of(evidence);
        (seen.judged, seen.against.len())
    }

    const R: Part = Part::Read;
    const W: Part = Part::Whole;

    #[test]
    fn a_phase_more_than_the_writers_before_it_explain_is_found() {
        // The writer of the turn before it counts too.
        for (turns, against) in [
            (&[][..], 0),
            (&[R], 0),
            (&[R, R], 0),
            (&[W, R, W, R], 0),
            (&[R, W, R, W, R], 0),
            (&[R, R, R], 1),
            (&[R, R, R, W, R], 1),
            (&[R, R, R, R, R, R], 1),
        ] {
            assert_eq!(judged(&evidence(turns)), (1, against), "{turns:?}");
        }
        let broken = Verdict::of(evidence(&[R, R, R])).broken();
        let count = "writers passed by more readers than promised: 1";
        assert!(broken.iter().any(|one| one == count), "{broken:?}");
        let told = "3 phases of readers and 1 writers went before a writer";
        assert!(broken.iter().any(|one| one.starts_with(told)), "{broken:?}");
    }

    #[test]
    fn a_reader_that_enters_a_phase_late_is_found() {
        // The writer waits from 5000 ms on, for readers that hold until 7990 ms.
        let late = |wanted: u64, got: u64, token: u64| {
            let mut evidence = evidence(&[]);
            evidence.holds.retain(|hold| hold.token == 10);
            evidence.holds[0].until = 7990 * MS;
            let late = Hold { wanted: wanted * MS, ..hold(3, R, got, 7900, token) };
            evidence.holds.extend([late, hold(1, W, 8000, 8050, 90)]);
            evidence.granted.get_mut("attempt").unwrap().got = 8000 * MS;
            let look = |at: u64| Waiting { asked: (at - 1) * MS, at: at * MS, queue: Vec::new() };
            evidence.queues.extend([6500, 7500].map(|at| (1, look(at))));
            judged(&evidence)
        };
        assert_eq!(late(5900, 6500, 10), (1, 0), "a client of the phase may not know yet");
        assert_eq!(late(6100, 6500, 10), (1, 1));
        assert_eq!(late(6100, 6500, 20), (1, 0), "it began a phase of its own");
    }

    #[test]
    fn phases_before_the_store_named_the_writer_do_not_count() {
        let mut late = evidence(&[R, R, R]);
        late.queues.retain(|(_, waiting)| waiting.at > 5100 * MS);
        assert_eq!(judged(&late), (1, 0));
        late.queues.clear();
        assert_eq!(judged(&late), (0, 0));
    }

    #[test]
    fn a_turn_that_no_journal_has_is_allowed_for() {
        let failed =
            Failure { client: 3, at: 5300 * MS, told: FailureKind::Away, what: "x".into() };
        let dropped = |what: &str| Abandoned { at: 5300 * MS, what: what.into() };
        let of_three = |change: &dyn Fn(&mut Evidence)| {
            let mut evidence = evidence(&[R, R, R]);
            change(&mut evidence);
            judged(&evidence)
        };
        assert_eq!(of_three(&|one| one.failed.push(failed.clone())), (1, 0));
        assert_eq!(of_three(&|one| one.abandoned.push(dropped(DROPPED_WRITES))), (1, 0));
        assert_eq!(of_three(&|one| one.abandoned.push(dropped("dropped acquires"))), (1, 1));
    }

    #[test]
    fn a_wait_with_trouble_near_is_not_judged() {
        let of_three = |change: &dyn Fn(&mut Evidence)| {
            let mut evidence = evidence(&[R, R, R]);
            change(&mut evidence);
            judged(&evidence)
        };
        let fault = |from: u64| Injected { fault: Fault::Reset, from: from * MS, until: from * MS };
        assert_eq!(of_three(&|one| one.injected.push(fault(5300))), (0, 0));
        assert_eq!(of_three(&|one| one.injected.push(fault(1500))), (0, 0), "its aftermath");
        assert_eq!(of_three(&|one| one.injected.push(fault(500))), (1, 1));
        assert_eq!(of_three(&|one| one.setup = SetUp::Etcd), (0, 0), "served in order");
        assert_eq!(of_three(&|one| one.workload = Workload::Counter), (0, 0));
        // For longer than 0.3 s no journal has a holder: one that was granted the lock did not take it.
        let idle = |one: &mut Evidence| one.holds.retain(|hold| hold.token != 80);
        assert_eq!(of_three(&idle), (0, 0));
        // The writer's client did not look at the queue for more than 1.5 s.
        let silent = |one: &mut Evidence| {
            one.queues.retain(|(_, waiting)| waiting.at == 5000 * MS);
            one.queues[0].1.asked = 4300 * MS;
            one.queues[0].1.at = 4301 * MS;
        };
        assert_eq!(of_three(&silent), (0, 0));
    }
}
