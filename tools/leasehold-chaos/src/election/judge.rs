//! Whether an election kept its promises: one leader at a time, growing tokens, observers that see each leader and the
//! times without one, and a new leader within the bound.

use std::collections::BTreeMap;
use std::fs;

use serde_json::json;

use super::Times;
use super::candidate::OBSERVE;
use crate::check::{Evidence, Stopped, Verdict};
use crate::client::Files;
use crate::journal::{Hold, Story};
use crate::operator::{Call, CommandEnd, Operation, Ran};
use crate::setup::SetUp;
use crate::{MS, Result, SECOND, TTL};

/// What happens to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Blow {
    /// It is killed (-9), and another candidate started.
    Kill,
    /// It is stopped (SIGSTOP) until another leads.
    Stop,
    /// Nothing gets from it to the servers, or back, until another leads.
    Cut,
    /// An operator ends its lease by force.
    Demote,
    /// It resigns, and no candidate campaigns for a second or two.
    Vacate,
}

impl Blow {
    /// Those that a set-up bears.
    pub(super) fn of(setup: SetUp) -> &'static [Self] {
        match setup {
            // There is no network, and only the end of its process ends a lease.
            SetUp::File => &[Self::Kill, Self::Stop, Self::Vacate],
            SetUp::Sqlite => &[Self::Kill, Self::Stop, Self::Demote, Self::Vacate],
            _ => &[Self::Kill, Self::Stop, Self::Cut, Self::Demote, Self::Vacate],
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kill => "killed",
            Self::Stop => "stopped",
            Self::Cut => "cut off",
            Self::Demote => "demoted",
            Self::Vacate => "vacant",
        }
    }

    /// The longest time without a leader, from when this happens. A lease ends by its ttl, or with the session, and a
    /// candidate that waits finds it out within a second; what is released is passed on, or found at the next look.
    pub(super) fn bound(self, setup: SetUp) -> u64 {
        let lease = match setup {
            // A session of 3 s, which servers end in steps of a tick.
            SetUp::Zookeeper => 4 * SECOND,
            // etcd grants no lease below 2 s, and looks for those that have ended each half second.
            SetUp::Etcd | SetUp::EtcdTls => 3 * SECOND,
            SetUp::File => 0,
            _ => TTL.as_nanos() as u64,
        };
        match self {
            Self::Kill | Self::Stop | Self::Cut => lease + SECOND,
            Self::Demote | Self::Vacate => SECOND,
        }
    }
}

/// Something that happened to a leader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) blow: Blow,
    /// The token of that leader.
    pub(super) token: u64,
    pub(super) from: u64,
    pub(super) until: u64,
}

/// What is known of a run.
#[derive(Debug)]
pub(super) struct Record {
    setup: SetUp,
    seed: u64,
    clients: u32,
    pub(super) trials: Vec<Trial>,
    /// When processes were killed, and others started.
    pub(super) gone: Times,
    pub(super) since: Times,
    /// When those that were killed had ended.
    pub(super) killed: Times,
    pub(super) stopped: Vec<Stopped>,
    /// Leaders that were stopped and led on, as they must on files.
    pub(super) led_on: usize,
    /// When something happened to a process.
    pub(super) disturbed: Vec<(u32, u64, u64)>,
    /// Until when no candidate campaigned, by the token of the leader that had resigned.
    pub(super) vacant: Vec<(u64, u64)>,
    pub(super) ended: u64,
    pub(super) wrong: Vec<String>,
    forced: Vec<Ran>,
}

/// A time without a leader.
#[derive(Clone, Copy, Debug)]
struct Gap {
    blow: Blow,
    time: u64,
}

/// What was seen.
#[derive(Debug)]
pub(super) struct Seen {
    setup: SetUp,
    seed: u64,
    clients: u32,
    times: usize,
    led_on: usize,
    verdict: Verdict,
    gaps: Vec<Gap>,
    /// Leaders, and times without one, that observers had to see; those that they did not see, in words.
    observed: u64,
    nobody: u64,
    missed: Vec<String>,
}

