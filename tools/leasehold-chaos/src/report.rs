//! What is printed: the seed first and last, and a table of figures between, one JSON object, or a row of a table.

mod row;

use clap::ValueEnum as _;
use serde_json::{Value, json};

use crate::check::{Tally, Updates, Verdict};
use crate::fault::{Fault, Injected};
use crate::operator::Operation;
use crate::run::Order;
use crate::{MS, SECOND};

pub(crate) use self::row::header;

/// The report of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report<'a> {
    order: &'a Order,
    json: bool,
    row: bool,
}

impl<'a> Report<'a> {
    /// Says what is going to happen.
    pub(crate) fn begins(order: &'a Order, json: bool, row: bool) -> Self {
        let report = Self { order, json, row };
        report.say(&format!(
            "chaos: seed {}; {}; {}, {} s, {} clients with {} tasks each, ttl {} s",
            order.seed,
            order.workload,
            order.setup.servers(),
            order.time.as_secs(),
            order.clients,
            order.tasks,
            crate::TTL.as_secs(),
        ));
        report
    }

    /// Says what has happened.
    pub(crate) fn ends(&self, injected: &[Injected], verdict: &Verdict) {
        if self.json {
            println!("{}", self.object(injected, verdict));
        } else if self.row {
            println!("{}", row::of(self.order, injected, verdict));
        } else {
            let faults = self.faults(injected, verdict);
            print!("\n{faults}\n{}{}\n", self.commands(verdict), figures(verdict));
        }
        for (what, many) in &verdict.failed {
            self.say(&format!("chaos: failed {many} times: {what}"));
        }
        let broken = verdict.broken();
        for one in &broken {
            self.say(&format!("chaos: {one}"));
        }
        let end = if broken.is_empty() { "every promise was kept" } else { "A PROMISE WAS BROKEN" };
        self.say(&format!("chaos: seed {}: {end}", self.order.seed));
    }

    /// Beside the JSON or the row, which is alone on standard output.
    fn say(&self, line: &str) {
        match self.json || self.row {
            true => eprintln!("{line}"),
            false => println!("{line}"),
        }
    }

    fn faults(&self, injected: &[Injected], verdict: &Verdict) -> String {
        let mut table = format!(
            "{:<13}{:<46}{:>9}{:>11}{:>10}\n",
            "fault", "what happens", "injected", "exclusion", "overlaps"
        );
        for kind in &self.order.kinds {
            let count = injected.iter().filter(|one| one.fault == *kind).count();
            let keeps = self.order.setup.keeps_exclusion(*kind);
            let promised = if keeps { "promised" } else { "not" };
            let overlaps = match keeps {
                true => "–".to_owned(),
                false => verdict.overlaps.get(&Some(*kind)).unwrap_or(&0).to_string(),
            };
            let (name, about) = (kind.name(), kind.about());
            table.push_str(&format!(
                "{name:<13}{about:<46}{count:>9}{promised:>11}{overlaps:>10}\n"
            ));
        }
        table.push_str(&format!(
            "{:<79}{:>10}\n",
            "where exclusion is promised",
            verdict.against()
        ));
        table
    }

    /// What became of the operator's commands; nothing where there is no operator.
    fn commands(&self, verdict: &Verdict) -> String {
        let kinds = Operation::value_variants().iter();
        let mut kinds = kinds.filter(|kind| self.order.operations.contains(kind)).peekable();
        if kinds.peek().is_none() {
            return String::new();
        }
        let mut table = format!(
            "{:<14}{:>6}{:>7}{:>9}{:>13}{:>8}{:>10}\n",
            "command", "run", "done", "refused", "unavailable", "killed", "longest"
        );
        for kind in kinds {
            let Tally { run, done, refused, unavailable, killed, longest } =
                verdict.commands.get(kind).copied().unwrap_or_default();
            let longest = longest as f64 / SECOND as f64;
            table.push_str(&format!(
                "{kind:<14}{run:>6}{done:>7}{refused:>9}{unavailable:>13}{killed:>8}{longest:>8.1} s\n"
            ));
        }
        table + "\n"
    }

