//! What a program may do to acquires and guards instead of waiting for and releasing them.

use std::panic::resume_unwind;
use std::thread::sleep;
use std::time::Duration;

use super::{Counter, cached};
use crate::journal::{DROPPED_WRITES, HoldEnd, JournalEntry};
use crate::part::Part;
use crate::workload::Workload;
use crate::{MS, now};

/// How an acquire or a hold is abandoned; the name in the journal and in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abandon {
    /// The future of an acquire is dropped at some point.
    DroppedAcquire,
    /// The same of one that wants to write where others read.
    DroppedWrite,
    /// The guard is dropped without a release.
    DroppedGuard,
    /// The task that has the guard panics.
    Panic,
    /// The runtime that a guard was acquired in ends before the guard is dropped.
    RuntimeEnd,
    /// The runtime of a client that has cached the lease ends.
    CachedRuntimeEnd,
}

impl Abandon {
    /// Of this moment.
    pub(super) fn line(self) -> JournalEntry {
        let what = match self {
            Self::DroppedAcquire => "dropped acquires",
            Self::DroppedWrite => DROPPED_WRITES,
            Self::DroppedGuard => "dropped guards",
            Self::Panic => "panics of holders",
            Self::RuntimeEnd => "runtimes ended under a guard",
            Self::CachedRuntimeEnd => "runtimes ended over a cached lease",
        };
        JournalEntry::Abandoned { at: now(), what: what.to_owned() }
    }

    /// How a hold ends: mostly by a release.
    pub(super) fn of_hold(rng: &mut fastrand::Rng) -> Option<Self> {
        match rng.u32(..100) {
            0..5 => Some(Self::DroppedGuard),
            5..8 => Some(Self::Panic),
            _ => None,
        }
    }
}

/// Drops the future of an acquire after up to 50 ms, or the guard that it gave by then.
pub(super) async fn drop_acquire<T>(acquire: impl Future<Output = T>, time: Duration) {
    // A guard that it gave by then is dropped.
    tokio::time::timeout(time, acquire).await.ok();
}

/// Ends the task that has a guard by a panic, without a message.
pub(super) async fn panic_with<G: Send + 'static>(guard: G) {
    let task = tokio::spawn(async move {
        let _guard = guard;
        tokio::task::yield_now().await;
        resume_unwind(Box::new("planned"));
    });
    task.await.ok();
}

impl Counter {
    /// Acquires the lock by a client of its own in a runtime of its own, ends the runtime, and then drops the
    /// guard. A client that caches the lease has released it before, in every other case. Blocks the thread.
    pub(super) fn end_runtime(&self, url: &str, pause: Duration) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let guard = runtime.block_on(async {
            let client = leasehold::connect(url).await.ok()?;
            let asked = now();
            let lock = cached::lock(&client, self.workload, 0);
            let guard = lock.acquire_within(Duration::from_secs(2)).await.ok()?;
            let hold = self.begins(asked, &guard, Part::Whole);
            let at = now();
            let end = if guard.is_valid() { HoldEnd::Valid } else { HoldEnd::Told };
            self.journal.write(&JournalEntry::Ended {
                hold,
                at,
                end,
                deadline: super::deadline(&guard),
            });
            if self.workload == Workload::Cached && pause.subsec_nanos().is_multiple_of(2) {
                guard.release().await.ok();
                return Some((Abandon::CachedRuntimeEnd, None));
            }
            Some((Abandon::RuntimeEnd, Some(guard)))
        });
        drop(runtime);
        let Some((abandon, guard)) = guard else { return Ok(()) };
        sleep(pause);
        self.journal.write(&abandon.line());
        drop(guard);
        Ok(())
    }
}

/// A random time of at most so many milliseconds.
pub(super) fn up_to(rng: &mut fastrand::Rng, ms: u64) -> Duration {
    Duration::from_nanos(rng.u64(..ms * MS))
}
