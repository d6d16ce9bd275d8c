//! One attempt on its way through the nodes.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::quorum::Attempt;
use leasehold_proto::{AttemptId, Deadline, Now};
use tokio::sync::oneshot;

use super::denial::Denial;
use leasehold_core::backend::{Ended, Origin};
use leasehold_core::{Name, Result};

/// A machine, and the attempt that it runs for.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) machine: Attempt,
    pub(super) name: Name,
    /// The hash of the lock name.
    pub(super) hash: u64,
    pub(super) origin: Arc<Origin>,
    /// Nodes that refuse it notify the client when the lock is free.
    pub(super) waits: bool,
    /// The attempt id of the client, while the client needs it.
    pub(super) client: Option<AttemptId>,
    /// When the nodes were last asked (to acquire, renew or release), and how long to wait for each
    /// node.
    pub(super) asked: Now,
    pub(super) limit: Duration,
    /// It was held at some time.
    pub(super) held: bool,
    /// It was denied; its caller gets the error once the other nodes have replied.
    pub(super) denial: Option<Box<Denial>>,
    /// The nodes that notified waiters of other clients when it was released.
    pub(super) notified: u64,
    /// The renewal that waits for its result: the batch, and the place in it.
    pub(super) renewal: Option<(usize, usize)>,
    /// The caller that waits for its end.
    pub(super) ender: Option<oneshot::Sender<Result<Ended>>>,
    /// How many steps wait to be sent, or for a reply.
    pub(super) outstanding: usize,
    /// The steady time of its timer.
    pub(super) timer: Option<u64>,
}

impl Run {
    /// Returns when to look at it again: at a time limit, or at the end of a lease that is not
    /// renewed.
    pub(super) fn due(&self) -> Option<Deadline> {
        let (limit, end) = (self.machine.poll_timeout(), self.machine.deadline());
        limit.map_or(end, |limit| Some(end.map_or(limit, |end| end.min(limit))))
    }

    /// Returns true if nothing more will happen to it.
    pub(super) fn is_over(&self) -> bool {
        self.outstanding == 0 && self.machine.is_done()
    }
}
