//! `engines`: every engine beside the simplest correct protocol by its plain client, in the same run:
//! uncontended pairs, and hand-offs of one lock between two clients.

mod load;
mod ours;
mod picture;
mod raw;

use std::time::Duration;

use crate::common::{Common, count};
use crate::in_turn::in_turn_as_far_as;
use crate::measure::median;
use crate::metric::{
    CLIENT_US_PER_PAIR, HANDOFFS_ALL, Metric, PAIRS_PER_S, ROUND_TRIP_US, SERVER_US_PER_PAIR,
};
use crate::pairs::Times;
use crate::row::{Row, Setup};
use crate::runtime::Flavour;
use crate::store::Store;
use crate::{Result, output};
use load::Figures;

/// `engines [OPTIONS]`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct EnginesArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Numbers of tasks: of pairs each with a lock of its own; of hand-offs on each of two clients,
    /// all for one lock
    #[arg(long, value_name = "N,..", default_value = "1,64", value_delimiter = ',', value_parser = count)]
    pub(crate) tasks: Vec<usize>,
}

/// Who takes and gives back.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Subject {
    Leasehold,
    Raw,
    /// The least that a hand-off by push takes: no lock, on some engines.
    Push,
    /// The least that a fair lock with push takes, on some engines.
    Queue,
}

/// What is measured in one go, on a store of its own.
#[derive(Clone, Debug)]
struct Case {
    store: Store,
    runtime: Flavour,
    tasks: usize,
    subject: Subject,
}

/// Measures and reports.
pub(crate) fn run(args: &EnginesArgs, stores: &[Store]) -> Result<()> {
    output::check(&args.common)?;
    let times = match args.common.quick {
        true => Times { warm_up: Duration::from_millis(100), window: Duration::from_millis(500) },
        false => Times { warm_up: Duration::from_millis(300), window: Duration::from_secs(2) },
    };
    let (rows, mut notes) = measure(args, stores, times)?;
    notes.extend(picture::notes(&rows));
    output::write(&args.common, &rows, &notes, &picture::picture(&rows))
}

/// All figures, and what is to be said beside them.
pub(crate) fn measure(
    args: &EnginesArgs,
    stores: &[Store],
    times: Times,
) -> Result<(Vec<Row>, Vec<String>)> {
    let cases = plan(args, stores);
    let rounds = args.common.rounds;
    // One engine that is not installed is no reason to say nothing of the rest.
    let (samples, failed) =
        in_turn_as_far_as(&cases, rounds, Case::told, |_| false, |case| case.sample(times))?;
    let rows = cases.iter().zip(&samples).flat_map(|(case, samples)| case.rows(samples));
    Ok((rows.collect(), failed))
}

fn plan(args: &EnginesArgs, stores: &[Store]) -> Vec<Case> {
    let mut cases = Vec::new();
    for store in stores {
        for &runtime in args.common.flavours() {
            for &tasks in &args.tasks {
                for subject in [Subject::Leasehold, Subject::Raw, Subject::Push, Subject::Queue] {
                    let is_there = match subject {
                        Subject::Leasehold => true,
                        Subject::Raw => raw::is_there(store),
                        Subject::Push => raw::passes_turns(store) && tasks == 1,
                        Subject::Queue => raw::is_fair(store) && tasks == 1,
                    };
                    if is_there {
                        cases.push(Case { store: store.clone(), runtime, tasks, subject });
                    }
                }
            }
        }
    }
    cases
}

impl Case {
    fn sample(&self, times: Times) -> Result<Figures> {
        let (place, store, tasks) = (self.store.place()?, self.store.clone(), self.tasks);
        match self.subject {
            Subject::Leasehold => self
                .runtime
                .run(async move { load::figures::<ours::Ours>(&place, tasks, times).await }),
            Subject::Push => {
                self.runtime.run(async move { raw::turns(&store, &place, times).await })
            }
            Subject::Queue => {
                self.runtime.run(async move { raw::fair(&place, tasks, times).await })
            }
            Subject::Raw => {
                self.runtime.run(async move { raw::figures(&store, &place, tasks, times).await })
            }
        }
    }

    fn rows(&self, samples: &[Figures]) -> Vec<Row> {
        let mut setup = Setup {
            subject: self.subject.name(),
            tasks: self.tasks,
            ..Setup::new("engines", self.store.backend(), self.runtime)
        };
        if let Store::Redlock(nodes) = self.store {
            setup = setup.with("nodes", nodes);
        }
        let of = |metric: Metric, figure: fn(&Figures) -> Option<f64>| {
            let values: Vec<f64> = samples.iter().filter_map(figure).collect();
            (!values.is_empty()).then(|| setup.row(metric, median(&values)))
        };
        let rows = [
            of(PAIRS_PER_S, |figures| Some(figures.pairs?.per_s)),
            of(CLIENT_US_PER_PAIR, |figures| Some(figures.pairs?.client_us)),
            of(SERVER_US_PER_PAIR, |figures| figures.pairs?.server_us),
            of(HANDOFFS_ALL, |figures| Some(figures.handoffs_per_s)),
            of(ROUND_TRIP_US, |figures| figures.round_trip_us),
        ];
        rows.into_iter().flatten().collect()
    }

    fn told(&self) -> String {
        let (subject, runtime) = (self.subject.name(), self.runtime.name());
        format!("{} {runtime}, {} tasks: {subject}", self.store, self.tasks)
    }
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Self::Leasehold => "leasehold",
            Self::Raw => "raw",
            Self::Push => picture::PUSH,
            Self::Queue => picture::QUEUE,
        }
    }
}
