//! `cache-hot`: many processes that want one key, which ends again and again; then who loads it is killed,
//! then Redis.

mod fleet;
mod process;
mod times;

use std::time::{Duration, Instant};

use leasehold_test_servers::{RedisServer, RedisSettings};

use crate::chart::{Chart, Kind, Panel, Series};
use crate::common::{Common, count};
use crate::measure::median;
use crate::metric::{
    ERROR_SHARE, GET_MS_MAX, GET_MS_P50, GET_MS_P99, LOADS_AT_ONCE, LOADS_PER_EXPIRY, LOADS_PER_S,
    Metric, NEXT_LOAD_MS, REQUESTS_PER_S,
};
use crate::progress::Progress;
use crate::row::{Row, Setup};
use crate::runtime::Flavour;
use crate::{Result, output};
use fleet::Fleet;
use times::Times;

use super::SIDES;
pub(crate) use process::{ProcessArgs, run as process};

/// `cache-hot [OPTIONS]`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct HotArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Processes
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = count)]
    pub(crate) processes: usize,
    /// Tasks in each
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = count)]
    pub(crate) tasks: usize,
}

/// What happens, in this order.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Nothing but that the key ends.
    None,
    /// The process that loads is killed while it does.
    LoaderKilled,
    /// Redis is killed.
    RedisDown,
    /// Also, all processes request keys that are not cached.
    RedisDownManyKeys,
}

impl Phase {
    const ALL: [Self; 4] =
        [Self::None, Self::LoaderKilled, Self::RedisDown, Self::RedisDownManyKeys];

    /// As the table has it.
    fn told(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::LoaderKilled => "loader killed",
            Self::RedisDown => "redis down",
            Self::RedisDownManyKeys => "redis down, many keys",
        }
    }
}

/// What was seen in a phase.
#[derive(Clone, Debug, Default)]
struct Seen {
    window: Duration,
    /// When each load began, in microseconds since 1970, in order.
    loads_us: Vec<u64>,
    /// How long each request took, in order.
    took_us: Vec<u64>,
    errors: u64,
    /// From the kill to the next load that began.
    next_load: Option<Duration>,
}

/// Measures and reports.
pub(crate) fn run(args: &HotArgs) -> Result<()> {
    output::check(&args.common)?;
    let common = &args.common;
    let times = Times::of(common.quick);
    let progress = Progress::of(common.flavours().len() * SIDES.len() * common.rounds as usize);
    let mut rows = Vec::new();
    for runtime in common.flavours().iter().copied() {
        let mut samples = [Vec::new(), Vec::new()];
        for _ in 0..common.rounds {
            for (side, samples) in SIDES.into_iter().zip(&mut samples) {
                progress.begin(side.to_owned());
                samples.push(sample(side, runtime, args, &times)?);
                progress.done();
            }
        }
        for (side, samples) in SIDES.into_iter().zip(&samples) {
            rows.extend(figures(side, runtime, args, &times, samples));
        }
    }
    output::write(common, &rows, &[times.told(args.processes)], &picture(&rows))
}

/// All phases once, on a server and with processes of its own.
fn sample(
    side: &'static str,
    runtime: Flavour,
    args: &HotArgs,
    times: &Times,
) -> Result<Vec<Seen>> {
    let mut server = RedisServer::start(RedisSettings::new())?;
    let mut fleet = Fleet::start(side, runtime, args, times, &server.url())?;
    fleet.say("begin")?;
    // The first load, and messages that are heard by all.
    fleet.look_for(times.ttl)?;
    let mut all = Vec::new();
    for (number, phase) in (1..).zip(Phase::ALL) {
        if phase == Phase::RedisDown {
            server.kill();
        }
        fleet.say(&format!("phase {number}"))?;
        fleet.loads.clear();
        let start = Instant::now();
        let mut seen = Seen::default();
        match phase {
            Phase::LoaderKilled => {
                let (loads_us, next_load) = fleet.kill_who_loads(times)?;
                (seen.loads_us, seen.next_load) = (loads_us, next_load);
            }
            _ => {
                fleet.look_for(times.window(phase))?;
                seen.loads_us = std::mem::take(&mut fleet.loads);
            }
        }
        seen.loads_us.sort_unstable();
        seen.window = start.elapsed();
        all.push(seen);
    }
    fleet.say("end")?;
    for report in fleet.reports()? {
        for (seen, tally) in all.iter_mut().zip(report) {
            seen.took_us.extend(tally.took_us);
            seen.errors += tally.errors;
        }
    }
    all.iter_mut().for_each(|seen| seen.took_us.sort_unstable());
    Ok(all)
}

