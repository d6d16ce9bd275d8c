//! Ending attempts and leases: at once, in the background until the backend has answered, or
//! without any runtime.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{Backoff, Deadline, LossReason};
use tokio::sync::mpsc;

use crate::backend::{End, Ended, LeaseKind, Verdict};
use crate::hold::Hold;
use crate::renewal::Job;
use crate::shared::{Shared, elapsed, jitter};
use crate::{Error, ErrorKind, Result};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Asks the backend to end an attempt, within the client's patience.
async fn end_once(shared: &Shared, end: &End) -> Result<Ended> {
    let limit = Deadline::after(shared.clock.now(), shared.patience);
    let ended = shared.clock.within(Some(limit), shared.backend.release(end.clone())).await;
    if !shared.capability.ordered {
        shared.freed(&end.name);
    }
    ended.unwrap_or_else(|| {
        Err(Error::new(ErrorKind::Unavailable, "the backend did not answer in the time given"))
    })
}

/// Repeats an ending until the backend has answered it, or refuses it for good, or a lease of
/// `ttl` has passed away by itself. A session ends no sooner than its process, so there it goes on.
///
/// Not an `async fn`: dropped before its first poll, it still abandons the attempt.
pub(crate) fn end(shared: Arc<Shared>, end: End, ttl: Duration) -> impl Future<Output = ()> {
    let unfinished = Unfinished { shared: shared.clone(), end: Some(end.clone()) };
    async move {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let session = shared.capability.lease == LeaseKind::Session;
        let lasts = if session { crate::options::MAX_TTL } else { ttl };
        let until = Deadline::after(shared.clock.now(), lasts);
        loop {
            match end_once(&shared, &end).await {
                Ok(_) => break,
                Err(error) if error.kind().is_certain() => {
                    tracing::debug!(name = %end.name, %error, "cannot end an attempt");
                    break;
                }
                Err(error) => tracing::trace!(name = %end.name, %error, "ending an attempt again"),
            }
            if until.has_passed(shared.clock.now()) {
                break;
            }
            shared.clock.sleep(backoff.next(jitter())).await;
        }
        unfinished.finish();
    }
}

/// An ending that stops half-way (with its runtime) leaves the rest to the backend.
struct Unfinished {
    shared: Arc<Shared>,
    end: Option<End>,
}

impl Unfinished {
    /// It was not stopped half-way, or something else sees to the rest.
    fn finish(mut self) {
        self.end = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(end) = &self.end {
            self.shared.backend.abandon(end);
        }
    }
}

/// What is left of the minimum hold, by the steady clock.
fn rest_of_min_hold(shared: &Shared, hold: &Hold) -> Option<Duration> {
    if hold.min_hold.is_zero() {
        return None;
    }
    hold.min_hold
        .checked_sub(elapsed(hold.since, shared.clock.now()))
        .filter(|rest| !rest.is_zero())
}

/// What the backend is asked to keep, where it can.
fn keep(shared: &Shared, hold: &Hold) -> Option<Duration> {
    rest_of_min_hold(shared, hold).filter(|_| shared.capability.keep)
}

