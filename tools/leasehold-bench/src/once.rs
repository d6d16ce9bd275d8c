//! `once`: rows that come twice each, saved once, in three ways.

mod picture;
mod ways;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_test_servers::{Postgres, RedisServer, RedisSettings};

use crate::common::{Common, count};
use crate::in_turn::in_turn;
use crate::measure::median;
use crate::metric::{
    ATTEMPTS_PER_ROW, CLIENT_US_PER_REQUEST, REQUESTS_PER_S, SERVER_US_PER_REQUEST,
};
use crate::pairs::load::{Sample, Times, drive};
use crate::row::{Row, Setup};
use crate::runtime::Flavour;
use crate::{Result, output};

use ways::{LockAndCheck, Ours, Unique, WAYS};

/// `once [OPTIONS]`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct OnceArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Numbers of tasks
    #[arg(long, value_name = "N,..", default_value = "64", value_delimiter = ',', value_parser = count)]
    pub(crate) tasks: Vec<usize>,
    /// Rows that a task hands over at a time, as they come from a queue
    #[arg(long, value_name = "N,..", default_value = "1,100", value_delimiter = ',', value_parser = count)]
    pub(crate) rows: Vec<usize>,
}

/// The keys that come: each second time one that came a short time ago.
pub(crate) struct Keys(AtomicU64);

/// So many of the last may come again.
const AGAIN: u64 = 10_000;

impl Keys {
    fn some(&self, rows: usize) -> Vec<String> {
        let one = |row: usize| {
            if row.is_multiple_of(2) {
                return self.0.fetch_add(1, Ordering::Relaxed);
            }
            let next = self.0.load(Ordering::Relaxed);
            fastrand::u64(next.saturating_sub(AGAIN)..next)
        };
        // Of one row at a time, which it is decides the dice.
        let first = if rows == 1 { usize::from(fastrand::bool()) } else { 0 };
        (first..first + rows).map(|row| format!("event {}", one(row))).collect()
    }
}

/// Measures and reports.
pub(crate) fn run(args: &OnceArgs) -> Result<()> {
    output::check(&args.common)?;
    let rows = measure(args)?;
    output::write(&args.common, &rows, &[], &picture::picture(&rows))
}

fn measure(args: &OnceArgs) -> Result<Vec<Row>> {
    let window = Duration::from_millis(if args.common.quick { 500 } else { 3_000 });
    let times = Times { warm_up: window / 5, window };
    let mut cases = Vec::new();
    for runtime in args.common.flavours().iter().copied() {
        for tasks in args.tasks.iter().copied() {
            for rows in args.rows.iter().copied() {
                cases.extend(WAYS.into_iter().map(|way| (way, runtime, tasks, rows)));
            }
        }
    }
    let told = |(way, _, tasks, rows): &(_, _, _, _)| format!("{way}: {tasks} tasks, {rows} rows");
    let samples = in_turn(&cases, args.common.rounds, told, |(way, runtime, tasks, rows)| {
        sample(way, *runtime, *tasks, *rows, times)
    })?;
    let mut all = Vec::new();
    for ((way, runtime, tasks, rows), samples) in cases.into_iter().zip(&samples) {
        let setup = Setup::new("once", "postgres", runtime).with("rows", rows);
        let setup = Setup { subject: way, tasks, ..setup };
        let each = rows as f64;
        let of = |figure: &dyn Fn(&(Sample, f64)) -> f64| {
            median(&samples.iter().map(figure).collect::<Vec<f64>>())
        };
        all.push(setup.row(REQUESTS_PER_S, of(&|(sample, _)| sample.per_s * each)));
        all.push(setup.row(CLIENT_US_PER_REQUEST, of(&|(sample, _)| sample.client_us / each)));
        let server = of(&|(sample, _)| sample.server_us.unwrap_or_default() / each);
        all.push(setup.row(SERVER_US_PER_REQUEST, server));
        all.push(setup.row(ATTEMPTS_PER_ROW, of(&|(_, attempts)| *attempts)));
    }
    Ok(all)
}

/// And the insert attempts that have reached the database, for each row that is in it.
fn sample(
    way: &'static str,
    runtime: Flavour,
    tasks: usize,
    rows: usize,
    times: Times,
) -> Result<(Sample, f64)> {
    let (redis, postgres) =
        (RedisServer::start(RedisSettings::new())?, Postgres::start(&["fsync=on"])?);
    let (redis_url, url) = (redis.url(), postgres.url());
    // PostgreSQL is many processes; Redis' time alone would mislead.
    let pids = [redis.pid()];
    runtime.run(async move {
        let keys = Arc::new(Keys(AtomicU64::new(1)));
        let attempts = Arc::new(AtomicU64::new(0));
        let pool = ways::pool(&url).await?;
        let table = ways::table(&pool).await?;
        let sample = match way {
            "leasehold" => {
                let once = ways::open(&redis_url, table)?;
                let ours = |_| Ours { once: once.clone(), keys: keys.clone(), rows };
                let sample = drive((0..tasks).map(ours).collect(), times, &pids).await?;
                attempts.store(once.stats().attempts, Ordering::Relaxed);
                sample
            }
            "unique-key" => {
                let unique = |_| Unique {
                    table: table.clone(),
                    keys: keys.clone(),
                    rows,
                    attempts: attempts.clone(),
                };
                drive((0..tasks).map(unique).collect(), times, &pids).await?
            }
            _ => {
                let connection = crate::multiplexed(&redis_url).await?;
                let locked = |_| LockAndCheck {
                    connection: connection.clone(),
                    pool: pool.clone(),
                    keys: keys.clone(),
                    rows,
                    attempts: attempts.clone(),
                };
                drive((0..tasks).map(locked).collect(), times, &pids).await?
            }
        };
        let saved: i64 = sqlx::query_scalar("SELECT count(*) FROM events").fetch_one(&pool).await?;
        Ok((sample, attempts.load(Ordering::Relaxed) as f64 / saved.max(1) as f64))
    })
}
