//! Ends attempts and leases at the backend, and repeats that until it has answered. The decisions are
//! those of [`leasehold_proto::client::PendingRelease`].

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::client::{
    self, AfterRelease, ForwardedReply, ReleasePauses, ReleaseResult, Sound,
};
use leasehold_proto::{AttemptId, Deadline, LossReason, Now};

use crate::backend::{AcquireRequest, Answer, Ended, ReleaseRequest};
use crate::common_errors::no_answer;
use crate::engine_request::reply;
use crate::hold::Hold;
use crate::shared::{Shared, jitter};
use crate::{LeaseKind, Result, Retry};

/// An attempt that must be ended at the backend.
#[derive(Clone, Debug)]
pub(crate) struct PendingRelease {
    /// Without the request of another task, which `machine` has.
    release: ReleaseRequest,
    machine: client::PendingRelease<Box<AcquireRequest>>,
    /// The ttl of its lease.
    ttl: Duration,
    /// The holder was notified that the lease is lost. This end only cleans up, and no caller waits
    /// for it.
    lost: bool,
}

impl PendingRelease {
    pub(crate) fn new(mut release: ReleaseRequest, ttl: Duration) -> Self {
        let machine = client::PendingRelease::new(release.then.take());
        Self { release, machine, ttl, lost: false }
    }

    pub(crate) fn of_hold(hold: &Hold, release: ReleaseRequest) -> Self {
        let lease = hold.lease();
        let lost = lease.loss().is_some_and(leaves_nothing);
        Self { lost, ..Self::new(release, lease.terms().ttl) }
    }

    /// Returns true if it ends this attempt.
    pub(crate) fn ends(&self, attempt: AttemptId) -> bool {
        self.release.attempt == attempt
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Returns the request to the backend.
    pub(crate) fn request(&self) -> ReleaseRequest {
        ReleaseRequest { then: self.machine.then().cloned(), ..self.release.clone() }
    }

    /// Records that the sending future was dropped: the request may have been sent.
    pub(crate) fn after_drop(mut self) -> Self {
        self.machine.handle_dropped();
        self
    }

    /// Asks the backend once to end the attempt, within the patience of the client. The caller
    /// behind the exchange gets its own answer. Returns the result, and whether the end is over:
    /// carried out, or refused for good.
    pub(crate) async fn send(&mut self, shared: &Shared, sent: Now) -> (Result<Ended>, bool) {
        let mut ended = send(shared, sent, self.request()).await;
        let mut after = self.machine.handle_result(summary(&ended), Sound);
        if let AfterRelease::Alone { forward_to, again } = &after {
            if let Err(error) = &ended {
                forward(shared, forward_to, sent, Err(error.clone()), *again);
            }
            ended = send(shared, shared.clock.now(), self.request()).await;
            after = self.machine.handle_result(summary(&ended), Sound);
        }
        if let (AfterRelease::Done { forward_to: Some(request), again }, Ok(ended)) =
            (&after, &mut ended)
            && let Some(answer) = ended.then.take()
        {
            forward(shared, request, sent, Ok(answer), *again);
        }
        (ended, matches!(after, AfterRelease::Done { .. } | AfterRelease::Stop))
    }

    /// Repeats the end until the backend has answered or refused it for good, or the lease has
    /// expired. A session ends only with its process, so for sessions the repeats continue.
    pub(crate) async fn run(mut self, shared: Arc<Shared>) {
        let session = shared.capability.lease == LeaseKind::Session;
        let lasts = if session { crate::options::MAX_TTL } else { self.ttl };
        let mut pauses = ReleasePauses::new(shared.clock.now(), lasts);
        loop {
            let (ended, over) = self.send(&shared, shared.clock.now()).await;
            match ended {
                Err(error) if over => {
                    tracing::debug!(name = %self.release.name, %error, "cannot end an attempt");
                }
                Err(error) => {
                    tracing::trace!(name = %self.release.name, %error, "retrying to end an \
                                                                        attempt");
                }
                Ok(_) => {}
            }
            let pause = pauses.next(shared.clock.now(), jitter).filter(|_| !over);
            let Some(pause) = pause else { return };
            shared.clock.sleep(pause).await;
        }
    }
}

/// Gives the task behind an exchange its half of the answer.
fn forward(
    shared: &Shared,
    request: &AcquireRequest,
    sent: Now,
    answer: Result<Answer>,
    again: bool,
) {
    let forwarded = ForwardedReply { sent, reply: reply(answer), again };
    let queues = shared.queues_of(request.mode);
    queues.tell(&request.name, request.attempt, |mail| mail.forwarded = Some(forwarded));
}

async fn send(shared: &Shared, sent: Now, release: ReleaseRequest) -> Result<Ended> {
    let limit = Deadline::after(sent, shared.patience);
    let name = (!shared.capability.ordered).then(|| release.name.clone());
    let ended = shared.called(sent, limit, None, shared.backend.release(release)).await;
    if let Some(name) = name {
        shared.freed(&name);
    }
    ended.unwrap_or_else(|| Err(no_answer()))
}

fn summary(ended: &Result<Ended>) -> ReleaseResult {
    match ended {
        Ok(_) => ReleaseResult::Answered,
        Err(error) if error.kind().is_certain() => {
            ReleaseResult::Refused { for_good: error.retry() == Retry::Useless }
        }
        Err(_) => ReleaseResult::Unanswered,
    }
}

/// Returns true after a loss for which the backend has ended the lease too, or ends it at the same
/// time. After other losses the backend may keep the lease for the rest of its ttl.
pub(crate) fn leaves_nothing(reason: LossReason) -> bool {
    matches!(reason, LossReason::Expired | LossReason::NotOwner)
}
