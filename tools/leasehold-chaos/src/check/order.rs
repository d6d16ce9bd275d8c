//! Whether those who waited got the lock in the order of their line.

use std::collections::{BTreeMap, BTreeSet};

use super::Evidence;
use crate::journal::Waiting;
use crate::workload::Workload;
use crate::{MS, SECOND};

/// Clients have connected anew, and stand in the line again, so long after a fault.
const AFTERMATH: u64 = 4 * SECOND;
/// A lock that is free for longer than this was offered to a waiter that did not react.
const REACTION: u64 = 500 * MS;
/// A client that looks at the line less often than this does not run, or gets no answers.
const SILENCE: u64 = 1500 * MS;

/// What became of those who were seen in line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// Pairs of attempts that waited at the same time and got the lock, both of them.
    pub(crate) pairs: u64,
    /// Those of them in which the later one was the first to get it.
    pub(crate) overtaken: u64,
    /// Pairs of a time without trouble: nothing but the line decides there.
    pub(crate) judged: u64,
}

/// An attempt that got the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) client: u32,
    pub(crate) got: u64,
}

/// Goes through all lines that were seen. Says of pairs that no trouble explains who was overtaken.
pub(super) fn order(evidence: &Evidence) -> (Order, Vec<String>) {
    let (mut seen, mut against) = (Order::default(), Vec::new());
    // Readers of a phase enter together, also those that came after a writer of the next turn.
    if evidence.workload == Workload::Readers {
        return (seen, against);
    }
    let mut known: BTreeSet<(&str, &str)> = BTreeSet::new();
    let troubles = Troubles::of(evidence);
    for (_, waiting) in &evidence.queues {
        let granted = |attempt: &String| evidence.granted.get(attempt).copied();
        let queue: Vec<(&str, Granted)> = { waiting.queue.iter() }
            .filter_map(|attempt| Some((attempt.as_str(), granted(attempt)?)))
            // What the store said may be older than a grant that was on its way.
            .filter(|(_, granted)| granted.got > waiting.at)
            .collect();
        for (at, (first, earlier)) in queue.iter().enumerate() {
            for (second, later) in &queue[at + 1..] {
                if !known.insert((first, second)) {
                    continue;
                }
                seen.pairs += 1;
                let is_overtaken = later.got < earlier.got;
                seen.overtaken += u64::from(is_overtaken);
                if troubles.explain(waiting, *earlier, *later) {
                    continue;
                }
                seen.judged += 1;
                if is_overtaken {
                    against.push(told(waiting, *earlier, *later));
                }
            }
        }
    }
    (seen, against)
}

fn told(waiting: &Waiting, earlier: Granted, later: Granted) -> String {
    let seconds = |time: u64| (time - waiting.asked) as f64 / 1e9;
    format!(
        "client {} stood in line before client {} at {} and got the lock {:.3} s later, {:.3} s after it",
        earlier.client,
        later.client,
        waiting.asked,
        seconds(earlier.got),
        seconds(earlier.got) - seconds(later.got),
    )
}

/// All that may change the order of a line.
pub(super) struct Troubles {
    /// The times of faults.
    faults: Vec<(u64, u64)>,
    /// When each client looked at the line.
    looks: BTreeMap<u32, Vec<u64>>,
    /// When holds began and ended, in order of their beginning.
    holds: Vec<(u64, u64)>,
}

impl Troubles {
    pub(super) fn of(evidence: &Evidence) -> Self {
        let mut looks: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (client, waiting) in &evidence.queues {
            looks.entry(*client).or_default().push(waiting.at);
        }
        for hold in &evidence.holds {
            looks.entry(hold.client).or_default().push(hold.got);
        }
        looks.values_mut().for_each(|looks| looks.sort_unstable());
        Self {
            faults: evidence.injected.iter().map(|one| (one.from, one.until)).collect(),
            looks,
            holds: evidence.holds.iter().map(|hold| (hold.got, hold.until)).collect(),
        }
    }

    fn explain(&self, waiting: &Waiting, earlier: Granted, later: Granted) -> bool {
        let (from, until) = (waiting.asked, earlier.got);
        let meets = |(begun, ended): &(u64, u64)| *begun < until && ended + AFTERMATH > from;
        self.faults.iter().any(meets)
            || self.is_silent(earlier.client, from, until)
            || self.was_free_before(later.got)
    }

    /// Whether a client did not run, or got no answers, for some of a time.
    pub(super) fn is_silent(&self, client: u32, from: u64, until: u64) -> bool {
        let looks = self.looks.get(&client).map_or(&[][..], Vec::as_slice);
        let met = looks.iter().filter(|at| (from..until).contains(*at));
        let mut last = from;
        met.chain([&until]).any(|at| at - std::mem::replace(&mut last, *at) > SILENCE)
    }

    /// Whether no journal has a holder for longer than `most` of a time.
    pub(super) fn is_idle(&self, from: u64, until: u64, most: u64) -> bool {
        let first = self.holds.partition_point(|(begun, _)| *begun <= from).saturating_sub(100);
        let mut last = from;
        let met = self.holds[first..].iter().take_while(|(begun, _)| *begun <= until);
        { met }.any(|(begun, ended)| {
            let is_idle = *begun > last + most;
            last = last.max(*ended);
            is_idle
        })
    }

    /// Whether the lock was free for some time before it was got.
    fn was_free_before(&self, got: u64) -> bool {
        let before = &self.holds[..self.holds.partition_point(|(begun, _)| *begun < got)];
        let last = before.iter().rev().take(100).map(|(_, ended)| *ended).max();
        last.is_none_or(|last| got > last + REACTION)
    }
}
