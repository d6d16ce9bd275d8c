//! Whether the promises were kept: what all clients wrote down, and what happened to the resources,
//! put together afterwards.

mod abandoned;
mod cached;
mod calm;
mod clean_ups;
mod commands;
mod forgets;
mod gates;
mod order;
mod phases;
mod pushed;
mod refusals;
mod runs;
mod turns;

use std::collections::BTreeMap;

use crate::SECOND;
use crate::failure::Failure;
use crate::fault::{Fault, Injected};
use crate::journal::{Abandoned, Hold, Met, Span, Waiting};
use crate::loss::Losses;
use crate::master_switch::Switch;
use crate::operator::{Operation, Ran};
use crate::resource::Visit;
use crate::setup::SetUp;
use crate::workload::Workload;
use crate::written::Event;

pub(crate) use self::cached::Cached;
use self::commands::Forced;
pub(crate) use self::commands::Tally;
use self::forgets::Forgets;
pub(crate) use self::forgets::Stopped;
pub(crate) use self::gates::Seen;
pub(crate) use self::order::{Granted, Order};
pub(crate) use self::phases::Phases;
pub(crate) use self::runs::Visited;
pub(crate) use self::turns::Turns;

/// So many violations are reported one by one.
const EXAMPLES: usize = 5;

/// How many overlaps each kind of fault allows, and none.
type Overlaps = BTreeMap<Option<Fault>, u64>;
/// Two holds that do not go together, the earlier one first.
type Pair = (Hold, Hold);

/// What a run has left behind.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) holds: Vec<Hold>,
    pub(crate) injected: Vec<Injected>,
    pub(crate) setup: SetUp,
    pub(crate) workload: Workload,
    /// What happened to each resource with a fence.
    pub(crate) fenced: Vec<Vec<Visit>>,
    pub(crate) unfenced: Vec<Visit>,
    /// When clients may have had file locks of the judge, and when they met others there.
    pub(crate) spans: Vec<Span>,
    pub(crate) met: Vec<Met>,
    /// What clients received instead of what they asked for.
    pub(crate) failed: Vec<Failure>,
    /// What clients dropped or ended in another hard way.
    pub(crate) abandoned: Vec<Abandoned>,
    /// Losses by the clock.
    pub(crate) losses: Losses,
    /// The lines that clients were shown, by the number of the client.
    pub(crate) queues: Vec<(u32, Waiting)>,
    /// The attempts that got the lock.
    pub(crate) granted: BTreeMap<String, Granted>,
    /// Where servers have replicas: when another one became the master.
    pub(crate) switches: Vec<Switch>,
    /// Clients that were stopped for some time.
    pub(crate) stopped: Vec<Stopped>,
    /// The operator's commands.
    pub(crate) ran: Vec<Ran>,
    /// The commands that had the lock by `leasehold run`.
    pub(crate) visited: Vec<Visited>,
    /// The faults and commands, as a plan in a file has them.
    pub(crate) events: Vec<Event>,
    /// What may not happen, and did.
    pub(crate) wrong: Vec<String>,
    /// The most connections that were made in a second.
    pub(crate) connections: u64,
    /// What is there at the end, and should not be.
    pub(crate) left: Vec<String>,
    /// What is there at the end on purpose.
    pub(crate) kept: Vec<String>,
}

/// What was seen.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) acquisitions: u64,
    /// What clients received instead of what they asked for, and how often.
    pub(crate) failed: BTreeMap<String, u64>,
    pub(crate) abandoned: BTreeMap<String, u64>,
    /// A client got the lock while another took itself for the holder: after a fault of this kind,
    /// that allows it, or against the promise.
    pub(crate) overlaps: Overlaps,
    /// A client got the lock while the owner of a lease that was ended by force still believed in it.
    pub(crate) forced: u64,
    pub(crate) commands: BTreeMap<Operation, Tally>,
    /// Records of idle locks that an operator has removed.
    pub(crate) cleaned_up: u64,
    pub(crate) losses: Losses,
    pub(crate) order: Order,
    /// A waiter got the lock before one that stood in line before it, and nothing explains that.
    pub(crate) overtaken: u64,
    /// So often another server became the master.
    pub(crate) switches: u64,
    /// A client was refused, or told of a foreign record, and nothing explains that.
    pub(crate) refused: u64,
    /// A token that another hold had too.
    pub(crate) twice: u64,
    /// A token that was not above one that was held before the lock was asked for.
    pub(crate) inversions: u64,
    /// How readers and writers took turns.
    pub(crate) phases: Phases,
    /// The phases of readers before writers that stood in the store's queue.
    pub(crate) turns: Turns,
    /// What the judge's own file locks have seen.
    pub(crate) gates: Seen,
    /// Leases that clients cached.
    pub(crate) cached: Cached,
    pub(crate) fenced: Updates,
    pub(crate) unfenced: Updates,
    /// The longest time in which no client got the lock, and what went wrong meanwhile.
    pub(crate) gap: Gap,
    pub(crate) wrong: Vec<String>,
    /// The most connections that were made in a second.
    pub(crate) connections: u64,
    /// What is there at the end, and should not be.
    pub(crate) left: Vec<String>,
    /// What is there at the end on purpose.
    pub(crate) kept: Vec<String>,
    /// Commands that stayed long after their end was due. It depends on the machine, so it is shown
    /// and breaks no run.
    pub(crate) slow: Vec<String>,
    /// Of overlaps and inversions against the promise, a few each, in words.
    pub(crate) examples: Vec<String>,
}

