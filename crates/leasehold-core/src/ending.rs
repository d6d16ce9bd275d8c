//! Ends attempts and leases: at once, in the background until the backend has answered, or without
//! a runtime.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{Backoff, Deadline, LossReason, Now};
use tokio::sync::mpsc;

use crate::backend::{Ask, End, Ended, LeaseKind, Verdict};
use crate::hold::Hold;
use crate::line::Told;
use crate::pass::{self, Onward};
use crate::renewal::Job;
use crate::shared::{Shared, jitter};
use crate::{Error, ErrorKind, Result, Retry};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Asks the backend to end an attempt, within the patience of the client, and to grant a lease to
/// `then`. The caller behind `then` gets the answer, and whether the request was repeated
/// (`again`). If the exchange is refused, the attempt is ended alone, so that both get their own
/// answer.
async fn end_once(
    shared: &Shared,
    sent: Now,
    end: End,
    then: &mut Option<Box<Ask>>,
    again: bool,
) -> Result<Ended> {
    let Some(ask) = then else { return send(shared, sent, end).await };
    let exchange = End { then: Some(ask.clone()), ..end.clone() };
    let mut ended = send(shared, sent, exchange).await;
    let answer = match &mut ended {
        Ok(ended) => ended.then.take().map(Ok),
        Err(error) => error.kind().is_certain().then(|| Err(error.clone())),
    };
    let Some(answer) = answer else { return ended };
    let refused = answer.is_err();
    let told = Told { sent, answer, again };
    shared.lines.tell(&ask.name, ask.attempt, |inbox| inbox.answer = Some(told));
    if refused {
        *then = None;
        return send(shared, shared.clock.now(), end).await;
    }
    ended
}

async fn send(shared: &Shared, sent: Now, end: End) -> Result<Ended> {
    let limit = Deadline::after(sent, shared.patience);
    let name = (!shared.capability.ordered).then(|| end.name.clone());
    let ended = shared.called(sent, limit, None, shared.backend.release(end)).await;
    if let Some(name) = name {
        shared.lines.freed(&name);
    }
    ended.unwrap_or_else(|| {
        Err(Error::new(
            ErrorKind::Unavailable,
            "the backend did not answer in time; check that the server is reachable",
        ))
    })
}

/// Returns true if the backend refuses, and will refuse again.
fn is_final(error: &Error) -> bool {
    error.kind().is_certain() && error.retry() == Retry::Useless
}

/// An attempt that must be ended at the backend.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    end: End,
    /// The ttl of its lease.
    ttl: Duration,
    /// It was sent before, without an answer.
    again: bool,
    /// The holder was notified that the lease is lost. This end only cleans up, and no caller waits
    /// for it.
    lost: bool,
}

impl Ending {
    pub(crate) fn new(end: End, ttl: Duration) -> Self {
        Self { end, ttl, again: false, lost: false }
    }

