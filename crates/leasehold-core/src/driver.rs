//! The part of a client that its locks and guards work with: its state, and the way to its
//! background task.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::background_job::{Job, hand_over};
use crate::pending_release::PendingRelease;
use crate::shared::Shared;

#[derive(Clone, Debug)]
pub(crate) struct Driver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) jobs: mpsc::UnboundedSender<Job>,
}

impl Driver {
    /// Has the background task end something, if there is anything to end.
    pub(crate) fn end(&self, pending: Option<PendingRelease>) {
        if let Some(pending) = pending {
            self.hand_over(Job::End(pending));
        }
    }

    /// Sends a job to the background task; without a task, does what can be done at once.
    pub(crate) fn hand_over(&self, job: Job) {
        hand_over(&self.shared, &self.jobs, job);
    }
}