/// What happened to a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Updates {
    /// Writes that were taken.
    pub(crate) taken: u64,
    /// Reads and writes that were refused.
    pub(crate) refused: u64,
    /// Writes that were taken although a later token had been seen.
    pub(crate) stale: u64,
    /// Writes that were taken and of which nothing is left.
    pub(crate) lost: u64,
}

/// A time in which no client got the lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) from: u64,
    pub(crate) until: u64,
    pub(crate) faults: Vec<Fault>,
}

impl Verdict {
    pub(crate) fn of(mut evidence: Evidence) -> Self {
        evidence.holds.extend(evidence.visited.iter().map(Visited::certain));
        evidence.holds.sort_unstable_by_key(|hold| hold.got);
        let forced = commands::forced(&evidence);
        let forgets = Forgets::of(&evidence);
        let Overlapping { allowed: overlaps, forced: by_force, against: overlapping } =
            overlaps(&evidence, &forced, &forgets);
        let wrong = commands::wrong(&evidence, &forced, &forgets);
        let cached = cached::of(&evidence, &forced, &forgets);
        let (order, overtaken) = order::order(&evidence);
        let refused = refusals::against(&evidence);
        let late = [
            abandoned::late(&evidence),
            pushed::late(&evidence).into_iter().collect(),
            clean_ups::wrong(&evidence),
        ]
        .concat();
        let commands = commands::tally(&evidence.ran);
        let inverted = inversions(&evidence.holds);
        let (phases, turns) = (phases::of(&evidence), turns::of(&evidence));
        // On a busy machine a request is in the store late.
        let passed = phases.against.iter().take(EXAMPLES).cloned();
        let slow = runs::slow(&evidence).into_iter().chain(passed).collect();
        let gates = gates::of(&evidence);
        let example = |(what, (first, second)): (&str, &Pair)| {
            let start = evidence.holds.first().map_or(0, |hold| hold.got);
            format!("{what}: {}; {}", first.told(start), second.told(start))
        };
        let few = |what, pairs: &[Pair]| -> Vec<String> {
            pairs.iter().take(EXAMPLES).map(|pair| example((what, pair))).collect()
        };
        let few_of = |told: &[String]| told.iter().take(EXAMPLES).cloned().collect();
        let examples = [
            few("overlap", &overlapping),
            few("token", &inverted),
            few_of(&overtaken),
            few_of(&refused),
            few_of(&gates.against),
            few_of(&cached.against),
            few_of(&turns.against),
        ]
        .concat();
        Self {
            acquisitions: evidence.holds.len() as u64,
            overlaps,
            forced: by_force,
            commands,
            cleaned_up: clean_ups::removed(&evidence),
            losses: evidence.losses,
            order,
            overtaken: overtaken.len() as u64,
            refused: refused.len() as u64,
            switches: evidence.switches.len() as u64,
            phases,
            turns,
            gates,
            cached,
            twice: twice(&evidence.holds),
            inversions: inverted.len() as u64,
            fenced: Updates::of_all(&evidence.fenced),
            unfenced: Updates::of(&evidence.unfenced),
            gap: gap(&evidence),
            failed: refusals::counted(&evidence.failed),
            abandoned: abandoned::counted(&evidence.abandoned),
            wrong: [evidence.wrong, wrong, late].concat(),
            connections: evidence.connections,
            left: evidence.left,
            slow,
            kept: evidence.kept,
            examples,
        }
    }

    /// The promises that were not kept, in words.
    pub(crate) fn broken(&self) -> Vec<String> {
        let counts = [
            (self.against(), "overlaps against the promise"),
            (self.twice, "tokens used twice"),
            (self.inversions, "tokens that did not grow"),
            (self.gates.against.len() as u64, "file locks of the judge held by no holder"),
            (self.cached.against.len() as u64, "takes of cached leases that were over"),
            (self.turns.against.len() as u64, "writers passed by more readers than promised"),
            (self.overtaken, "waiters overtaken though nothing went wrong"),
            (self.refused, "refusals that nothing explains"),
            (self.fenced.stale, "stale writes taken by the fence"),
            (self.fenced.lost, "updates lost behind the fence"),
        ];
        let counted = counts.into_iter().filter(|(count, _)| *count > 0);
        let counted = counted.map(|(count, what)| format!("{what}: {count}"));
        let left = self.left.iter().map(|what| format!("left behind: {what}"));
        counted.chain(left).chain(self.wrong.iter().chain(&self.examples).cloned()).collect()
    }

