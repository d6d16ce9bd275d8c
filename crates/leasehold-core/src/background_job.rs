//! The work that handles leave to the background task, and what becomes of it without a task.

use std::sync::Arc;

use leasehold_proto::AttemptId;
use tokio::sync::{mpsc, oneshot};

use crate::hold::Hold;
use crate::hold_end::{close_dropped, lingers};
use crate::pending_release::PendingRelease;
use crate::shared::Shared;

/// Work that handles send to the background task.
#[derive(Debug)]
pub(crate) enum Job {
    /// End an attempt, and repeat until the backend has answered.
    End(PendingRelease),
    /// The last guard of a hold was dropped: release it after its minimum hold.
    Release(Arc<Hold>),
    /// Answer when everything that had to be ended has ended.
    Settle(oneshot::Sender<()>),
}

impl Job {
    /// Returns true if it ends this attempt.
    pub(crate) fn ends(&self, attempt: AttemptId) -> bool {
        match self {
            Self::End(pending) => pending.ends(attempt),
            Self::Release(hold) => hold.attempt == attempt,
            Self::Settle(_) => false,
        }
    }

    /// Returns true if [`Client::settle`](crate::Client::settle) waits for it.
    pub(crate) fn is_awaited(&self) -> bool {
        !matches!(self, Self::End(pending) if pending.is_lost())
    }
}

/// Sends a job to the background task; without a task, does what can be done at once.
pub(crate) fn hand_over(shared: &Shared, jobs: &mpsc::UnboundedSender<Job>, job: Job) {
    if let Err(mpsc::error::SendError(job)) = jobs.send(job) {
        abandon_jobs(shared, vec![job]);
    }
}

/// Does what can be done of the jobs without a runtime.
pub(crate) fn abandon_jobs(shared: &Shared, jobs: Vec<Job>) {
    let end = |job| match job {
        Job::End(pending) => Some(pending),
        Job::Release(hold) => {
            // No task is left to end it later: its ttl or session ends it, and never too soon.
            let stays = lingers(shared, &hold);
            close_dropped(shared, &hold, true).filter(|_| !stays)
        }
        Job::Settle(_) => None,
    };
    let releases: Vec<PendingRelease> = jobs.into_iter().filter_map(end).collect();
    releases.iter().for_each(|pending| shared.backend.abandon(&pending.request()));
    let worth = releases.into_iter().filter(|pending| !pending.is_lost());
    shared.late.finish(&shared.clock, worth.map(|pending| pending.request()).collect());
}
