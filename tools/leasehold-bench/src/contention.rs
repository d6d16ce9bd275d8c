//! `contention`: many processes with many tasks want one lock; how often it changes hands, what
//! that costs, how long one waits, and whether all get their share.

mod contender;
#[cfg(test)]
#[cfg(feature = "servers")]
mod contender_tests;
mod judge;
mod leasehold;
mod picture;
mod report;
mod run;
mod shape;
#[cfg(feature = "servers")]
mod statistics;
mod subject;

use std::time::Duration;

use crate::common::{Common, in_ms, short_time};
use crate::in_turn::in_turn;
use crate::measure::median;
use crate::metric::Metric;
#[cfg(feature = "servers")]
use crate::peers::Built;
use crate::row::{Row, Setup};
use crate::runtime::Flavour;
use crate::store::Store;
use crate::{Result, output};

#[cfg(feature = "servers")]
pub(crate) use contender::orders;
pub(crate) use leasehold::{ProcessArgs, process};
use report::Outcome;
use shape::{Shape, shape};
use subject::Subject;

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

/// How long everything takes before it counts, and how long it counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
}

/// One line of the table.
#[derive(Clone, Debug)]
struct Case {
    store: Store,
    shape: Shape,
    hold: Duration,
    runtime: Flavour,
    subject: Subject,
}

/// Measures and reports.
pub(crate) fn run(
    args: &ContentionArgs,
    beside: &Beside<'_>,
    mut notes: Vec<String>,
) -> Result<()> {
    output::check(&args.common)?;
    let seconds = args.seconds.unwrap_or(if args.common.quick { 1 } else { 3 });
    // Virtual machines need some time to get going.
    let warm_up = Duration::from_millis(if args.common.quick { 500 } else { 2000 });
    let times = Times { warm_up, window: Duration::from_secs(seconds) };
    let (rows, said) = measure(args, beside, times)?;
    notes.extend(said);
    notes.extend(picture::ratios(&rows));
    output::write(&args.common, &rows, &notes, &picture::picture(&rows))
}

/// All figures, and what is to be said beside them.
pub(crate) fn measure(
    args: &ContentionArgs,
    beside: &Beside<'_>,
    times: Times,
) -> Result<(Vec<Row>, Vec<String>)> {
    let (cases, mut notes) = plan(args, beside);
    if cases.is_empty() {
        return Err(notes.join("\n").into());
    }
    let outcomes = in_turn(&cases, args.common.rounds, Case::told, |case| {
        run::once(case, beside.again, times)
    })?;
    notes.push(report::verdict(
        cases.iter().zip(&outcomes).map(|(case, outcomes)| (case.subject.name(), &outcomes[..])),
    ));
    let rows = cases.iter().zip(&outcomes).flat_map(|(case, outcomes)| case.rows(outcomes));
    Ok((rows.collect(), notes))
}

fn plan(args: &ContentionArgs, beside: &Beside<'_>) -> (Vec<Case>, Vec<String>) {
    let (mut cases, mut notes) = (Vec::new(), Vec::new());
    for store in &beside.stores {
        for shape in &args.shapes {
            if store.backend() == "memory" && shape.processes > 1 {
                notes.push(format!("memory: no {shape}, each process has a memory of its own"));
                continue;
            }
            for hold in &args.hold {
                for (subject, runtime) in subjects(beside, store, args.common.flavours()) {
                    let (store, shape, hold) = (store.clone(), *shape, *hold);
                    cases.push(Case { store, shape, hold, runtime, subject });
                }
            }
        }
    }
    (cases, notes)
}

fn subjects(beside: &Beside<'_>, store: &Store, asked: &[Flavour]) -> Vec<(Subject, Flavour)> {
    let mut all = Vec::new();
    all.extend(asked.iter().map(|runtime| (Subject::Leasehold, *runtime)));
    #[cfg(feature = "servers")]
    if *store == Store::Redis {
        for peer in &beside.peers {
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
            ..Setup::new("contention", self.store.backend(), self.runtime)
        };
        let setup = setup.with("hold_ms", in_ms(self.hold));
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

    fn told(&self) -> String {
        let (subject, runtime) = (self.subject.name(), self.runtime.name());
        let (backend, hold) = (self.store.backend(), in_ms(self.hold));
        format!("{backend} {runtime}, {}, hold {hold} ms: {subject}", self.shape)
    }
}
