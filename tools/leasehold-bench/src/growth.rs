//! `growth`: how the cost of an operation grows with the locks that are held, and with the clients that wait for one
//! lock.

mod case;
mod handoffs;
mod operation;
mod picture;
mod report;
mod shared_connection;
mod sizes;
mod verdict;
mod waiting;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::{Common, count};
use crate::in_turn::in_turn_as_far_as;
use crate::measure::median;
use crate::metric::{CLIENT_US_PER_OPERATION, Metric, OPERATION_US_P50, SERVER_US_PER_OPERATION};
use crate::pairs::Times;
use crate::row::{Row, Setup};
use crate::store::Store;
use crate::{Result, output};
use case::{Case, Point, Sample};
use operation::Figures;

/// `growth [OPTIONS]`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct GrowthArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Numbers of locks that are held, ascending [default: 100, 1000, ... up to 1000000 on memory and redis, 100000 on
    /// redlock, postgres and mysql, 10000 on the others]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = count)]
    pub(crate) locks: Vec<usize>,
    /// Numbers of clients that wait for one lock, ascending [default: 1, 10, ... up to 10000 on memory and redis, 100 on
    /// sqlite, 1000 on the others]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = count)]
    pub(crate) waiters: Vec<usize>,
    /// How long one number of locks or waiters may take, with all that is measured there [default: 120, with --quick 20]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) limit: Option<u64>,
}

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How long each operation is measured.
    pub(crate) times: Times,
    /// How long one size may take.
    pub(crate) stage: Duration,
}

/// Measures and reports.
pub(crate) fn run(args: &GrowthArgs, stores: &[Store]) -> Result<()> {
    output::check(&args.common)?;
    let (warm_up, window, stage) = if args.common.quick { (20, 200, 20) } else { (100, 1000, 120) };
    let times =
        Times { warm_up: Duration::from_millis(warm_up), window: Duration::from_millis(window) };
    let limits = Limits { times, stage: Duration::from_secs(args.limit.unwrap_or(stage)) };
    let (rows, notes) = measure(args, stores, limits)?;
    output::write_files(&args.common, &rows, &picture::picture(&rows))?;
    output::print(&report::tables(&rows), &notes)
}

/// All figures, and what is to be said beside them.
pub(crate) fn measure(
    args: &GrowthArgs,
    stores: &[Store],
    limits: Limits,
) -> Result<(Vec<Row>, Vec<String>)> {
    crate::system::descriptors()?;
    let mut cases = Vec::new();
    for store in stores {
        for &runtime in args.common.flavours() {
            let locks = sizes::or(&args.locks, || sizes::locks(store));
            let waiters = sizes::or(&args.waiters, || sizes::waiters(store));
            cases.push(Case { store: store.clone(), runtime, locks, waiters, limits });
        }
    }
    let rounds = args.common.rounds;
    let (samples, mut notes) =
        in_turn_as_far_as(&cases, rounds, Case::told, |_| false, Case::sample)?;
    let mut rows = Vec::new();
    for (case, samples) in cases.iter().zip(&samples) {
        rows.extend(rows_of(case, samples));
        for note in samples.iter().flat_map(|sample| &sample.notes) {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
    }
    Ok((rows, notes))
}

fn rows_of(case: &Case, samples: &[Sample]) -> Vec<Row> {
    let mut points: BTreeMap<Point, Vec<Figures>> = BTreeMap::new();
    for (point, figures) in samples.iter().flat_map(|sample| &sample.figures) {
        points.entry(*point).or_default().push(*figures);
    }
    let mut rows = Vec::new();
    for (point, figures) in points {
        let setup = Setup::new("growth", case.store.backend(), case.runtime)
            .with("operation", point.operation.name())
            .with(point.of.key(), point.size);
        let mut of = |metric: Metric, figure: fn(&Figures) -> Option<f64>| {
            let values: Vec<f64> = figures.iter().filter_map(figure).collect();
            if !values.is_empty() {
                rows.push(setup.row(metric, median(&values)));
            }
        };
        of(OPERATION_US_P50, |figures| Some(figures.us_p50));
        of(CLIENT_US_PER_OPERATION, |figures| Some(figures.client_us));
        of(SERVER_US_PER_OPERATION, |figures| figures.server_us);
    }
    rows
}
