//! `pairs`: how many uncontended pairs of acquire and release there are in a second, and what one
//! costs, beside the limit of the engine.

mod load;
mod picture;
mod workers;

use std::time::Duration;

use crate::args::{Common, count};
use crate::measure::median;
use crate::metric::{CLIENT_US_PER_PAIR, PAIRS_PER_S};
use crate::progress::Progress;
use crate::row::{Row, Setup};
use crate::runtime::Flavour;
use crate::store::Store;
use crate::{Result, output};

use load::Sample;
pub(crate) use load::Times;

/// `pairs [OPTIONS]`
#[derive(Clone, Debug, clap::Args)]
#[command(long_about = "Each task acquires and releases a lock of its own, again and again. \
    `raw` is the limit: for memory, a name put into a tokio Mutex<HashMap> and taken out again; \
    for files, open, flock and close; for Redis, SET NX PX and a script that compares and \
    deletes, over one multiplexed connection, without any token.")]
pub(crate) struct PairsArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Numbers of tasks, each with a lock of its own
    #[arg(long, value_name = "N,..", default_value = "1,64,1024", value_delimiter = ',', value_parser = count)]
    pub(crate) tasks: Vec<usize>,
}

/// Who takes and gives back.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Subject {
    Leasehold,
    Raw,
}

/// One line of the table.
#[derive(Clone, Debug)]
struct Case {
    store: Store,
    runtime: Flavour,
    tasks: usize,
    subject: Subject,
}

/// Measures and reports.
pub(crate) fn run(args: &PairsArgs) -> Result<()> {
    output::check(&args.common)?;
    let times = match args.common.quick {
        true => Times { warm_up: Duration::from_millis(50), window: Duration::from_millis(250) },
        false => Times { warm_up: Duration::from_millis(200), window: Duration::from_secs(1) },
    };
    let rows = measure(args, times)?;
    output::write(&args.common, &rows, &[], &picture::picture(&rows))
}

/// All figures.
pub(crate) fn measure(args: &PairsArgs, times: Times) -> Result<Vec<Row>> {
    let cases = plan(args);
    let progress = Progress::of(cases.len() * args.common.rounds as usize);
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); cases.len()];
    // In turn, so that a disturbance of the machine does not hit one side alone.
    for _ in 0..args.common.rounds {
        for (case, samples) in cases.iter().zip(&mut samples) {
            progress.begin(case.told());
            samples.push(case.sample(times)?);
            progress.done();
        }
    }
    Ok(cases.iter().zip(&samples).flat_map(|(case, samples)| case.rows(samples)).collect())
}

fn plan(args: &PairsArgs) -> Vec<Case> {
    let mut cases = Vec::new();
    for store in args.common.stores(&[Store::Memory, Store::File]) {
        for runtime in args.common.flavours() {
            for tasks in &args.tasks {
                for subject in [Subject::Leasehold, Subject::Raw] {
                    let (store, runtime, tasks) = (store.clone(), *runtime, *tasks);
                    // What the limit of a server is, only its own client knows.
                    if subject == Subject::Leasehold || !matches!(store, Store::Url(_)) {
                        cases.push(Case { store, runtime, tasks, subject });
                    }
                }
            }
        }
    }
    cases
}

impl Case {
    fn sample(&self, times: Times) -> Result<Sample> {
        let (store, tasks) = (self.store.clone(), self.tasks);
        match (self.subject, &self.store) {
            (Subject::Leasehold, _) => self.runtime.run(workers::leasehold(store, tasks, times)),
            (Subject::Raw, Store::File) => self.runtime.run(workers::raw_file(tasks, times)),
            (Subject::Raw, Store::Redis) => self.runtime.run(workers::raw_redis(tasks, times)),
            (Subject::Raw, _) => self.runtime.run(workers::raw_memory(tasks, times)),
        }
    }

    fn rows(&self, samples: &[Sample]) -> [Row; 2] {
        let setup = Setup {
            subject: self.subject.name(),
            tasks: self.tasks,
            ..Setup::new("pairs", self.store.backend(), self.runtime)
        };
        let of =
            |figure: fn(&Sample) -> f64| median(&samples.iter().map(figure).collect::<Vec<f64>>());
        [
            setup.row(PAIRS_PER_S, of(|sample| sample.per_s)),
            setup.row(CLIENT_US_PER_PAIR, of(|sample| sample.cpu_us)),
        ]
    }

    fn told(&self) -> String {
        let (subject, runtime) = (self.subject.name(), self.runtime.name());
        format!("{} {runtime}, {} tasks: {subject}", self.store.backend(), self.tasks)
    }
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Self::Leasehold => "leasehold",
            Self::Raw => "raw",
        }
    }
}
