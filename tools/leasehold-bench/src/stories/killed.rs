//! `cache-killed`: Redis is killed under load, and comes back empty.

mod load;
mod picture;

use std::time::Duration;

use crate::common::{Common, count};
use crate::measure::{median, percentile};
use crate::metric::{
    ERROR_SHARE, GET_MS_MAX, GET_MS_P50, GET_MS_P99, LOADS_PER_S, Metric, REQUESTS_PER_S,
};
use crate::progress::Progress;
use crate::row::{Row, Setup};
use crate::runtime::Flavour;
use crate::{Result, output};
use load::{Part, TimeLine};

use super::SIDES;

/// `cache-killed [OPTIONS]`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct KilledArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Requests that come in a second, whether those before are answered or not
    #[arg(long, value_name = "N", default_value_t = 4_000, value_parser = count)]
    pub(crate) rate: usize,
}

/// The phases: until Redis is killed, while it is down, and after it has restarted.
const PHASES: [&str; 3] = ["before", "during", "after"];

/// How long each of them lasts, and how finely the picture shows it.
#[derive(Clone, Copy, Debug)]
struct Times {
    phase: Duration,
    part: Duration,
}

/// Measures and reports.
pub(crate) fn run(args: &KilledArgs) -> Result<()> {
    output::check(&args.common)?;
    let common = &args.common;
    let times = match common.quick {
        true => Times { phase: Duration::from_secs(1), part: Duration::from_millis(200) },
        false => Times { phase: Duration::from_secs(6), part: Duration::from_millis(250) },
    };
    let progress = Progress::of(common.flavours().len() * SIDES.len() * common.rounds as usize);
    let (mut rows, mut drawn) = (Vec::new(), Vec::new());
    for runtime in common.flavours().iter().copied() {
        let mut lines = [Vec::new(), Vec::new()];
        for _ in 0..common.rounds {
            for (side, lines) in SIDES.into_iter().zip(&mut lines) {
                progress.begin(side.to_owned());
                lines.push(load::sample(side, runtime, args.rate, times)?);
                progress.done();
            }
        }
        for (side, lines) in SIDES.into_iter().zip(&lines) {
            rows.extend(figures(side, runtime, args.rate, lines));
        }
        if drawn.is_empty() {
            drawn.extend(lines.into_iter().map(|mut lines| lines.remove(0)));
        }
    }
    output::write(common, &rows, &[], &picture::picture(&drawn, times))
}

/// Of each phase, medians of the rounds.
fn figures(side: &'static str, runtime: Flavour, rate: usize, lines: &[TimeLine]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, phase) in PHASES.into_iter().enumerate() {
        let setup = Setup::new("cache-killed", "redis", runtime);
        let setup = setup.with("phase", phase).with("rate", rate);
        let setup = Setup { subject: side, ..setup };
        let phases: Vec<Part> = lines.iter().map(|line| line.phase(at)).collect();
        let of = |figure: &dyn Fn(&Part) -> f64| {
            median(&phases.iter().map(figure).collect::<Vec<f64>>())
        };
        let part = |part: f64| {
            move |all: &Part| percentile(&all.took_us, part).unwrap_or_default() as f64 / 1e3
        };
        let figures: [(Metric, f64); 6] = [
            (REQUESTS_PER_S, of(&Part::answered_per_s)),
            (ERROR_SHARE, of(&Part::error_share)),
            (LOADS_PER_S, of(&Part::loads_per_s)),
            (GET_MS_P50, of(&part(0.5))),
            (GET_MS_P99, of(&part(0.99))),
            (GET_MS_MAX, of(&part(1.0))),
        ];
        rows.extend(figures.map(|(metric, value)| setup.row(metric, value)));
    }
    rows
}
