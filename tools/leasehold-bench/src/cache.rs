//! `cache`: how many hits there are in a second, in the process and in Redis, beside what does nothing
//! but that.

mod picture;
mod readers;

use std::sync::Arc;
use std::time::Duration;

use leasehold_test_servers::{RedisServer, RedisSettings};

use crate::common::{Common, count};
use crate::measure::median;
use crate::metric::{
    CLIENT_US_PER_REQUEST, COMMANDS_PER_HIT, HIT_SHARE, HITS_PER_S, Metric, SERVER_US_PER_REQUEST,
};
use crate::pairs::load::{Sample, Times, drive};
use crate::progress::Progress;
use crate::row::{Row, Setup};
use crate::runtime::Flavour;
use crate::{Result, output};
use readers::{Kind, Plain, Tally};

/// `cache [OPTIONS]`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CacheArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Numbers of tasks
    #[arg(long, value_name = "N,..", default_value = "1,64", value_delimiter = ',', value_parser = count)]
    pub(crate) tasks: Vec<usize>,
    /// Of a hundred requests so many read, the others write
    #[arg(
        long,
        value_name = "N,..",
        default_value = "99,100",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    pub(crate) reads: Vec<u32>,
}

/// Which level answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Level {
    Process,
    Redis,
}

impl Level {
    /// As the table has it.
    fn name(self) -> &'static str {
        match self {
            Self::Process => "L1",
            Self::Redis => "L2",
        }
    }

    /// Ours first.
    fn subjects(self) -> &'static [&'static str] {
        match self {
            Self::Process => &["leasehold", "quick_cache", "moka"],
            Self::Redis => &["leasehold", "raw"],
        }
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
struct Case {
    level: Level,
    subject: &'static str,
    runtime: Flavour,
    tasks: usize,
    reads: u32,
}

/// What was seen of it in a round.
#[derive(Clone, Copy, Debug)]
struct Seen {
    sample: Sample,
    /// Of the reads, those that were answered without a load.
    hit_share: f64,
    /// Commands that the server has counted, where all were reads.
    commands_per_hit: Option<f64>,
}

/// Measures and reports.
pub(crate) fn run(args: &CacheArgs) -> Result<()> {
    output::check(&args.common)?;
    let rows = measure(args)?;
    output::write(&args.common, &rows, &picture::notes(&rows), &picture::picture(&rows))
}

fn measure(args: &CacheArgs) -> Result<Vec<Row>> {
    let window = Duration::from_millis(if args.common.quick { 200 } else { 500 });
    let times = Times { warm_up: window / 5, window };
    let cases = plan(args);
    let progress = Progress::of(cases.len() * args.common.rounds as usize);
    let mut samples = vec![Vec::new(); cases.len()];
    // In turn, so that a disturbance of the machine does not hit one side alone.
    for _ in 0..args.common.rounds {
        for (case, samples) in cases.iter().zip(&mut samples) {
            progress.begin(case.told());
            samples.push(case.sample(times).map_err(|e| format!("{}: {e}", case.told()))?);
            progress.done();
        }
    }
    Ok(cases.iter().zip(&samples).flat_map(|(case, samples)| case.rows(samples)).collect())
}

fn plan(args: &CacheArgs) -> Vec<Case> {
    let mut cases = Vec::new();
    for level in [Level::Process, Level::Redis] {
        for runtime in args.common.flavours().iter().copied() {
            for reads in args.reads.iter().copied() {
                for tasks in args.tasks.iter().copied() {
                    let case =
                        |subject: &&'static str| Case { level, subject, runtime, tasks, reads };
                    cases.extend(level.subjects().iter().map(case));
                }
            }
        }
    }
    cases
}

impl Case {
    fn sample(&self, times: Times) -> Result<Seen> {
        let case = *self;
        match self.subject {
            "quick_cache" => self.runtime.run(case.local(readers::quick(), times)),
            "moka" => self.runtime.run(case.local(readers::moka(), times)),
            _ => {
                let server = Arc::new(RedisServer::start(RedisSettings::new())?);
                self.runtime.run(async move {
                    match case.subject {
                        "leasehold" => {
                            let ours = readers::Ours::open(&server.url(), case.level).await?;
                            case.drive(ours, Some(server), times).await
                        }
                        _ => {
                            let raw = readers::Raw::open(&server.url()).await?;
                            case.drive(raw, Some(server), times).await
                        }
                    }
                })
            }
        }
    }

    async fn local<P: Plain>(self, cache: P, times: Times) -> Result<Seen> {
        self.drive(readers::InProcess(Arc::new(cache)), None, times).await
    }

    async fn drive<K: Kind>(
        self,
        kind: K,
        server: Option<Arc<RedisServer>>,
        times: Times,
    ) -> Result<Seen> {
        let pids: Vec<u32> = server.iter().map(|server| server.pid()).collect();
        if let Some(server) = &server {
            server.admin(&["CONFIG", "RESETSTAT"])?;
        }
        let tally = Arc::new(Tally::default());
        let worker = |_| readers::Hundred::new(kind.clone(), self.reads, tally.clone());
        let sample = drive((0..self.tasks).map(worker).collect(), times, &pids).await?;
        let (hits, reads) = tally.hits(&kind);
        let commands = match &server {
            Some(server) if self.reads == 100 => Some(readers::commands(server)? as f64),
            _ => None,
        };
        Ok(Seen {
            sample,
            hit_share: hits as f64 / reads.max(1) as f64,
            commands_per_hit: commands.map(|commands| commands / hits.max(1) as f64),
        })
    }

    fn rows(&self, samples: &[Seen]) -> Vec<Row> {
        let in_process = !matches!(self.subject, "leasehold" | "raw");
        let setup = Setup::new("cache", if in_process { "memory" } else { "redis" }, self.runtime);
        let setup = setup.with("level", self.level.name()).with("reads", self.reads);
        let setup = Setup { subject: self.subject, tasks: self.tasks, ..setup };
        let of = |metric: Metric, figure: &dyn Fn(&Seen) -> Option<f64>| {
            let values: Vec<f64> = samples.iter().filter_map(figure).collect();
            (!values.is_empty()).then(|| setup.row(metric, median(&values)))
        };
        let reads = f64::from(self.reads);
        let rows = [
            of(HITS_PER_S, &|seen| Some(seen.sample.per_s * reads * seen.hit_share)),
            of(CLIENT_US_PER_REQUEST, &|seen| Some(seen.sample.client_us / 100.0)),
            of(SERVER_US_PER_REQUEST, &|seen| Some(seen.sample.server_us? / 100.0)),
            of(HIT_SHARE, &|seen| Some(seen.hit_share)),
            of(COMMANDS_PER_HIT, &|seen| seen.commands_per_hit),
        ];
        rows.into_iter().flatten().collect()
    }

    fn told(&self) -> String {
        let Self { level, subject, runtime, tasks, reads } = self;
        let (level, runtime) = (level.name(), runtime.name());
        format!("{level} {runtime}, {tasks} tasks, {reads} % reads: {subject}")
    }
}
