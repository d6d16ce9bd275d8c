//! Tasks that do the same thing again and again, counted over a window of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::Result;
use crate::measure::{Spent, Window};
use crate::rounds::Rounds;

/// How long is measured, and how long, at the least, nothing is before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
}

/// What was counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Pairs in a second, of all tasks together.
    pub(crate) per_s: f64,
    /// CPU time of the client's process for one, in microseconds.
    pub(crate) client_us: f64,
    /// CPU time of the server's process for one, if the server is ours.
    pub(crate) server_us: Option<f64>,
    /// Context switches of the client's process for one, if they were counted.
    pub(crate) switches: Option<f64>,
    /// Share of the grants that needed one round of requests, if a quorum granted.
    pub(crate) one_round: Option<f64>,
}

impl Sample {
    pub(super) fn of(pairs: u64, spent: &Spent) -> Self {
        let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / pairs.max(1) as f64;
        Self {
            per_s: pairs as f64 / spent.time.as_secs_f64(),
            client_us: each(spent.cpu),
            server_us: spent.server.map(each),
            switches: spent.switches.map(|switches| switches as f64 / pairs.max(1) as f64),
            one_round: None,
        }
    }
}

/// One task's work.
pub(crate) trait Worker: Send + 'static {
    /// Takes once, gives back once.
    fn pair(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Whether the last pair is one of those that are counted.
    fn counts(&self) -> bool {
        true
    }
}

/// Runs a task for each worker, and counts; `servers` are the processes of servers of ours.
pub(crate) async fn drive<W: Worker>(
    workers: Vec<W>,
    times: Times,
    servers: &[u32],
) -> Result<Sample> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut counts = Vec::with_capacity(workers.len());
    let mut tasks = JoinSet::new();
    for mut worker in workers {
        let (stop, count) = (stop.clone(), Arc::new(AtomicU64::new(0)));
        counts.push(count.clone());
        tasks.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                worker.pair().await?;
                count.fetch_add(u64::from(worker.counts()), Ordering::Relaxed);
                // A worker that never has to wait lets others run all the same.
                tokio::task::consume_budget().await;
            }
            Result::Ok(())
        });
    }
    let total = || counts.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>();
    tokio::time::sleep(times.warm_up).await;
    // Each client's first round is slower: it creates a record or a file.
    let all_began = || counts.iter().all(|count| count.load(Ordering::Relaxed) > 0);
    while !all_began() {
        match tasks.try_join_next() {
            Some(failed) => failed??,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
    let (window, before, rounds) = (Window::open(servers)?, total(), Rounds::so_far());
    tokio::time::sleep(times.window).await;
    // A window in which a busy machine has done nothing lasts until something is done.
    while total() == before {
        match tasks.try_join_next() {
            Some(failed) => failed??,
            None => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
    let (spent, pairs) = (window.spent()?, total() - before);
    let one_round = Rounds::so_far().share_of_one_since(rounds);
    stop.store(true, Ordering::Relaxed);
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(Sample { one_round, ..Sample::of(pairs, &spent) })
}
