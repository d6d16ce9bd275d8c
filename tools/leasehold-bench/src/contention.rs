//! `contention`: many processes with many tasks want one lock; how often it changes hands, what
//! that costs, how long one waits, and whether all get their share. `semaphore` is the same for permits.

mod contender;
#[cfg(test)]
#[cfg(feature = "servers")]
mod contender_tests;
mod door;
#[cfg(feature = "servers")]
mod interop;
mod judge;
mod leasehold;
mod picture;
mod report;
mod run;
#[cfg(feature = "servers")]
mod semaphore;
mod shape;
mod subject;

use std::time::Duration;

use crate::common::{Common, in_ms, short_time};
use crate::in_turn::in_turn_as_far_as;
use crate::measure::median;
use crate::metric::Metric;
#[cfg(feature = "servers")]
use crate::peers::Built;
use crate::processes::{Contenders, Times};
use crate::row::{Row, Setup};
use crate::runtime::Flavour;
use crate::store::Store;
use crate::{Result, output};

#[cfg(feature = "servers")]
pub(crate) use contender::orders;
#[cfg(feature = "servers")]
pub(crate) use door::Door;
#[cfg(feature = "servers")]
pub(crate) use interop::{InteropArgs, run_interop};
pub(crate) use leasehold::{ProcessArgs, process};
use report::Outcome;
#[cfg(feature = "servers")]
pub(crate) use semaphore::{SemaphoreArgs, run_semaphore};
pub(crate) use shape::{Shape, shape};
pub(crate) use subject::Subject;

/// `contention [OPTIONS]`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ContentionArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Processes, and tasks in each: all want one lock
    #[arg(long, value_name = "PxT,..", default_value = "1x64,2x1,8x8,2x10", value_delimiter = ',', value_parser = shape)]
    pub(crate) shapes: Vec<Shape>,
    /// How long each holds it
    #[arg(long, value_name = "TIME,..", default_value = "0,3ms", value_delimiter = ',', value_parser = short_time)]
    pub(crate) hold: Vec<Duration>,
    /// How long is measured, each time [default: 3, with --quick 1]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: Option<u64>,
}

/// Where, and beside whom.
#[derive(Clone, Debug)]
pub(crate) struct Beside<'a> {
    pub(crate) stores: Vec<Store>,
    #[cfg(feature = "servers")]
    pub(crate) peers: Vec<Built>,
    /// How this program is called again, to be one of the processes.
    pub(crate) again: &'a [&'a str],
}

/// One line of the table.
#[derive(Clone, Debug)]
struct Case {
    store: Store,
    shape: Shape,
    hold: Duration,
    runtime: Flavour,
    subject: Subject,
    /// Of a semaphore.
    limit: Option<u32>,
}

/// Measures and reports.
pub(crate) fn run(
    args: &ContentionArgs,
    beside: &Beside<'_>,
    mut notes: Vec<String>,
) -> Result<()> {
    output::check(&args.common)?;
    let times = Times::of(args.seconds, args.common.quick);
    let (rows, said) = measure(args, beside, &[None], times)?;
    notes.extend(said);
    notes.extend(picture::ratios(&rows));
    output::write(&args.common, &rows, &notes, &picture::picture(&rows))
}

/// All figures for each of these limits of a semaphore (`None`: a lock), and what is to be said beside
/// them. A store that has no semaphores is left out.
fn measure(
    args: &ContentionArgs,
    beside: &Beside<'_>,
    limits: &[Option<u32>],
    times: Times,
) -> Result<(Vec<Row>, Vec<String>)> {
    let (cases, mut notes) = plan(args, beside, limits);
    if cases.is_empty() {
        return Err(notes.join("\n").into());
    }
    let must = |case: &Case| case.limit.is_none();
    let (outcomes, failed) =
        in_turn_as_far_as(&cases, args.common.rounds, Case::told, must, |case| {
            run::once(case, beside.again, times)
        })?;
    notes.extend(failed);
    let runs = cases.iter().zip(&outcomes).filter(|(_, outcomes)| !outcomes.is_empty());
    let runs: Vec<_> = runs.map(|(case, outcomes)| (case, &outcomes[..])).collect();
    if runs.is_empty() {
        return Err(notes.join("\n").into());
    }
    let semaphore = cases.iter().any(|case| case.limit.is_some());
    let names = runs.iter().map(|(case, outcomes)| (case.subject.name(), *outcomes));
    notes.push(report::verdict(names, semaphore));
    Ok((runs.iter().flat_map(|(case, outcomes)| case.rows(outcomes)).collect(), notes))
}

