//! `cache-avalanche`: keys that are written at one moment, and when each of them ends.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_cache::Cache;
use leasehold_test_servers::{RedisServer, RedisSettings};
use tokio::task::JoinSet;

use crate::chart::{Chart, Kind, Panel, Series};
use crate::common::{Common, count};
use crate::measure::{median, percentile};
use crate::metric::{ENDS_PER_S_MAX, FILL_S, SPREAD_S};
use crate::progress::Progress;
use crate::row::Setup;
use crate::runtime::Flavour;
use crate::{Result, output};

/// `cache-avalanche [OPTIONS]`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AvalancheArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Keys [default: 100000, with --quick 5000]
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) keys: Option<usize>,
}

/// How long a key is fresh, and by how much of it that is shortened at random: not, and as the default
/// has it.
const TTL: Duration = Duration::from_secs(3_600);
const JITTERS: [f64; 2] = [0.0, 0.1];
/// Keys that are loaded at once.
const TOGETHER: usize = 500;

/// Measures and reports.
pub(crate) fn run(args: &AvalancheArgs) -> Result<()> {
    output::check(&args.common)?;
    let keys = args.keys.unwrap_or(if args.common.quick { 5_000 } else { 100_000 });
    let (common, mut rows, mut drawn) = (&args.common, Vec::new(), Vec::new());
    let progress = Progress::of(common.flavours().len() * JITTERS.len() * common.rounds as usize);
    for runtime in common.flavours().iter().copied() {
        let mut samples = [Vec::new(), Vec::new()];
        for _ in 0..common.rounds {
            for (jitter, samples) in JITTERS.into_iter().zip(&mut samples) {
                progress.begin(format!("jitter {jitter}"));
                samples.push(sample(runtime, keys, jitter)?);
                progress.done();
            }
        }
        for (jitter, samples) in JITTERS.into_iter().zip(&samples) {
            let setup = Setup::new("cache-avalanche", "redis", runtime);
            let setup =
                setup.with("keys", keys).with("jitter", jitter).with("ttl_s", TTL.as_secs());
            let of = |figure: fn(&Ends) -> f64| {
                median(&samples.iter().map(figure).collect::<Vec<f64>>())
            };
            rows.push(setup.row(FILL_S, of(|ends| ends.took.as_secs_f64())));
            rows.push(setup.row(SPREAD_S, of(Ends::spread_s)));
            rows.push(setup.row(ENDS_PER_S_MAX, of(Ends::most_in_a_second)));
        }
        if drawn.is_empty() {
            drawn.extend(samples.iter().map(|samples| samples[0].in_each_second()));
        }
    }
    output::write(common, &rows, &[], &picture(&drawn, keys))
}

/// When keys end, in milliseconds since the first was written, in order.
struct Ends {
    ms: Vec<u64>,
    /// How long it took to write all.
    took: Duration,
}

impl Ends {
    /// In how many seconds all but the first and the last hundredth end.
    fn spread_s(&self) -> f64 {
        let at = |part| percentile(&self.ms, part).unwrap_or_default() as f64;
        (at(0.99) - at(0.01)) / 1e3
    }

    fn most_in_a_second(&self) -> f64 {
        self.in_each_second().into_iter().fold(0.0, f64::max)
    }

    /// From the first second in which any could end.
    fn in_each_second(&self) -> Vec<f64> {
        let mut seconds = vec![0.0; AXIS.1 - AXIS.0];
        for ms in &self.ms {
            let second = (*ms / 1_000) as usize;
            seconds[second.clamp(AXIS.0, AXIS.1 - 1) - AXIS.0] += 1.0;
        }
        seconds
    }
}

/// Seconds after the first write that are drawn: from before the earliest end to a minute after the
/// latest.
const AXIS: (usize, usize) = (3_200, 3_660);

/// Fills a cache on a server of its own, and reads from the server when each key ends.
fn sample(runtime: Flavour, keys: usize, jitter: f64) -> Result<Ends> {
    let server = RedisServer::start(RedisSettings::new())?;
    let url = server.url();
    let (start_ms, took) = runtime.run(async move {
        let builder = Cache::<str, u64>::builder("bench").ttl(TTL).jitter(jitter);
        // What ends is removed at once, so that the server's own clock tells.
        let builder = builder.stale_for(Duration::ZERO).local_size(0);
        let cache = builder.redis_limit(Duration::from_secs(10)).open(&url)?;
        let start = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let mut tasks = JoinSet::new();
        let all: Vec<String> = (0..keys).map(|key| format!("product/{key}")).collect();
        for some in all.chunks(TOGETHER) {
            if tasks.len() == 4 {
                tasks.join_next().await.transpose()?.transpose()?;
            }
            let (cache, some) = (cache.clone(), some.to_vec());
            tasks.spawn(async move {
                let some: Vec<&str> = some.iter().map(String::as_str).collect();
                let load = |places: Vec<usize>, _| async move {
                    Ok::<_, String>(places.into_iter().map(|place| Some(place as u64)).collect())
                };
                cache.get_many(&some, load).await.map(drop)
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        let took = SystemTime::now().duration_since(UNIX_EPOCH)? - start;
        Ok((start.as_millis() as u64, took))
    })?;
    let mut admin = server.connect()?;
    let mut ms = Vec::with_capacity(keys);
    for key in 0..keys {
        let entry = format!("{{leasehold-cache:bench:product/{key}}}");
        let ends = admin.call(&["PEXPIRETIME", &entry])?.integer().unwrap_or_default();
        let ends = u64::try_from(ends).map_err(|_| format!("{entry} is not there"))?;
        ms.push(ends.saturating_sub(start_ms));
    }
    ms.sort_unstable();
    Ok(Ends { ms, took })
}

fn picture(drawn: &[Vec<f64>], keys: usize) -> Chart {
    let panel = |(at, ends): (usize, &Vec<f64>)| {
        let values = ends.iter().copied().map(Some).collect();
        let mut all = vec![Vec::new(); drawn.len()];
        all[at] = values;
        Panel {
            title: format!("jitter {}: keys that end in each second", JITTERS[at]),
            x_label: format!(
                "seconds after {} keys were written",
                crate::table::separated(&keys.to_string())
            ),
            kind: Kind::Curves {
                xs: (AXIS.0..AXIS.1).map(|x| x as f64).collect(),
                marks: Vec::new(),
            },
            values: all,
        }
    };
    let series = JITTERS.iter().enumerate().map(|(colour, jitter)| Series {
        name: format!("jitter {jitter}"),
        colour,
        light: false,
    });
    Chart {
        title: "When keys end that were written at one moment (ttl one hour)".to_owned(),
        series: series.collect(),
        columns: 1,
        panels: drawn.iter().enumerate().map(panel).collect(),
    }
}