    /// Overlaps that no fault allows.
    pub(crate) fn against(&self) -> u64 {
        self.overlaps.get(&None).copied().unwrap_or_default()
    }
}

/// Pairs of holds of which the second began while the first was believed in.
#[derive(Debug, Default)]
struct Overlapping {
    /// By the fault that allows them.
    allowed: Overlaps,
    /// Explained by a forced release.
    forced: u64,
    /// Those that nothing allows.
    against: Vec<Pair>,
}

fn overlaps(evidence: &Evidence, forced: &[Forced<'_>], forgets: &Forgets) -> Overlapping {
    let mut seen = Overlapping::default();
    let mut open: Vec<&Hold> = Vec::new();
    for second in &evidence.holds {
        open.retain(|first| first.until > second.got);
        for first in open.iter().filter(|first| first.conflicts(second)) {
            if forced.iter().any(|one| one.explains(first, second)) {
                seen.forced += 1;
                continue;
            }
            let fault = forgets.allows(first, second);
            *seen.allowed.entry(fault).or_default() += 1;
            if fault.is_none() {
                seen.against.push((**first, *second));
            }
        }
        open.push(second);
    }
    seen
}

/// Holds whose token another one had before, of which they may not be a part.
fn twice(holds: &[Hold]) -> u64 {
    let mut by_token: Vec<&Hold> = holds.iter().collect();
    by_token.sort_by_key(|hold| hold.token);
    let same = by_token.chunk_by(|one, other| one.token == other.token);
    let again = |same: &[&Hold]| {
        let met = |at: usize| same[..at].iter().any(|one| one.part.conflicts(same[at].part));
        (1..same.len()).filter(|at| met(*at)).count() as u64
    };
    same.map(again).sum()
}

/// Returns the pairs in which the second hold was asked for after the first was granted, but has
/// the smaller token. `holds` are in order of `got`.
fn inversions(holds: &[Hold]) -> Vec<Pair> {
    let mut tracks: BTreeMap<u32, Vec<&Hold>> = BTreeMap::new();
    for hold in holds {
        for track in hold.part.tracks() {
            tracks.entry(track).or_default().push(hold);
        }
    }
    tracks.values().flat_map(|holds| inversions_of(holds)).collect()
}

/// The same of holds of one slot, or of a lock.
fn inversions_of(holds: &[&Hold]) -> Vec<Pair> {
    let mut by_asking: Vec<&Hold> = holds.to_vec();
    by_asking.sort_by_key(|hold| hold.asked);
    let (mut earlier, mut wrong) = (holds.iter().copied().peekable(), Vec::new());
    let mut highest: Option<&Hold> = None;
    for hold in by_asking {
        while let Some(before) = earlier.next_if(|before| before.got < hold.asked) {
            if highest.is_none_or(|highest| highest.token < before.token) {
                highest = Some(before);
            }
        }
        wrong.extend(highest.filter(|one| one.token > hold.token).map(|one| (*one, *hold)));
    }
    wrong
}

impl Updates {
    fn of_all(histories: &[Vec<Visit>]) -> Self {
        let all = histories.iter().map(|visits| Self::of(visits));
        all.fold(Self::default(), |sum, one| Self {
            taken: sum.taken + one.taken,
            refused: sum.refused + one.refused,
            stale: sum.stale + one.stale,
            lost: sum.lost + one.lost,
        })
    }

    fn of(visits: &[Visit]) -> Self {
        let (mut seen, mut highest) = (Self::default(), 0);
        for visit in visits {
            if visit.taken && visit.writes {
                seen.taken += 1;
                seen.stale += u64::from(visit.token < highest);
            }
            seen.refused += u64::from(!visit.taken);
            highest = highest.max(visit.token);
        }
        let value = visits.last().map_or(0, |last| last.value);
        Self { lost: seen.taken.saturating_sub(value), ..seen }
    }
}

fn gap(evidence: &Evidence) -> Gap {
    let pairs = evidence.holds.windows(2).map(|pair| (pair[0].got, pair[1].got));
    let Some((from, until)) = pairs.max_by_key(|(from, until)| until - from) else {
        return Gap::default();
    };
    // What happened shortly before may still have its effect.
    let since = from.saturating_sub(SECOND);
    let met = evidence.injected.iter().filter(|one| one.from < until && one.until >= since);
    let mut faults: Vec<Fault> = met.map(|one| one.fault).collect();
    faults.sort_unstable();
    faults.dedup();
    Gap { from, until, faults }
}

#[cfg(test)]
#[path = "check/part_tests.rs"]
mod part_tests;
#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
