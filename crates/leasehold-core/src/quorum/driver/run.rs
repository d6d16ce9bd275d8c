//! One attempt on its way through the nodes.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::quorum::Attempt;
use leasehold_proto::{AttemptId, Deadline, Now};
use tokio::sync::oneshot;

use super::denial::Denial;
use crate::backend::{Ended, Origin};
use crate::{Name, Result};

/// A machine, and for whom it runs.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) machine: Attempt,
    pub(super) name: Name,
    /// Of the name.
    pub(super) hash: u64,
    pub(super) origin: Arc<Origin>,
    /// Nodes that refuse it shall tell when the lock is free.
    pub(super) waits: bool,
    /// By which the client knows it, for as long as it wants something of it.
    pub(super) client: Option<AttemptId>,
    /// When the nodes were asked last (for it, to renew it, to end it), and how long each node is waited for.
    pub(super) asked: Now,
    pub(super) limit: Duration,
    /// It was held at some time.
    pub(super) held: bool,
    /// It was denied, and who asked for it is told when the other nodes were heard.
    pub(super) denial: Option<Box<Denial>>,
    /// The renewal that waits for its verdict: which batch, and the place in it.
    pub(super) renewal: Option<(usize, usize)>,
    /// Who waits for its end.
    pub(super) ender: Option<oneshot::Sender<Result<Ended>>>,
    /// Steps that wait to be sent, or for a reply.
    pub(super) outstanding: usize,
    /// Steady time of its timer.
    pub(super) timer: Option<u64>,
}

impl Run {
    /// When it is to be looked at: a time limit, or the end of a lease that nobody renews.
    pub(super) fn due(&self) -> Option<Deadline> {
        let (limit, end) = (self.machine.poll_timeout(), self.machine.deadline());
        limit.map_or(end, |limit| Some(end.map_or(limit, |end| end.min(limit))))
    }

    /// Nothing will come of it any more.
    pub(super) fn is_over(&self) -> bool {
        self.outstanding == 0 && self.machine.is_done()
    }
}