impl Record {
    pub(super) fn new(setup: SetUp, seed: u64, clients: u32) -> Self {
        Self {
            setup,
            seed,
            clients,
            trials: Vec::new(),
            gone: Times::new(),
            since: Times::new(),
            killed: Times::new(),
            stopped: Vec::new(),
            led_on: 0,
            disturbed: Vec::new(),
            vacant: Vec::new(),
            ended: 0,
            wrong: Vec::new(),
            forced: Vec::new(),
        }
    }

    /// A lease was ended by force.
    pub(super) fn demoted(&mut self, token: u64, from: u64, until: u64) {
        let call = Call { words: Vec::new(), token: Some(token), exits: vec![0] };
        let (operation, end) = (Operation::ForceRelease, CommandEnd::Exit(0));
        let (stdout, stderr) = Default::default();
        self.forced.push(Ran { operation, call, from, until, end, stdout, stderr });
    }

    pub(super) fn judge(&mut self, files: &Files, started: u32) -> Result<Seen> {
        let (mut evidence, mut observers) = (Evidence::default(), BTreeMap::new());
        (evidence.setup, evidence.fenced) = (self.setup, Vec::new());
        (evidence.stopped, evidence.ran) = (self.stopped.clone(), self.forced.clone());
        evidence.wrong.append(&mut self.wrong);
        for number in 1..=started {
            let text = fs::read_to_string(files.journal(number)).unwrap_or_default();
            let mut story = Story::read(&text, number, self.gone.get(&number).copied());
            story.end_spans(self.killed.get(&number).copied().unwrap_or(u64::MAX));
            evidence.holds.extend(story.holds);
            evidence.losses += story.losses;
            evidence.spans.extend(story.spans.into_values());
            evidence.met.extend(story.met);
            evidence.failed.extend(story.failed);
            let wrong = story.wrong.into_iter().map(|what| format!("candidate {number}: {what}"));
            evidence.wrong.extend(wrong);
            observers.insert(number, story.observed);
        }
        evidence.holds.sort_unstable_by_key(|hold| hold.got);
        let holds = evidence.holds.clone();
        let mut seen = Seen {
            setup: self.setup,
            seed: self.seed,
            clients: self.clients,
            times: self.trials.len() + self.led_on,
            led_on: self.led_on,
            verdict: Verdict::of(evidence),
            gaps: self.gaps(&holds),
            observed: 0,
            nobody: 0,
            missed: Vec::new(),
        };
        for (number, observed) in &observers {
            self.look_at_observer(*number, observed, &holds, &mut seen);
        }
        Ok(seen)
    }

    fn gaps(&self, holds: &[Hold]) -> Vec<Gap> {
        let gap = |trial: &Trial| {
            let next = holds.iter().find(|hold| hold.token > trial.token)?;
            let time = next.got.saturating_sub(trial.from);
            Some(Gap { blow: trial.blow, time })
        };
        self.trials.iter().filter_map(gap).collect()
    }

    /// Each leader that led for some time, and each time without a candidate, must have been observed.
    fn look_at_observer(&self, number: u32, all: &[(u64, u64)], holds: &[Hold], seen: &mut Seen) {
        // A process has connected so long after its start, and again after something has happened to it.
        let slack = SECOND + OBSERVE.as_nanos() as u64;
        let since = self.since.get(&number).copied().unwrap_or_default() + 3 * slack;
        let until = self.gone.get(&number).copied().unwrap_or(self.ended);
        let is_undisturbed = |from: u64, to: u64| {
            let meets = |(client, begun, ended): &(u32, u64, u64)| {
                *client == number && *begun < to && ended + 3 * slack > from
            };
            from > since && to < until && !self.disturbed.iter().any(meets)
        };
        let is_first = |hold: &Hold| holds.first().is_some_and(|first| first.got == hold.got);
        for hold in holds.iter().filter(|hold| hold.until > hold.got + slack && !is_first(hold)) {
            if is_undisturbed(hold.got, hold.until) {
                seen.observed += 1;
                let saw =
                    |(at, token): &(u64, u64)| *token == hold.token && *at < hold.until + slack;
                if !all.iter().any(saw) {
                    let start = holds.first().map_or(0, |hold| hold.got);
                    let told = hold.told(start);
                    seen.missed.push(format!("observer {number} has not seen a leader: {told}"));
                }
            }
        }
        for (token, to) in &self.vacant {
            // A leader that did not run resigned late: the time without one was shorter.
            let from = holds.iter().find(|hold| hold.token == *token).map(|hold| hold.until);
            let Some(from) = from.filter(|from| from + slack < *to) else { continue };
            if !is_undisturbed(from, *to) {
                continue;
            }
            seen.nobody += 1;
            // What was seen last before the end.
            let last = all.iter().rfind(|(at, _)| *at < to + slack && *at >= from);
            let had_none =
                all.iter().any(|(at, token)| *token == 0 && from < *at && *at < to + slack);
            // A leader that led for less time than an observer takes to ask was not seen: there was none before it.
            let before = all.iter().rfind(|(at, _)| *at < from);
            if !had_none && before.is_none_or(|(_, token)| *token != 0) {
                let ms = (to - from) / MS;
                let what =
                    format!("nobody campaigned for {ms} ms, and the last change is {last:?}");
                seen.missed.push(format!("observer {number}: {what}"));
            }
        }
    }
}