    fn object(&self, injected: &[Injected], verdict: &Verdict) -> Value {
        let order = self.order;
        let count = |kind: Fault| injected.iter().filter(|one| one.fault == kind).count();
        let kinds = order.kinds.iter().map(|kind| (kind.name(), count(*kind).into()));
        let allowed = verdict.overlaps.iter();
        let allowed = allowed.filter_map(|(kind, many)| Some(((*kind)?.name(), (*many).into())));
        let updates = |of: &Updates| json!({ "taken": of.taken, "refused": of.refused, "stale": of.stale, "lost": of.lost });
        json!({
            "seed": order.seed,
            "engine": order.setup.name(),
            "seconds": order.time.as_secs(),
            "clients": order.clients,
            "tasks": order.tasks,
            "acquisitions": verdict.acquisitions,
            "failed_acquires": verdict.failed.values().sum::<u64>(),
            "abandoned": verdict.abandoned,
            "faults": kinds.collect::<serde_json::Map<_, _>>(),
            "operators": verdict.commands.iter().map(tally).collect::<serde_json::Map<_, _>>(),
            "overlaps": verdict.against(),
            "overlaps_forced": verdict.forced,
            "overlaps_allowed": allowed.collect::<serde_json::Map<_, _>>(),
            "losses": { "before": verdict.losses.before, "after": verdict.losses.after },
            "waiters": {
                "compared": verdict.order.pairs,
                "overtaken": verdict.order.overtaken,
                "compared_in_calm": verdict.order.judged,
                "overtaken_in_calm": verdict.overtaken,
            },
            "switches": verdict.switches,
            "tokens_twice": verdict.twice,
            "token_inversions": verdict.inversions,
            "workload": order.workload.name(),
            "reads": verdict.phases.reads,
            "writes": verdict.phases.writes,
            "waits_judged": verdict.phases.judged,
            "waits_of_queued_writers_judged": verdict.turns.judged,
            "longest_wait_of_a_writer_ms": verdict.phases.longest / MS,
            "longest_wait_of_a_writer_in_calm_ms": verdict.phases.longest_in_calm / MS,
            "file_locks": { "taken": verdict.gates.entered, "met": verdict.gates.met },
            "cached": {
                "leases": verdict.cached.leases,
                "takes": verdict.cached.takes,
                "waits": verdict.cached.waits.len(),
                "half_of_them_us": verdict.cached.half() / (MS / 1000),
                "longest_us": verdict.cached.longest() / (MS / 1000),
            },
            "fenced": updates(&verdict.fenced),
            "unfenced": updates(&verdict.unfenced),
            "worst_gap_ms": gap(verdict) / (SECOND / 1000),
            "cleaned_up": verdict.cleaned_up,
            "connections_in_busiest_second": verdict.connections,
            "left": verdict.left,
            "kept": verdict.kept,
            "slow": verdict.slow,
            "broken": verdict.broken(),
        })
    }
}

fn tally((kind, tally): (&Operation, &Tally)) -> (String, Value) {
    let Tally { run, done, refused, unavailable, killed, longest } = *tally;
    let object = json!({
        "run": run, "done": done, "refused": refused, "unavailable": unavailable, "killed": killed,
        "longest_ms": longest / (SECOND / 1000),
    });
    (kind.name(), object)
}

fn gap(verdict: &Verdict) -> u64 {
    verdict.gap.until - verdict.gap.from
}

fn figures(verdict: &Verdict) -> String {
    let Verdict { fenced, unfenced, gates, phases, cached, .. } = verdict;
    let seconds = |time: u64| format!("{:.2} s", time as f64 / SECOND as f64);
    let during: Vec<String> = verdict.gap.faults.iter().map(|fault| fault.name()).collect();
    let during = match during.is_empty() {
        true => String::new(),
        false => format!("  ({})", during.join(", ")),
    };
    let rows = [
        ("acquisitions", verdict.acquisitions.to_string()),
        ("acquires that failed", verdict.failed.values().sum::<u64>().to_string()),
        ("overlaps where exclusion is promised", verdict.against().to_string()),
        ("overlaps after a forced release", verdict.forced.to_string()),
        ("losses reported before the deadline", verdict.losses.before.to_string()),
        ("  after it, by a stopped process", verdict.losses.after.to_string()),
        ("waiters compared with those behind", verdict.order.pairs.to_string()),
        ("  overtaken", verdict.order.overtaken.to_string()),
        ("  compared with no fault near", verdict.order.judged.to_string()),
        ("  overtaken with no fault near", verdict.overtaken.to_string()),
        ("file locks of the judge taken", gates.entered.to_string()),
        ("  with another holder there", gates.met.to_string()),
        ("reads", phases.reads.to_string()),
        ("writes", phases.writes.to_string()),
        ("longest wait of a writer", seconds(phases.longest)),
        ("  with no fault near", seconds(phases.longest_in_calm)),
        ("  writers before it", phases.before.0.to_string()),
        ("  phases of readers before it", phases.before.1.to_string()),
        ("  longest turn with no fault near", seconds(phases.turn_in_calm)),
        ("waits judged", phases.judged.to_string()),
        ("waits of queued writers judged", verdict.turns.judged.to_string()),
        ("takes of a cached lease", cached.takes.to_string()),
        ("  of leases in all", cached.leases.to_string()),
        ("waits for a lock that no task holds", cached.waits.len().to_string()),
        ("  half of them", seconds(cached.half())),
        ("  longest", seconds(cached.longest())),
        ("switches of the master", verdict.switches.to_string()),
        ("tokens used twice", verdict.twice.to_string()),
        ("tokens that did not grow", verdict.inversions.to_string()),
        ("updates: with a fence", fenced.taken.to_string()),
        ("  stale ones refused", fenced.refused.to_string()),
        ("  stale ones taken", fenced.stale.to_string()),
        ("  lost", fenced.lost.to_string()),
        ("updates: without a fence", unfenced.taken.to_string()),
        ("  stale ones taken", unfenced.stale.to_string()),
        ("  lost", unfenced.lost.to_string()),
        (
            "longest time without progress",
            format!("{:.1} s{during}", gap(verdict) as f64 / SECOND as f64),
        ),
        ("idle records removed by an operator", verdict.cleaned_up.to_string()),
        ("connections in the busiest second", verdict.connections.to_string()),
        ("left behind", verdict.left.len().to_string()),
    ];
    let abandoned = verdict.abandoned.iter().map(|(what, many)| (what.as_str(), many.to_string()));
    let row = |(name, figure): (&str, String)| format!("{name:<38}{figure:>10}\n");
    let kept = verdict.kept.iter().map(|what| format!("kept on purpose: {what}\n"));
    let slow = verdict.slow.iter().map(|what| format!("slow: {what}\n"));
    rows.into_iter().chain(abandoned).map(row).chain(kept).chain(slow).collect()
}
