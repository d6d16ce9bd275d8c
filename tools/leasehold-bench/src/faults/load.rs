//! Tasks that acquire and release a lock each while a fault happens, and how long they are kept waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold::Lock;
use tokio::task::JoinSet;

use super::fault::{Fault, Nodes};
use super::{Case, NODE_LIMIT};
use crate::Result;
use crate::pairs::{Times, give_back};
use crate::rounds::Rounds;

/// How long an acquire may wait where no majority is left, and where one is.
pub(super) const WAIT: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(30);

/// How often each task asks in vain where no majority is left.
const IN_VAIN: usize = 2;

/// What was seen from the moment of the fault on.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// How long each acquire took that ended with the lock, in order.
    pub(super) acquired_ns: Vec<u64>,
    /// Of all tasks together, while there was a majority.
    pub(super) per_s: Option<f64>,
    /// Share of the grants that needed one round of requests.
    pub(super) one_round: Option<f64>,
    /// How long each other took, and what it said.
    pub(super) errors: Vec<(u64, String)>,
}

impl Sample {
    pub(super) fn longest(&self) -> Option<u64> {
        self.acquired_ns.last().copied()
    }

    pub(super) fn error_ns(&self) -> impl Iterator<Item = u64> {
        self.errors.iter().map(|(took, _)| *took)
    }
}

/// Measures a case once, on nodes of its own.
pub(super) fn sample(case: Case, times: Times) -> Result<Sample> {
    let nodes = Nodes::start(case.nodes, case.fault, NODE_LIMIT)?;
    case.runtime.run(measure(nodes, case, times))
}

async fn measure(mut nodes: Nodes, case: Case, times: Times) -> Result<Sample> {
    Rounds::count();
    let client = leasehold::connect(&nodes.url).await?;
    let locks: Vec<Lock> =
        (0..case.tasks).map(|task| client.lock(format!("orders/{task:08}"))).collect();
    for lock in &locks {
        give_back(lock.acquire().await?).await?;
    }
    let phase = Arc::new(Phase::default());
    let mut tasks = JoinSet::new();
    for lock in locks {
        tasks.spawn(take_and_give_back(lock, phase.clone(), case.fault));
    }
    tokio::time::sleep(times.warm_up).await;
    let (start, rounds) = (Instant::now(), Rounds::so_far());
    phase.counts.store(true, Ordering::Relaxed);
    // On a thread of its own: what it takes to kill a server keeps no task from running.
    let nodes = tokio::task::spawn_blocking(move || nodes.suffer(case.fault).map(|()| nodes));
    let nodes = nodes.await??;
    if case.fault.leaves_a_majority() {
        tokio::time::sleep(times.window.saturating_sub(start.elapsed())).await;
        phase.stop.store(true, Ordering::Relaxed);
    }
    let mut sample = Sample::default();
    while let Some(done) = tasks.join_next().await {
        let Sample { acquired_ns, errors, .. } = done??;
        sample.acquired_ns.extend(acquired_ns);
        sample.errors.extend(errors);
    }
    sample.acquired_ns.sort_unstable();
    if case.fault.leaves_a_majority() {
        // A client that still waited at the end counts with its whole time.
        sample.per_s = Some(sample.acquired_ns.len() as f64 / start.elapsed().as_secs_f64());
        sample.one_round = Rounds::so_far().share_of_one_since(rounds);
    } else {
        // Those few that had the lock before the servers had gone.
        sample.acquired_ns.clear();
    }
    drop(nodes);
    Ok(sample)
}

/// Where a measurement is.
#[derive(Debug, Default)]
struct Phase {
    counts: AtomicBool,
    stop: AtomicBool,
}

async fn take_and_give_back(lock: Lock, phase: Arc<Phase>, fault: Fault) -> Result<Sample> {
    let mut sample = Sample::default();
    let wait = if fault.leaves_a_majority() { PATIENCE } else { WAIT };
    while !phase.stop.load(Ordering::Relaxed) && sample.errors.len() < IN_VAIN {
        let asked = Instant::now();
        let acquired = lock.acquire_within(wait).await;
        let took = u64::try_from(asked.elapsed().as_nanos())?;
        match acquired {
            Ok(guard) => {
                if phase.counts.load(Ordering::Relaxed) {
                    sample.acquired_ns.push(took);
                }
                give_back(guard).await?;
            }
            Err(error) if fault.leaves_a_majority() => return Err(error.into()),
            Err(error) => sample.errors.push((took, error.to_string())),
        }
        tokio::task::consume_budget().await;
    }
    Ok(sample)
}