    pub(crate) fn of_hold(hold: &Hold, end: End) -> Self {
        let lease = hold.lease();
        let lost = lease.loss().is_some_and(leaves_nothing);
        Self { lost, ..Self::new(end, lease.terms().ttl) }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Repeats the end until the backend has answered or refused it for good, or the lease has
    /// expired. A session ends only with its process, so for sessions the repeats continue.
    pub(crate) async fn run(self, shared: Arc<Shared>) {
        let Self { mut end, ttl, mut again, .. } = self;
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut then = end.then.take();
        let session = shared.capability.lease == LeaseKind::Session;
        let lasts = if session { crate::options::MAX_TTL } else { ttl };
        let until = Deadline::after(shared.clock.now(), lasts);
        loop {
            match end_once(&shared, shared.clock.now(), end.clone(), &mut then, again).await {
                Ok(_) => return,
                Err(error) if is_final(&error) => {
                    tracing::debug!(name = %end.name, %error, "cannot end an attempt");
                    return;
                }
                Err(error) => tracing::trace!(name = %end.name, %error, "ending an attempt again"),
            }
            again = true;
            if until.has_passed(shared.clock.now()) {
                return;
            }
            shared.clock.sleep(backoff.next(jitter())).await;
        }
    }
}

/// Returns true after a loss for which the backend has ended the lease too, or ends it at the same
/// time. After other losses the backend may keep the lease for the rest of its ttl.
fn leaves_nothing(reason: LossReason) -> bool {
    matches!(reason, LossReason::Expired | LossReason::NotOwner)
}

/// Returns the rest of the minimum hold, by the steady clock.
fn rest_of_min_hold(shared: &Shared, hold: &Hold) -> Option<Duration> {
    if hold.min_hold().is_zero() {
        return None;
    }
    hold.min_hold().checked_sub(hold.held_for(shared.clock.now())).filter(|rest| !rest.is_zero())
}

/// Returns how long the backend must keep the lock, if it can.
fn keep(shared: &Shared, hold: &Hold) -> Option<Duration> {
    rest_of_min_hold(shared, hold).filter(|_| shared.capability.keep)
}

/// Returns true if a release must wait for the rest of the minimum hold: the engine cannot keep the
/// lock without the client.
pub(crate) fn lingers(shared: &Shared, hold: &Hold) -> bool {
    !shared.capability.keep && rest_of_min_hold(shared, hold).is_some()
}

/// Waits for the rest of the minimum hold if the engine cannot keep the lock without the client.
/// Renewal continues meanwhile. It does not wait for a lock that another client may hold by now. It
/// does wait for a lock that nears its maximum hold, which is held until then.
pub(crate) async fn linger(shared: &Shared, hold: &Hold) {
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

/// What must still be done for a hold whose end was claimed.
enum Closed {
    /// Nothing: the next local waiter has the lease.
    Passed,
    /// Send this. The flag says whether the lease was held until now.
    End(End, bool),
}

/// Gives up a hold and removes it from the books; `None` if another task has ended it already.
fn close(shared: &Shared, hold: &Arc<Hold>, keep: Option<Duration>, now: Now) -> Option<Closed> {
    if !hold.claim_end() {
        return None;
    }
    let then = match pass::let_go(shared, hold, keep.is_some(), now) {
        Onward::Passed => return Some(Closed::Passed),
        Onward::End(then) => then,
    };
    shared.forget(hold);
    let ours = hold.lease().release(now);
    Some(Closed::End(End { then, ..hold.end(keep) }, ours))
}

/// Records in the metrics how a lease ended whose loss was not reported.
fn record(shared: &Shared, hold: &Hold, released: bool, now: Now) {
    let meter = if released { &shared.meters.released } else { &shared.meters.lost };
    meter.increment(1);
    shared.meters.held_for(hold.held_for(now));
    if !released {
        tracing::warn!(name = %hold.name, token = hold.token().get(), "lock found lost at its release");
    }
}

/// Releases a hold whose last guard was dropped: hands it to a local waiter, or ends it in the
/// background. With `stay`, it first waits for the rest of the minimum hold.
pub(crate) fn let_drop(
    shared: &Shared,
    jobs: &mpsc::UnboundedSender<Job>,
    hold: Arc<Hold>,
    stay: bool,
) {
    if stay && !hold.min_hold().is_zero() {
        return hand_over(shared, jobs, Job::Release(hold));
    }
    if let Some(ending) = close_dropped(shared, &hold, stay) {
        hand_over(shared, jobs, Job::End(ending));
    }
}

/// Removes a hold whose guards were dropped from the books; returns what must be sent.
pub(crate) fn close_dropped(shared: &Shared, hold: &Arc<Hold>, stay: bool) -> Option<Ending> {
    let now = shared.clock.now();
    match close(shared, hold, keep(shared, hold).filter(|_| stay), now)? {
        Closed::End(end, ours) => {
            if ours {
                record(shared, hold, true, now);
            }
            Some(Ending::of_hold(hold, end))
        }
        Closed::Passed => {
            record(shared, hold, true, now);
            None
        }
    }
}

/// A release in progress; if its future is dropped, the background task finishes it.
pub(crate) struct Releasing {
    shared: Arc<Shared>,
    jobs: mpsc::UnboundedSender<Job>,
    hold: Arc<Hold>,
    /// Wait for the rest of the minimum hold.
    stay: bool,
    left: Left,
}

/// What the background task must do if the future is dropped now.
enum Left {
    Release,
    /// Continue the end that is in progress.
    End(Option<Duration>, Option<Box<Ask>>),
    Nothing,
}

/// What a release does after the books were updated.
pub(crate) enum Next {
    /// Nothing.
    Done(Result<()>),
    /// It ends the lease at the backend.
    Send(Sending),
}

/// The end of a lease that must be sent.
pub(crate) struct Sending {
    end: End,
    now: Now,
    /// The lease was held when the program released it.
    valid: bool,
    /// It was held until the books were updated.
    ours: bool,
}

impl Releasing {
    pub(crate) fn new(
        shared: Arc<Shared>,
        jobs: mpsc::UnboundedSender<Job>,
        hold: Arc<Hold>,
        stay: bool,
    ) -> Self {
        Self { shared, jobs, hold, stay, left: Left::Release }
    }

    /// Returns true if the lease is held now. The program's work under the lock ends with its release.
    pub(crate) fn is_valid(&self) -> bool {
        self.hold.lease().is_valid(self.shared.clock.now())
    }

    /// Returns true if the release waits for the rest of a minimum hold.
    pub(crate) fn lingers(&self) -> bool {
        self.stay && !self.hold.min_hold().is_zero()
    }

    /// Waits for the rest of the minimum hold, which only protects other clients.
    pub(crate) async fn linger(&self) {
        linger(&self.shared, &self.hold).await;
    }

    /// Updates the books, which passes the lock to a local waiter if there is one. `valid` says whether the lease was
    /// held when the program released it, if that is not now.
    pub(crate) fn close(&mut self, valid: Option<bool>) -> Next {
        let now = self.shared.clock.now();
        let valid = valid.unwrap_or_else(|| self.hold.lease().is_valid(now));
        let keep = keep(&self.shared, &self.hold).filter(|_| self.stay);
        let (mut end, ours) = match close(&self.shared, &self.hold, keep, now) {
            Some(Closed::End(end, ours)) => (end, ours),
            Some(Closed::Passed) => {
                record(&self.shared, &self.hold, true, now);
                return self.done(valid);
            }
            None => return self.done(valid),
        };
        if !ours && self.hold.lease().loss().is_some_and(leaves_nothing) {
            // The answer would have no effect, and may take long.
            let ending = Ending::of_hold(&self.hold, end);
            hand_over(&self.shared, &self.jobs, Job::End(ending));
            return self.done(valid);
        }
        self.left = Left::End(keep, end.then.take());
        Next::Send(Sending { end, now, valid, ours })
    }

    fn done(&mut self, valid: bool) -> Next {
        self.left = Left::Nothing;
        Next::Done(if valid { Ok(()) } else { Err(self.lost()) })
    }

    /// Ends the lease at the backend, and fails if it was not held until now.
    pub(crate) async fn send(&mut self, Sending { end, now, valid, ours }: Sending) -> Result<()> {
        let Left::End(_, then) = &mut self.left else { return Ok(()) };
        let verdict = match end_once(&self.shared, now, end, then, false).await {
            Ok(ended) => ended.verdict,
            Err(error) => {
                if is_final(&error) {
                    self.left = Left::Nothing;
                }
                // A known loss stays a loss, even if the backend could not be reached.
                return Err(if valid { self.during(error) } else { self.lost() });
            }
        };
        self.left = Left::Nothing;
        let released = matches!(verdict, Verdict::Released | Verdict::Unknown);
        if ours {
            record(&self.shared, &self.hold, released, now);
        }
        match valid && (released || !ours) {
            true => Ok(()),
            false => Err(self.lost()),
        }
    }

    fn lost(&self) -> Error {
        let reason = self.hold.lease().loss();
        self.during(lost(reason.unwrap_or(LossReason::NotOwner)))
    }

    fn during(&self, error: Error) -> Error {
        error.during("release", Some(&self.hold.name))
    }
}

/// Returns the error for a loss.
pub(crate) fn lost(reason: LossReason) -> Error {
    Error::new(ErrorKind::Lost, format!("the lock was lost: {reason}"))
}

impl Drop for Releasing {
    fn drop(&mut self) {
        let job = match std::mem::replace(&mut self.left, Left::Nothing) {
            Left::Release => Job::Release(self.hold.clone()),
            Left::End(keep, then) => {
                let end = End { then, ..self.hold.end(keep) };
                Job::End(Ending { again: true, ..Ending::of_hold(&self.hold, end) })
            }
            Left::Nothing => return,
        };
        hand_over(&self.shared, &self.jobs, job);
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
        Job::End(ending) => Some(ending),
        Job::Release(hold) => {
            // No task is left to end it later: its ttl or session ends it, and never too soon.
            let stays = lingers(shared, &hold);
            close_dropped(shared, &hold, true).filter(|_| !stays)
        }
        Job::Settle(_) => None,
    };
    let endings: Vec<Ending> = jobs.into_iter().filter_map(end).collect();
    endings.iter().for_each(|ending| shared.backend.abandon(&ending.end));
    let worth = endings.into_iter().filter(|ending| !ending.lost);
    shared.late.finish(&shared.clock, worth.map(|ending| ending.end).collect());
}