/// Waits for the rest of the minimum hold where the engine cannot keep the lock without us.
/// Renewal goes on meanwhile. A lock that others may have by now is not waited for; one that
/// nears its maximum hold is, since it is ours until then.
async fn linger(shared: &Shared, hold: &Hold) {
    if shared.capability.keep {
        return;
    }
    while let Some(rest) = rest_of_min_hold(shared, hold) {
        let lost = hold.lease().loss();
        if lost.is_some_and(|reason| reason != LossReason::MaxHold) {
            return;
        }
        let told = async {
            match lost {
                None => hold.lost_signal().cancelled().await,
                Some(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shared.clock.sleep(rest) => {}
            () = told => {}
        }
    }
}

/// Stops renewal and closes the books; true if the lease was ours until now. `None` when somebody
/// else has ended it already.
fn close(shared: &Shared, hold: &Hold) -> Option<bool> {
    if !hold.claim_end() {
        return None;
    }
    shared.forget(hold);
    Some(hold.lease().release(shared.clock.now()))
}

/// Notes in the metrics how a lease ended that had not been told lost.
fn record(shared: &Shared, hold: &Hold, released: bool) {
    let meter = if released { &shared.meters.released } else { &shared.meters.lost };
    meter.increment(1);
    shared.meters.held_for(elapsed(hold.since, shared.clock.now()));
    if !released {
        tracing::warn!(name = %hold.name, token = hold.tokens.base().get(), "lock found lost at its release");
    }
}

/// Releases a hold whose guards were dropped. Like [`end`], it can be dropped at any point.
pub(crate) fn release_in_background(
    shared: Arc<Shared>,
    hold: Arc<Hold>,
) -> impl Future<Output = ()> {
    let abandoned = hold.end(keep(&shared, &hold));
    let unfinished = Unfinished { shared: shared.clone(), end: Some(abandoned) };
    async move {
        linger(&shared, &hold).await;
        let keep = keep(&shared, &hold);
        let ttl = hold.lease().terms().ttl;
        let closed = close(&shared, &hold);
        if closed == Some(true) {
            record(&shared, &hold, true);
        }
        let ending = closed.map(|_| end(shared.clone(), hold.end(keep), ttl));
        unfinished.finish();
        if let Some(ending) = ending {
            ending.await;
        }
    }
}

/// Releases a hold without waiting and without a runtime.
pub(crate) fn abandon(shared: &Shared, hold: &Hold) {
    let end = hold.end(keep(shared, hold));
    if let Some(valid) = close(shared, hold) {
        if valid {
            record(shared, hold, true);
        }
        shared.backend.abandon(&end);
    }
}

/// A release under way; if its future is dropped, the background task finishes the work.
pub(crate) struct Releasing {
    shared: Arc<Shared>,
    jobs: mpsc::UnboundedSender<Job>,
    hold: Arc<Hold>,
    /// Stay for the rest of the minimum hold.
    stay: bool,
    job: Option<Job>,
}

impl Releasing {
    pub(crate) fn new(
        shared: Arc<Shared>,
        jobs: mpsc::UnboundedSender<Job>,
        hold: Arc<Hold>,
        stay: bool,
    ) -> Self {
        let job = Some(Job::Release(hold.clone()));
        Self { shared, jobs, hold, stay, job }
    }

    /// Gives the lease back and says whether it was ours until now.
    pub(crate) async fn run(self) -> Result<()> {
        let name = self.hold.name.clone();
        self.release().await.map_err(|error| error.during("release", Some(&name)))
    }

    async fn release(mut self) -> Result<()> {
        let shared = self.shared.clone();
        // What the program did under the lock was done by now; staying longer is for others.
        let valid = self.hold.lease().is_valid(shared.clock.now());
        if self.stay {
            linger(&shared, &self.hold).await;
        }
        let keep = keep(&shared, &self.hold).filter(|_| self.stay);
        let Some(ours) = close(&shared, &self.hold) else {
            self.job = None;
            return if valid { Ok(()) } else { Err(self.lost()) };
        };
        let end = self.hold.end(keep);
        let ttl = self.hold.lease().terms().ttl;
        self.job = Some(Job::End(end.clone(), ttl));
        let verdict = match end_once(&shared, &end).await {
            Ok(ended) => ended.verdict,
            Err(error) => {
                if error.kind().is_certain() {
                    self.job = None;
                }
                return Err(error);
            }
        };
        self.job = None;
        let released = matches!(verdict, Verdict::Released | Verdict::Unknown);
        if ours {
            record(&shared, &self.hold, released);
        }
        match valid && (released || !ours) {
            true => Ok(()),
            false => Err(self.lost()),
        }
    }

    fn lost(&self) -> Error {
        let reason = self.hold.lease().loss();
        lost(reason.unwrap_or(LossReason::NotOwner))
    }
}

/// The error that tells of a loss.
pub(crate) fn lost(reason: LossReason) -> Error {
    Error::new(ErrorKind::Lost, format!("the lock was lost: {reason}"))
}

impl Drop for Releasing {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            hand_over(&self.shared, &self.jobs, job);
        }
    }
}

/// Gives work to the background task; without one, does what can be done at once.
pub(crate) fn hand_over(shared: &Shared, jobs: &mpsc::UnboundedSender<Job>, job: Job) {
    if let Err(mpsc::error::SendError(job)) = jobs.send(job) {
        abandon_job(shared, job);
    }
}

/// Does what can be done of a job without a runtime.
pub(crate) fn abandon_job(shared: &Shared, job: Job) {
    match job {
        Job::End(end, _) => shared.backend.abandon(&end),
        Job::Release(hold) => abandon(shared, &hold),
        Job::Settle(_) => {}
    }
}
