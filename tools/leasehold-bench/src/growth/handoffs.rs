//! One lock that many want again at once, and the time from each grant to the next.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leasehold::Lock;
use tokio::task::JoinSet;

use super::operation::{Figures, LEAST, nanoseconds};
use crate::Result;
use crate::measure::Window;
use crate::pairs::Times;

/// How often the measurement checks whether it is done.
const CHECK: Duration = Duration::from_millis(2);

/// Tasks that want one lock, until this is dropped.
#[derive(Debug, Default)]
pub(super) struct Takers {
    tasks: JoinSet<Result<()>>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Tasks that have begun to acquire.
    begun: AtomicUsize,
    /// The tasks end instead of acquiring again.
    stop: AtomicBool,
    record: Mutex<Record>,
}

#[derive(Debug, Default)]
struct Record {
    /// When the lock was granted last, and to which task.
    last: Option<(Instant, usize)>,
    /// Nanoseconds from a grant to the next, to another task.
    took: Vec<u64>,
}

impl Takers {
    /// Starts a task for this lock. All locks have one name.
    pub(super) fn add(&mut self, lock: Lock) {
        self.tasks.spawn(take(lock, self.tasks.len(), self.shared.clone()));
    }

    /// Waits until all tasks have begun to acquire, and `done` returns true.
    pub(super) async fn begun(&mut self, done: impl Fn() -> bool) -> Result<()> {
        let (shared, tasks) = (self.shared.clone(), self.tasks.len());
        self.until(|| shared.begun.load(Ordering::Relaxed) >= tasks && done()).await
    }

    /// Measures until the window is over and there were some hand-offs. The lock must be free, or soon so.
    pub(super) async fn measure(&mut self, times: Times, servers: &[u32]) -> Result<Figures> {
        self.pass(times.warm_up, 1).await?;
        self.shared.record().took.clear();
        let window = Window::open(servers)?;
        self.pass(times.window, LEAST).await?;
        let took = std::mem::take(&mut self.shared.record().took);
        Figures::of(&took, &window)
    }

    /// Lets so much time and so many hand-offs pass.
    async fn pass(&mut self, time: Duration, least: usize) -> Result<()> {
        let (start, shared) = (Instant::now(), self.shared.clone());
        self.until(|| start.elapsed() >= time && shared.record().took.len() >= least).await
    }

    /// Waits until `done`, or until a task has failed.
    async fn until(&mut self, done: impl Fn() -> bool) -> Result<()> {
        while !done() {
            tokio::select! {
                () = tokio::time::sleep(CHECK) => {}
                Some(ended) = self.tasks.join_next() => ended??,
            }
        }
        Ok(())
    }

    /// Ends all of them: the holder releases, and the others stop waiting.
    pub(super) async fn stop(mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.tasks.shutdown().await;
    }
}

impl Shared {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    fn granted(&mut self, task: usize) {
        let now = Instant::now();
        if let Some((last, before)) = self.last.replace((now, task))
            && before != task
        {
            self.took.push(nanoseconds(now.duration_since(last)));
        }
    }
}

async fn take(lock: Lock, task: usize, shared: Arc<Shared>) -> Result<()> {
    shared.begun.fetch_add(1, Ordering::Relaxed);
    while !shared.stop.load(Ordering::Relaxed) {
        let guard = lock.acquire().await?;
        shared.record().granted(task);
        guard.release().await?;
    }
    Ok(())
}
