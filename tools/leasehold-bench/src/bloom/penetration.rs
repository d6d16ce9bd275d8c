//! Requests for keys that do not exist, and how many of them reach the loader.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold_cache::Cache;
use leasehold_cache::Filter;
use leasehold_filters::bloom::Local;
use leasehold_test_servers::{RedisServer, RedisSettings};
use tokio::task::JoinSet;

use super::BloomArgs;
use crate::Result;
use crate::metric::{LOADS, REQUESTS_PER_S};
use crate::progress::Progress;
use crate::row::{Row, Setup};
use crate::runtime::Flavour;

/// What stands before the loader, in the order of the table.
pub(super) const WAYS: [&str; 5] = ["form", "null", "filter", "null+filter", "all"];

const TASKS: usize = 64;
/// Keys that exist: all of them are in the filter.
const EXIST: u64 = 100_000;
/// Of four requests one is for a key that is requested only once, two are for one of these, and one has
/// no form of a key.
const AGAIN: u64 = 10_000;

pub(super) fn measure(args: &BloomArgs, progress: &Progress) -> Result<Vec<Row>> {
    let usual = if args.common.quick { 20_000 } else { 1_000_000 };
    let requests = args.requests.unwrap_or(usual) as u64;
    let mut rows = Vec::new();
    for way in WAYS {
        progress.begin(format!("penetration: {way}"));
        let server = RedisServer::start(RedisSettings::new())?;
        let (loads, took) = Flavour::Multi.run(ask(server.url(), way, requests))?;
        let setup = Setup::new("bloom", "redis", Flavour::Multi).with("work", "penetration");
        let setup = setup.with("defence", way).with("requests", requests);
        let setup = Setup { tasks: TASKS, ..setup };
        rows.push(setup.row(LOADS, loads as f64));
        rows.push(setup.row(REQUESTS_PER_S, requests as f64 / took.as_secs_f64()));
        progress.done();
    }
    Ok(rows)
}

async fn ask(url: String, way: &'static str, requests: u64) -> Result<(u64, Duration)> {
    let has = |part: &str| way == "all" || way.split('+').any(|one| one == part);
    let mut builder = Cache::<str, u64>::builder("bench").redis_limit(Duration::from_secs(10));
    // Ten milliseconds is as short as it can be.
    let null_ttl = Duration::from_millis(if has("null") { 600_000 } else { 10 });
    builder = builder.null_ttl(null_ttl).hard_limit(Duration::from_secs(30)).local_size(50_000);
    if has("filter") {
        let filter = Local::new(EXIST, 0.01)?;
        (0..EXIST).for_each(|key| {
            filter.add(format!("user/{key}"));
        });
        builder = builder.filter(Filter::by(move |key| filter.check(key)));
    }
    if has("form") {
        let digits = |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
        builder = builder.only_keys(move |key| key.strip_prefix("user/").is_some_and(digits));
    }
    let cache = builder.open(&url)?;
    let (next, loads) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (cache, next, loads) = (cache.clone(), next.clone(), loads.clone());
        tasks.spawn(async move {
            loop {
                let request = next.fetch_add(1, Ordering::Relaxed);
                if request >= requests {
                    return Result::Ok(());
                }
                let key = match request % 4 {
                    0 => format!("user/{}", EXIST + AGAIN + request),
                    1 => format!("user/{request}' OR 1=1"),
                    _ => format!("user/{}", EXIST + fastrand::u64(..AGAIN)),
                };
                let loads = loads.clone();
                let load = move |_| async move {
                    loads.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, String>(None)
                };
                if cache.get(&key, load).await?.is_some() {
                    return Err(format!("{key} has a value").into());
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok((loads.load(Ordering::Relaxed), start.elapsed()))
}
