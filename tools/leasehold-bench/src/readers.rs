//! `readers`: many tasks read, and some write, under one read-write lock; and how often tasks read beside
//! another task of their process.

mod joins;
mod picture;
mod reader;
mod record;
mod report;

use std::time::Duration;

use crate::common::{Common, count, in_ms, short_time};
use crate::contention::{Beside, Door, Shape, Subject, shape, subjects};
use crate::in_turn::in_turn_as_far_as;
use crate::measure::median;
use crate::metric::{CLIENT_US_PER_JOIN, JOINS_PER_S, Metric};
use crate::processes::{Contenders, Times, compete};
use crate::row::{Row, Setup};
use crate::runtime::Flavour;
use crate::store::Store;
use crate::{Result, output};

use joins::Under;
pub(crate) use reader::{ReaderArgs, process};
use report::{Outcome, Report};

/// `readers [OPTIONS]`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReadersArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Processes, and tasks in each: all read or write under one lock
    #[arg(long, value_name = "PxT,..", default_value = "8x8", value_delimiter = ',', value_parser = shape)]
    pub(crate) shapes: Vec<Shape>,
    /// Of a hundred turns of a task, those that read; drawn at random
    #[arg(long, value_name = "N,..", default_value = "50,90,99", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) reads: Vec<u32>,
    /// How long each holds it
    #[arg(long, value_name = "TIME,..", default_value = "0", value_delimiter = ',', value_parser = short_time)]
    pub(crate) hold: Vec<Duration>,
    /// Numbers of tasks that read beside another task of their process, or under a cached lease
    #[arg(long, value_name = "N,..", default_value = "1,64", value_delimiter = ',', value_parser = count)]
    pub(crate) joins: Vec<usize>,
    /// How long is measured, each time [default: 3, with --quick 1]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: Option<u64>,
}

/// One line of the table.
#[derive(Clone, Debug)]
struct Case {
    store: Store,
    runtime: Flavour,
    work: Work,
}

#[derive(Clone, Debug)]
enum Work {
    /// Reads and writes of several processes.
    Mixed { subject: Subject, shape: Shape, reads: u32, hold: Duration },
    /// Reads without a command, by so many tasks.
    Joins(usize, Under),
}

#[derive(Clone, Debug)]
enum Sample {
    Mixed(Box<Outcome>),
    Joins(joins::Joins),
}

/// Measures and reports.
pub(crate) fn run(args: &ReadersArgs, beside: &Beside<'_>, mut notes: Vec<String>) -> Result<()> {
    output::check(&args.common)?;
    let times = Times::of(args.seconds, args.common.quick);
    let cases = plan(args, beside);
    let must = |case: &Case| matches!(case.store, Store::Redis);
    let (samples, failed) =
        in_turn_as_far_as(&cases, args.common.rounds, Case::told, must, |case| {
            case.sample(beside, times)
        })?;
    notes.extend(failed);
    if samples.iter().all(Vec::is_empty) {
        return Err(notes.join("\n").into());
    }
    notes.push(verdicts(&cases, &samples));
    let rows = cases.iter().zip(&samples).flat_map(|(case, samples)| case.rows(samples));
    let rows: Vec<Row> = rows.collect();
    notes.extend(picture::ratios(&rows));
    output::write(&args.common, &rows, &notes, &picture::picture(&rows))
}

fn plan(args: &ReadersArgs, beside: &Beside<'_>) -> Vec<Case> {
    let mut cases = Vec::new();
    for store in &beside.stores {
        // Each process has a memory of its own.
        let shapes = args.shapes.iter().filter(|one| *store != Store::Memory || one.processes == 1);
        for shape in shapes {
            for (reads, hold) in
                args.reads.iter().flat_map(|reads| args.hold.iter().map(move |hold| (reads, hold)))
            {
                for (subject, runtime) in subjects(beside, store, args.common.flavours()) {
                    let work = Work::Mixed { subject, shape: *shape, reads: *reads, hold: *hold };
                    cases.push(Case { store: store.clone(), runtime, work });
                }
            }
        }
        let caches = matches!(store, Store::Memory | Store::Redis);
        let unders = if caches { &[Under::Reader, Under::Cached][..] } else { &[Under::Reader] };
        for (tasks, under) in
            args.joins.iter().flat_map(|tasks| unders.iter().map(move |under| (*tasks, *under)))
        {
            let one = |runtime: &Flavour| Case {
                store: store.clone(),
                runtime: *runtime,
                work: Work::Joins(tasks, under),
            };
            cases.extend(args.common.flavours().iter().map(one));
        }
    }
    cases
}

