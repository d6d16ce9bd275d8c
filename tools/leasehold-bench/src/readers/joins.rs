//! Reads without a command: beside a task of the same process that reads already, or under a lease that the client
//! has cached.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::Result;
use crate::measure::Window;
use crate::metric::{CLIENT_US_PER_JOIN, JOINS_PER_S, Metric};
use crate::processes::Times;
use crate::runtime::Flavour;
use crate::store::Store;

/// For how long the client caches its lease.
const CACHE: Duration = Duration::from_secs(10);

/// The lease that tasks read under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Under {
    /// That of another task, which reads all the time.
    Reader,
    /// One that the client caches when no task reads.
    Cached,
}

/// Measures how often so many tasks read and release in a second.
pub(super) fn once(
    store: &Store,
    runtime: Flavour,
    tasks: usize,
    under: Under,
    times: Times,
) -> Result<Joins> {
    let place = store.place()?;
    let (url, name, servers) = (place.url.clone(), place.name(1), place.server_pids().to_vec());
    runtime.run(async move {
        let client = leasehold::connect(&url).await?;
        let lock = client.rw_lock(&name);
        let (lock, first) = match under {
            Under::Reader => (lock.clone(), Some(lock.read().await?)),
            Under::Cached => (lock.cache(CACHE), None),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let counts: Vec<Arc<Count>> = (0..tasks).map(|_| Arc::default()).collect();
        let mut readers: JoinSet<Result<()>> = JoinSet::new();
        for count in counts.iter().cloned() {
            let (lock, stop) = (lock.clone(), stop.clone());
            readers.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    lock.read().await?.release().await?;
                    count.0.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
        }
        let all = || counts.iter().map(|count| count.0.load(Ordering::Relaxed)).sum::<u64>();
        tokio::time::sleep(times.warm_up).await;
        let (window, before) = (Window::open(&servers)?, all());
        tokio::time::sleep(times.window).await;
        let (spent, joins) = (window.spent()?, all() - before);
        stop.store(true, Ordering::Relaxed);
        while let Some(ended) = readers.join_next().await {
            ended??;
        }
        if let Some(first) = first {
            first.release().await?;
        }
        client.close().await;
        Ok(Joins { joins, time: spent.time, cpu: spent.cpu })
    })
}

/// The count of a task, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Count(AtomicU64);

/// What there was in a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joins {
    joins: u64,
    time: Duration,
    cpu: Duration,
}

impl Joins {
    /// The figures.
    pub(super) fn figures(&self) -> Vec<(Metric, f64)> {
        let joins = self.joins as f64;
        vec![
            (JOINS_PER_S, joins / self.time.as_secs_f64()),
            (CLIENT_US_PER_JOIN, self.cpu.as_secs_f64() * 1e6 / joins.max(1.0)),
        ]
    }
}