fn plan(
    args: &ContentionArgs,
    beside: &Beside<'_>,
    limits: &[Option<u32>],
) -> (Vec<Case>, Vec<String>) {
    let (mut cases, mut notes) = (Vec::new(), Vec::new());
    for store in &beside.stores {
        for shape in &args.shapes {
            if store.backend() == "memory" && shape.processes > 1 {
                notes.push(format!("memory: no {shape}, each process has a memory of its own"));
                continue;
            }
            for (hold, limit) in
                args.hold.iter().flat_map(|hold| limits.iter().map(move |limit| (hold, limit)))
            {
                for (subject, runtime) in subjects(beside, store, args.common.flavours()) {
                    let (store, shape, hold, limit) = (store.clone(), *shape, *hold, *limit);
                    cases.push(Case { store, shape, hold, runtime, subject, limit });
                }
            }
        }
    }
    (cases, notes)
}

/// Who is measured on a store.
pub(crate) fn subjects(
    beside: &Beside<'_>,
    store: &Store,
    asked: &[Flavour],
) -> Vec<(Subject, Flavour)> {
    let mut all = Vec::new();
    all.extend(asked.iter().map(|runtime| (Subject::Leasehold, *runtime)));
    #[cfg(feature = "servers")]
    if matches!(store, Store::Redis | Store::ZooKeeper) {
        for peer in beside.peers.iter().filter(|peer| peer.engine() == store.backend()) {
            let runtimes = peer.runtimes(asked).iter();
            all.extend(runtimes.map(|runtime| (Subject::Peer(peer.clone()), *runtime)));
        }
    }
    #[cfg(not(feature = "servers"))]
    let _ = (beside, store);
    all
}

impl Case {
    fn rows(&self, outcomes: &[Outcome]) -> Vec<Row> {
        let setup = Setup {
            subject: self.subject.name(),
            processes: self.shape.processes,
            tasks: self.shape.tasks,
            ..Setup::new(self.bench(), self.store.backend(), self.runtime)
        };
        let setup = setup.with("hold_ms", in_ms(self.hold));
        let setup = self.limit.map_or(setup.clone(), |limit| setup.with("limit", limit));
        let figures: Vec<Vec<(Metric, f64)>> = outcomes.iter().map(Outcome::figures).collect();
        let mut rows = Vec::new();
        for metric in report::METRICS {
            let of = figures.iter().flatten().filter(|(name, _)| name == metric);
            let values: Vec<f64> = of.map(|(_, value)| *value).collect();
            if !values.is_empty() {
                rows.push(setup.row(*metric, median(&values)));
            }
        }
        rows
    }

    fn bench(&self) -> &'static str {
        if self.limit.is_some() { "semaphore" } else { "contention" }
    }

    /// Who stand before the server.
    fn contenders(&self, name: &str) -> Contenders {
        match &self.subject {
            #[cfg(feature = "servers")]
            _ if self.limit.is_some() => Contenders::Uncounted,
            #[cfg(feature = "servers")]
            Subject::Peer(peer) if peer.asks_once => Contenders::Known(self.shape.processes),
            #[cfg(feature = "servers")]
            Subject::Peer(_) => Contenders::Known(self.shape.processes * self.shape.tasks),
            Subject::Leasehold => Contenders::Queued(format!("leasehold:{{{name}}}:q")),
        }
    }

    fn told(&self) -> String {
        let (subject, runtime) = (self.subject.name(), self.runtime.name());
        let (backend, hold) = (self.store.backend(), in_ms(self.hold));
        let limit = self.limit.map_or_else(String::new, |limit| format!(", limit {limit}"));
        format!("{backend} {runtime}, {}, hold {hold} ms{limit}: {subject}", self.shape)
    }
}