impl Case {
    fn sample(&self, beside: &Beside<'_>, times: Times) -> Result<Sample> {
        match &self.work {
            Work::Joins(tasks, under) => {
                joins::once(&self.store, self.runtime, *tasks, *under, times).map(Sample::Joins)
            }
            Work::Mixed { subject, shape, reads, hold } => {
                let (place, door) = (self.store.place()?, Door::new(record::LENGTH, 1)?);
                let mut processes = Vec::new();
                for process in 1..=shape.processes {
                    let words = [
                        "readers".to_owned(),
                        self.runtime.name().to_owned(),
                        shape.tasks.to_string(),
                        subject.lock().to_owned(),
                        hold.as_micros().to_string(),
                        place.name(1),
                        door.path().display().to_string(),
                        process.to_string(),
                        reads.to_string(),
                    ];
                    processes.push(subject.start("reader", &words, beside.again)?);
                }
                let seen = compete(processes, &place, Contenders::Uncounted, times)?;
                let mut report = Report::default();
                for one in &seen.reports {
                    report.add(&serde_json::from_str(one)?);
                }
                Ok(Sample::Mixed(Box::new(Outcome { report, seen })))
            }
        }
    }

    fn setup(&self) -> Setup {
        let setup = Setup::new("readers", self.store.backend(), self.runtime);
        match &self.work {
            Work::Joins(tasks, under) => {
                let reads = if *under == Under::Cached { "cached" } else { "joins" };
                Setup { tasks: *tasks, ..setup }.with("reads", reads)
            }
            Work::Mixed { subject, shape, reads, hold } => {
                let subject = subject.name();
                let (processes, tasks) = (shape.processes, shape.tasks);
                let setup = Setup { subject, processes, tasks, ..setup }.with("reads", *reads);
                if hold.is_zero() { setup } else { setup.with("hold_ms", in_ms(*hold)) }
            }
        }
    }

    fn rows(&self, samples: &[Sample]) -> Vec<Row> {
        let figures: Vec<Vec<(Metric, f64)>> = samples.iter().map(Sample::figures).collect();
        let mut rows = Vec::new();
        for metric in report::METRICS.iter().chain(&[JOINS_PER_S, CLIENT_US_PER_JOIN]) {
            let of = figures.iter().flatten().filter(|(name, _)| name == metric);
            let values: Vec<f64> = of.map(|(_, value)| *value).collect();
            if !values.is_empty() {
                rows.push(self.setup().row(*metric, median(&values)));
            }
        }
        rows
    }

    fn told(&self) -> String {
        let (runtime, backend) = (self.runtime.name(), self.store.backend());
        match &self.work {
            Work::Joins(tasks, Under::Reader) => {
                format!("{backend} {runtime}, {tasks} tasks that join a reader")
            }
            Work::Joins(tasks, Under::Cached) => {
                format!("{backend} {runtime}, {tasks} tasks that read under a cached lease")
            }
            Work::Mixed { subject, shape, reads, .. } => {
                format!("{backend} {runtime}, {shape}, {reads} % reads: {}", subject.name())
            }
        }
    }
}

impl Sample {
    fn figures(&self) -> Vec<(Metric, f64)> {
        match self {
            Self::Mixed(outcome) => outcome.figures(),
            Self::Joins(joins) => joins.figures(),
        }
    }
}

fn verdicts(cases: &[Case], samples: &[Vec<Sample>]) -> String {
    let mut by_subject: Vec<(&str, Vec<Outcome>)> = Vec::new();
    for (case, samples) in cases.iter().zip(samples) {
        let Work::Mixed { subject, .. } = &case.work else { continue };
        let outcomes = samples.iter().filter_map(|sample| match sample {
            Sample::Mixed(outcome) => Some((**outcome).clone()),
            Sample::Joins(_) => None,
        });
        match by_subject.iter_mut().find(|(name, _)| *name == subject.name()) {
            Some((_, all)) => all.extend(outcomes),
            None => by_subject.push((subject.name(), outcomes.collect())),
        }
    }
    let lines = by_subject.iter().map(|(name, outcomes)| report::verdict(name, outcomes));
    format!("the record, over all runs:\n{}", lines.collect::<Vec<_>>().join("\n"))
}
