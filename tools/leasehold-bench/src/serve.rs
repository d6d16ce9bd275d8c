//! `serve`: what a hold through the server costs beside the library's own, and what open holds, viewers
//! and very many locks cost the server.

mod http;
mod open;
mod overview;
mod pairs;
mod picture;
mod process;

use std::time::Duration;

use leasehold_test_servers::{Postgres, RedisServer, RedisSettings};

use crate::common::{Common, count};
use crate::in_turn::in_turn;
use crate::measure::median;
use crate::metric::Metric;
use crate::row::{Row, Setup};
use crate::runtime::Flavour;
use crate::{Result, output, system};

pub(crate) use process::answer;

/// `serve [OPTIONS]`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Numbers of tasks, each with a lock of its own
    #[arg(long, value_name = "N,..", default_value = "1,16", value_delimiter = ',', value_parser = count)]
    pub(crate) tasks: Vec<usize>,
    /// Holds that are open at once
    #[arg(long, value_name = "N", default_value = "1000", value_parser = count)]
    pub(crate) holds: usize,
    /// Viewers of events at once
    #[arg(long, value_name = "N", default_value = "1000", value_parser = count)]
    pub(crate) viewers: usize,
    /// Locks of the overview, on Redis
    #[arg(long, value_name = "N", default_value = "100000", value_parser = count)]
    pub(crate) locks: usize,
    /// Locks of the overview, on PostgreSQL
    #[arg(long, value_name = "N", default_value = "10000", value_parser = count)]
    pub(crate) rows: usize,
}

/// What is measured in turn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Case {
    Pairs(pairs::Way, usize),
    Holds(usize),
    Viewers(usize),
    OnRedis(usize),
    OnPostgres(usize),
}

/// What a case has measured.
type Figures = Vec<(Metric, f64)>;

/// Measures and reports.
pub(crate) fn run(args: &ServeArgs) -> Result<()> {
    output::check(&args.common)?;
    let rows = measure(args)?;
    output::write(&args.common, &rows, &[], &picture::picture(&rows))
}

fn measure(args: &ServeArgs) -> Result<Vec<Row>> {
    system::descriptors()?;
    let mut cases = Vec::new();
    for tasks in args.tasks.iter().copied() {
        cases.extend(pairs::Way::ALL.map(|way| Case::Pairs(way, tasks)));
    }
    cases.push(Case::Holds(args.holds));
    cases.push(Case::Viewers(args.viewers));
    cases.push(Case::OnRedis(args.locks));
    cases.push(Case::OnPostgres(args.rows));
    let window = Duration::from_millis(if args.common.quick { 500 } else { 5_000 });
    let samples = in_turn(&cases, args.common.rounds, Case::told, |case| case.sample(window))?;
    let mut rows = Vec::new();
    for (case, samples) in cases.iter().zip(&samples) {
        let setup = case.setup();
        for (metric, _) in samples.first().into_iter().flatten() {
            let of = |figures: &Figures| figures.iter().find(|(m, _)| m == metric).map(|(_, v)| *v);
            let values: Vec<f64> = samples.iter().filter_map(of).collect();
            rows.push(setup.row(*metric, median(&values)));
        }
    }
    Ok(rows)
}

impl Case {
    fn told(&self) -> String {
        match self {
            Self::Pairs(way, tasks) => format!("{}: {tasks} tasks", way.name()),
            Self::Holds(holds) => format!("{holds} open holds"),
            Self::Viewers(viewers) => format!("{viewers} viewers"),
            Self::OnRedis(locks) => format!("the overview of {locks} locks on Redis"),
            Self::OnPostgres(locks) => format!("the overview of {locks} locks on PostgreSQL"),
        }
    }

    fn setup(&self) -> Setup {
        let backend = if matches!(self, Self::OnPostgres(_)) { "postgres" } else { "redis" };
        let setup = Setup::new("serve", backend, Flavour::Multi);
        match *self {
            Self::Pairs(way, tasks) => Setup { subject: way.name(), tasks, ..setup },
            Self::Holds(locks) => Setup { subject: "serve-hold", ..setup }.with("locks", locks),
            Self::Viewers(viewers) => {
                Setup { subject: "serve-events", ..setup }.with("viewers", viewers)
            }
            Self::OnRedis(locks) | Self::OnPostgres(locks) => {
                Setup { subject: "serve-overview", ..setup }.with("locks", locks)
            }
        }
    }

    fn sample(self, window: Duration) -> Result<Figures> {
        match self {
            Self::Pairs(way, tasks) => {
                let redis = RedisServer::start(RedisSettings::new())?;
                pairs::measure(way, &redis.url(), tasks, window)
            }
            Self::Holds(holds) => {
                let redis = RedisServer::start(RedisSettings::new())?;
                open::holds(&redis.url(), holds, window)
            }
            Self::Viewers(viewers) => {
                let redis = RedisServer::start(RedisSettings::new())?;
                open::viewers(&redis.url(), viewers, window)
            }
            Self::OnRedis(locks) => {
                let redis = RedisServer::start(RedisSettings::new())?;
                overview::measure(&redis.url(), locks, window)
            }
            Self::OnPostgres(locks) => {
                let postgres = Postgres::start(&["fsync=off"])?;
                overview::measure(&postgres.url(), locks, window)
            }
        }
    }
}
