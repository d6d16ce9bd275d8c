//! One process of `cache-hot`: its tasks request the key, and it reports each load.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leasehold_cache::Cache;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::Phase;
use super::times::{LOAD, MAX_LOADS, REST};
use crate::Result;
use crate::contention::orders;
use crate::runtime::Flavour;
use crate::stories::aside::Aside;

/// The arguments of the process.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ProcessArgs {
    side: String,
    runtime: Flavour,
    tasks: usize,
    ttl_ms: u64,
    lease_ms: u64,
    url: String,
}

/// What a process has seen in one phase.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Tally {
    pub(super) took_us: Vec<u64>,
    pub(super) errors: u64,
}

/// A line that tells of a load, and when it began in microseconds since 1970.
pub(super) const LOADS: &str = "load ";

#[derive(Clone)]
enum Side {
    Ours(Cache<str, String>),
    Aside(Aside),
}

/// Is such a process.
pub(crate) fn run(args: ProcessArgs) -> Result<()> {
    args.runtime.run(async move {
        let side = Side::open(&args)?;
        let mut orders = orders();
        // 0 is before the first phase, and one more than there are is the end.
        let phase = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        println!("ready");
        loop {
            match orders.recv().await.as_deref() {
                Some("begin") => {
                    for _ in 0..args.tasks {
                        tasks.spawn(task(side.clone(), phase.clone()));
                    }
                }
                Some("end") => break,
                Some(order) => {
                    let number = order.strip_prefix("phase ").ok_or("an order that is unknown")?;
                    phase.store(number.parse()?, Ordering::SeqCst);
                }
                None => return Ok(()),
            }
        }
        phase.store(Phase::ALL.len() + 1, Ordering::SeqCst);
        let mut all = vec![Tally::default(); Phase::ALL.len()];
        while let Some(done) = tasks.join_next().await {
            for (all, one) in all.iter_mut().zip(done?) {
                all.took_us.extend(one.took_us);
                all.errors += one.errors;
            }
        }
        println!("{}", serde_json::to_string(&all)?);
        Ok(())
    })
}

impl Side {
    fn open(args: &ProcessArgs) -> Result<Self> {
        let ttl = Duration::from_millis(args.ttl_ms);
        if args.side == "cache-aside" {
            return Ok(Self::Aside(Aside::open(&args.url, ttl)?));
        }
        let lease = Duration::from_millis(args.lease_ms);
        let builder = Cache::builder("bench").ttl(ttl).lease(lease).max_loads(MAX_LOADS);
        Ok(Self::Ours(builder.open(&args.url)?))
    }

    async fn get(&self, key: &str) -> bool {
        match self {
            Self::Ours(cache) => {
                let got = cache.get(key, |_| async { load().await.map(Some) }).await;
                matches!(got, Ok(Some(_)))
            }
            Self::Aside(aside) => aside.get(key, load()).await.is_ok(),
        }
    }
}

/// What all want.
async fn load() -> std::result::Result<String, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
    println!("{LOADS}{}", now.as_micros());
    tokio::time::sleep(LOAD).await;
    Ok("a row".to_owned())
}

async fn task(side: Side, phase: Arc<AtomicUsize>) -> Vec<Tally> {
    let mut all = vec![Tally::default(); Phase::ALL.len()];
    loop {
        let now = phase.load(Ordering::SeqCst);
        if now > Phase::ALL.len() {
            return all;
        }
        let fresh = Phase::ALL.get(now.wrapping_sub(1)) == Some(&Phase::RedisDownManyKeys);
        let key = if fresh { format!("cold {:016x}", fastrand::u64(..)) } else { "hot".to_owned() };
        let asked = Instant::now();
        let well = side.get(&key).await;
        if let Some(tally) = now.checked_sub(1).and_then(|phase| all.get_mut(phase)) {
            tally.took_us.push(asked.elapsed().as_micros() as u64);
            tally.errors += u64::from(!well);
        }
        tokio::time::sleep(REST.mul_f64(0.5 + fastrand::f64())).await;
    }
}
