//! Crate `rslock` as a peer; `tools/peers/README.md` says how it is spoken to.

#[path = "../../../leasehold-bench/src/contention/contender.rs"]
mod contender;
#[path = "../../../leasehold-bench/src/contention/judge.rs"]
mod judge;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use contender::{Job, Wanted, contend, orders};
use rslock::{LockGuard, LockManager};
use tokio::sync::mpsc::UnboundedReceiver;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// 30 s, or what the environment says instead.
fn ttl() -> Duration {
    let ms = std::env::var("PEER_TTL_MS").ok().and_then(|ms| ms.parse().ok());
    Duration::from_millis(ms.unwrap_or(30_000))
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (runtime, work) = match args[..] {
        ["pairs", runtime, tasks, names, prefix] => {
            (runtime, Work::Pairs(tasks.parse()?, names == "fresh", prefix.to_owned()))
        }
        ["contention", runtime, tasks, _, hold_us, name, file, process] => {
            let words = [tasks, hold_us, name, file, process].map(str::to_owned);
            (runtime, Work::Contention(words))
        }
        _ => return Err("usage: see tools/peers/README.md".into()),
    };
    let mut builder = match runtime {
        "multi" => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder.worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(async {
        match work {
            Work::Pairs(tasks, fresh, prefix) => pairs(tasks, fresh, &prefix).await,
            Work::Contention(words) => contention(words).await,
        }
    });
    // The thread that reads the input never ends.
    runtime.shutdown_background();
    done
}

enum Work {
    Pairs(usize, bool, String),
    Contention([String; 5]),
}

/// The first line has the URLs of all servers.
async fn connect(orders: &mut UnboundedReceiver<String>) -> Result<LockManager> {
    let urls = orders.recv().await.ok_or("no URL")?;
    Ok(LockManager::new(urls.split_whitespace().map(str::to_owned).collect::<Vec<_>>()))
}

async fn pairs(tasks: usize, fresh: bool, prefix: &str) -> Result<()> {
    let mut orders = orders();
    let locks = connect(&mut orders).await?;
    let counts: Vec<Arc<AtomicU64>> = (0..tasks).map(|_| Arc::default()).collect();
    for (task, count) in counts.iter().cloned().enumerate() {
        let (locks, name) = (locks.clone(), format!("{prefix}/{task:08}"));
        tokio::spawn(async move {
            for number in 1.. {
                let guard = match fresh {
                    true => locks.acquire(format!("{name}/{number:010}").as_str(), ttl()).await,
                    false => locks.acquire(name.as_str(), ttl()).await,
                };
                guard.expect("a lock that nobody else wants").release().await;
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    while counts.iter().any(|count| count.load(Ordering::Relaxed) == 0) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("ready");
    while orders.recv().await.is_some() {
        println!("{}", counts.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>());
    }
    Ok(())
}

async fn contention([tasks, hold_us, name, file, process]: [String; 5]) -> Result<()> {
    let mut orders = orders();
    let locks = connect(&mut orders).await?;
    // It connects when it is used first.
    locks.acquire(format!("{name}/{process}").as_str(), ttl()).await?.release().await;
    let lock = |_| Lock { locks: locks.clone(), name: name.clone() };
    let wanted = (0..tasks.parse()?).map(lock).collect();
    let (hold, file) = (Duration::from_micros(hold_us.parse()?), Path::new(&file));
    println!("ready");
    let job = Job { hold, file, process: process.parse()?, slots: 1, records: false };
    if let Some(report) = contend(wanted, job, &mut orders).await? {
        println!("{report}");
    }
    Ok(())
}

struct Lock {
    locks: LockManager,
    name: String,
}

impl Wanted for Lock {
    type Held = LockGuard;

    async fn acquire(&self) -> Result<(LockGuard, u64)> {
        Ok((self.locks.acquire(self.name.as_str(), ttl()).await?, 0))
    }

    async fn release(&self, held: LockGuard) -> Result<()> {
        held.release().await;
        Ok(())
    }
}