impl Seen {
    /// The promises that were not kept, in words.
    pub(super) fn broken(&self) -> Vec<String> {
        let missed = self.missed.iter().take(5).cloned();
        let count =
            (!self.missed.is_empty()).then(|| format!("not observed: {}", self.missed.len()));
        self.verdict.broken().into_iter().chain(count).chain(missed).collect()
    }

    /// A JSON object a line.
    pub(super) fn gaps(&self) -> String {
        let line = |gap: &Gap| {
            let (engine, blow) = (self.setup.name(), gap.blow.name());
            let (ms, bound) = (gap.time / MS, gap.blow.bound(self.setup) / MS);
            format!(
                "{}\n",
                json!({ "engine": engine, "leader": blow, "ms": ms, "bound_ms": bound })
            )
        };
        self.gaps.iter().map(line).collect()
    }

    /// Prints a report, or a row.
    pub(super) fn show(&self, row: bool) {
        let mut cells = vec![
            format!("`{}`", self.setup),
            self.seed.to_string(),
            self.times.to_string(),
            self.verdict.acquisitions.to_string(),
            format!("{} / {}", self.verdict.against(), self.verdict.forced),
            format!("{} / {}", self.verdict.twice, self.verdict.inversions),
            format!("{} / {}", self.verdict.gates.entered, self.verdict.gates.met),
            format!("{} / {} / {}", self.observed, self.nobody, self.missed.len()),
        ];
        for blow in [Blow::Kill, Blow::Stop, Blow::Cut, Blow::Demote, Blow::Vacate] {
            let mut times: Vec<u64> =
                self.gaps.iter().filter(|gap| gap.blow == blow).map(|gap| gap.time / MS).collect();
            times.sort_unstable();
            let bound = blow.bound(self.setup) / MS;
            let over = times.iter().filter(|time| **time > bound).count();
            let half = times.get(times.len() / 2).copied();
            let cell = match (half, times.last()) {
                (Some(half), Some(last)) => {
                    format!("{}: {half} / {last} / {bound} / {over}", times.len())
                }
                _ if blow == Blow::Stop && self.led_on > 0 => format!("{}: it led on", self.led_on),
                _ => "–".to_owned(),
            };
            if !row {
                println!("{:<8} {cell}", blow.name());
            }
            cells.push(cell);
        }
        println!("| {} |", cells.join(" | "));
        for one in self.broken() {
            eprintln!("chaos: {one}");
        }
        let is_kept = self.broken().is_empty();
        let end = if is_kept { "every promise was kept" } else { "A PROMISE WAS BROKEN" };
        eprintln!("chaos: {} clients, seed {}: {end}", self.clients, self.seed);
    }
}

/// The first lines of the table.
pub(crate) const HEADER: &str = "\
| set-up | seed | times | terms | overlaps: against the promise / after a forced release | tokens: twice / fallen | \
file locks: taken / another leader met | observed: leaders / times without one / missed | \
killed: times: half / longest / bound / over it (ms) | stopped | cut off | demoted | vacant |
|---|---|---|---|---|---|---|---|---|---|---|---|---|";
