//! Ending attempts and leases: at once, in the background until the backend has answered, or
//! without any runtime.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{AttemptId, Backoff, Deadline, LossReason};
use tokio::sync::mpsc;

use crate::backend::{End, Verdict};
use crate::hold::Hold;
use crate::renewal::Job;
use crate::shared::{Shared, elapsed, jitter};
use crate::{Error, ErrorKind, Name, Result};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Longest that a lease can outlive its client: after that there is nothing left to end.
const GIVE_UP: Duration = crate::options::MAX_TTL;

/// Repeats an ending until the backend has answered it, or refuses it for good.
pub(crate) async fn end(shared: &Shared, end: End) {
    let mut unfinished = Unfinished { shared, name: end.name.clone(), attempt: Some(end.attempt) };
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    let until = Deadline::after(shared.clock.now(), GIVE_UP);
    loop {
        match shared.backend.release(end.clone()).await {
            Ok(_) => break,
            Err(error) if error.kind() != ErrorKind::Unavailable => {
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
    unfinished.attempt = None;
    if !shared.capability.ordered {
        shared.freed(&end.name);
    }
}

/// An ending that stops half-way (with its runtime) leaves the rest to the backend.
struct Unfinished<'a> {
    shared: &'a Shared,
    name: Name,
    attempt: Option<AttemptId>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(attempt) = self.attempt {
            self.shared.backend.abandon(&self.name, attempt);
        }
    }
}

/// What is left of the minimum hold.
fn rest_of_min_hold(shared: &Shared, hold: &Hold) -> Option<Duration> {
    if hold.min_hold.is_zero() {
        return None;
    }
    hold.min_hold
        .checked_sub(elapsed(hold.since, shared.clock.now()))
        .filter(|rest| !rest.is_zero())
}

/// Waits for the rest of the minimum hold where the engine cannot keep the lock without us.
/// Renewal goes on meanwhile; a loss ends the wait.
async fn linger(shared: &Shared, hold: &Hold) {
    if let Some(rest) = rest_of_min_hold(shared, hold).filter(|_| !shared.capability.keep) {
        tokio::select! {
            () = shared.clock.sleep(rest) => {}
            () = hold.lost_signal().cancelled() => {}
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
    let now = shared.clock.now();
    let valid = hold.lease().release(now);
    if valid {
        shared.meters.released.increment(1);
        shared.meters.held_for(elapsed(hold.since, now));
    }
    Some(valid)
}

/// Releases a hold whose guards were dropped.
pub(crate) async fn release_in_background(shared: &Shared, hold: &Hold) {
    let mut unfinished =
        Unfinished { shared, name: hold.name.clone(), attempt: Some(hold.attempt) };
    linger(shared, hold).await;
    unfinished.attempt = None;
    let keep = rest_of_min_hold(shared, hold);
    if close(shared, hold).is_some() {
        end(shared, hold.end(keep)).await;
    }
}

/// Releases a hold without waiting and without a runtime.
pub(crate) fn abandon(shared: &Shared, hold: &Hold) {
    if close(shared, hold).is_some() {
        shared.backend.abandon(&hold.name, hold.attempt);
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
    pub(crate) async fn run(mut self) -> Result<()> {
        let shared = self.shared.clone();
        if self.stay {
            linger(&shared, &self.hold).await;
        }
        let keep = rest_of_min_hold(&shared, &self.hold).filter(|_| self.stay);
        let Some(valid) = close(&shared, &self.hold) else {
            self.job = None;
            return Err(self.lost());
        };
        let end = self.hold.end(keep);
        self.job = Some(Job::End(end.clone()));
        let ended = shared.backend.release(end).await;
        if !shared.capability.ordered {
            shared.freed(&self.hold.name);
        }
        match ended {
            Ok(ended) => {
                self.job = None;
                match ended.verdict {
                    Verdict::Released | Verdict::Unknown if valid => Ok(()),
                    _ => Err(self.lost()),
                }
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => Err(error),
            Err(error) => {
                self.job = None;
                Err(error)
            }
        }
        .map_err(|error| error.during("release", Some(&self.hold.name)))
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
        match job {
            Job::End(end) => shared.backend.abandon(&end.name, end.attempt),
            Job::Release(hold) => abandon(shared, &hold),
            Job::Settle(_) => {}
        }
    }
}