fn figures(
    side: &'static str,
    runtime: Flavour,
    args: &HotArgs,
    times: &Times,
    samples: &[Vec<Seen>],
) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, phase) in Phase::ALL.into_iter().enumerate() {
        let setup = Setup::new("cache-hot", "redis", runtime).with("fault", phase.told());
        let (processes, tasks) = (args.processes, args.tasks);
        let setup = Setup { subject: side, processes, tasks, ..setup };
        let of = |metric: Metric, figure: &dyn Fn(&Seen) -> Option<f64>| {
            let values: Vec<f64> =
                samples.iter().filter_map(|phases| figure(&phases[at])).collect();
            (!values.is_empty()).then(|| setup.row(metric, median(&values)))
        };
        let part = |part: f64| {
            move |seen: &Seen| {
                let took = crate::measure::percentile(&seen.took_us, part)?;
                Some(took as f64 / 1e3)
            }
        };
        let per_s = |seen: &Seen, count: usize| count as f64 / seen.window.as_secs_f64();
        let per_expiry = |seen: &Seen| match phase {
            Phase::None => Some(times.loads_per_expiry(&seen.loads_us)),
            Phase::LoaderKilled => Some(seen.loads_us.len() as f64),
            _ => None,
        };
        let down = matches!(phase, Phase::RedisDown | Phase::RedisDownManyKeys);
        let figures = [
            of(LOADS_PER_EXPIRY, &per_expiry),
            of(LOADS_PER_S, &|seen| down.then(|| per_s(seen, seen.loads_us.len()))),
            of(LOADS_AT_ONCE, &|seen| Some(times.at_once(&seen.loads_us) as f64)),
            of(NEXT_LOAD_MS, &|seen| Some(seen.next_load?.as_secs_f64() * 1e3)),
            of(REQUESTS_PER_S, &|seen| Some(per_s(seen, seen.took_us.len()))),
            of(ERROR_SHARE, &|seen| Some(seen.errors as f64 / seen.took_us.len().max(1) as f64)),
            of(GET_MS_P50, &part(0.5)),
            of(GET_MS_P99, &part(0.99)),
            of(GET_MS_MAX, &part(1.0)),
        ];
        rows.extend(figures.into_iter().flatten());
    }
    rows
}

fn picture(rows: &[Row]) -> Chart {
    let mut sides: Vec<(&str, Flavour)> = Vec::new();
    for row in rows {
        if !sides.contains(&(row.setup.subject, row.setup.runtime)) {
            sides.push((row.setup.subject, row.setup.runtime));
        }
    }
    let series = sides.iter().map(|(subject, runtime)| Series {
        name: format!("{subject}, {}", runtime.name()),
        colour: usize::from(*subject != SIDES[0]),
        light: *runtime == Flavour::Current,
    });
    let panel = |metric: Metric, title: &str| {
        let faults: Vec<&str> = Phase::ALL.iter().map(|phase| phase.told()).collect();
        let value = |side: &(&str, Flavour), fault: &str| {
            let fits = |row: &&Row| {
                row.metric == metric
                    && (row.setup.subject, row.setup.runtime) == *side
                    && row.setup.extra["fault"] == fault
            };
            rows.iter().find(fits).map(|row| row.value)
        };
        let values = |side| faults.iter().map(|fault| value(side, fault)).collect();
        Panel {
            title: title.to_owned(),
            x_label: String::new(),
            values: sides.iter().map(values).collect(),
            kind: Kind::Dots(faults.iter().map(ToString::to_string).collect()),
        }
    };
    Chart {
        title: "One key that many processes want".to_owned(),
        series: series.collect(),
        columns: 1,
        panels: vec![
            panel(LOADS_AT_ONCE, "loads under way at once, at most"),
            panel(GET_MS_P99, "99th percentile of a request, ms"),
        ],
    }
}
