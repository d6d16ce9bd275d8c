//! Ending attempts and leases: at once, in the background until the backend has answered, or
//! without any runtime.

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

/// Asks the backend to end an attempt, within the client's patience, and `then` for another. Whoever
/// that is hears the answer, and whether this was sent `again`; if it is refused, the attempt is
/// ended alone, so that each hears of its own.
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
        Err(Error::new(ErrorKind::Unavailable, "the backend did not answer in the time given"))
    })
}

/// True when the backend refuses, and will refuse again.
fn is_final(error: &Error) -> bool {
    error.kind().is_certain() && error.retry() == Retry::Useless
}

/// Repeats an ending until the backend has answered it, or refuses it for good, or a lease of
/// `ttl` has passed away by itself. A session ends no sooner than its process, so there it goes on.
/// `again` when it has been sent before, without an answer.
///
/// Not an `async fn`: dropped before its first poll, it still abandons the attempt.
pub(crate) fn end(
    shared: Arc<Shared>,
    mut end: End,
    ttl: Duration,
    mut again: bool,
) -> impl Future<Output = ()> {
    let unfinished = Unfinished { shared: shared.clone(), end: Some(end.clone()) };
    async move {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut then = end.then.take();
        let session = shared.capability.lease == LeaseKind::Session;
        let lasts = if session { crate::options::MAX_TTL } else { ttl };
        let until = Deadline::after(shared.clock.now(), lasts);
        loop {
            match end_once(&shared, shared.clock.now(), end.clone(), &mut then, again).await {
                Ok(_) => break,
                Err(error) if is_final(&error) => {
                    tracing::debug!(name = %end.name, %error, "cannot end an attempt");
                    break;
                }
                Err(error) => tracing::trace!(name = %end.name, %error, "ending an attempt again"),
            }
            again = true;
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
        if let Some(end) = self.end.take() {
            self.shared.abandon(vec![end]);
        }
    }
}

/// What is left of the minimum hold, by the steady clock.
fn rest_of_min_hold(shared: &Shared, hold: &Hold) -> Option<Duration> {
    if hold.min_hold().is_zero() {
        return None;
    }
    hold.min_hold().checked_sub(hold.held_for(shared.clock.now())).filter(|rest| !rest.is_zero())
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

/// What is left to do of a hold whose end was claimed.
enum Closed {
    /// Nothing: the next in line of this process has the lease.
    Passed,
    /// To send this. The lease was ours until now, or was not.
    End(End, bool),
}

/// Lets go of a hold and closes the books; `None` when somebody else has ended it already.
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

/// Notes in the metrics how a lease ended that had not been told lost.
fn record(shared: &Shared, hold: &Hold, released: bool, now: Now) {
    let meter = if released { &shared.meters.released } else { &shared.meters.lost };
    meter.increment(1);
    shared.meters.held_for(hold.held_for(now));
    if !released {
        tracing::warn!(name = %hold.name, token = hold.token().get(), "lock found lost at its release");
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
        let ttl = hold.lease().terms().ttl;
        let now = shared.clock.now();
        let ending = match close(&shared, &hold, keep(&shared, &hold), now) {
            Some(Closed::End(closed, ours)) => {
                if ours {
                    record(&shared, &hold, true, now);
                }
                Some(end(shared.clone(), closed, ttl, false))
            }
            Some(Closed::Passed) => {
                record(&shared, &hold, true, now);
                None
            }
            None => None,
        };
        unfinished.finish();
        if let Some(ending) = ending {
            ending.await;
        }
    }
}

/// Releases a hold whose last guard was dropped: passes it on at once or ends it in the background.
pub(crate) fn let_drop(shared: &Shared, jobs: &mpsc::UnboundedSender<Job>, hold: Arc<Hold>) {
    if !hold.min_hold().is_zero() {
        return hand_over(shared, jobs, Job::Release(hold));
    }
    let now = shared.clock.now();
    match close(shared, &hold, None, now) {
        Some(Closed::End(end, ours)) => {
            if ours {
                record(shared, &hold, true, now);
            }
            let ttl = hold.lease().terms().ttl;
            hand_over(shared, jobs, Job::End(end, ttl));
        }
        Some(Closed::Passed) => record(shared, &hold, true, now),
        None => {}
    }
}

/// Closes the books of a hold that is released without a runtime; what is to be sent.
fn abandon(shared: &Shared, hold: &Arc<Hold>) -> Option<End> {
    let now = shared.clock.now();
    match close(shared, hold, keep(shared, hold), now) {
        Some(Closed::End(end, ours)) => {
            if ours {
                record(shared, hold, true, now);
            }
            Some(end)
        }
        Some(Closed::Passed) => {
            record(shared, hold, true, now);
            None
        }
        None => None,
    }
}

/// A release under way; if its future is dropped, the background task finishes the work.
pub(crate) struct Releasing {
    shared: Arc<Shared>,
    jobs: mpsc::UnboundedSender<Job>,
    hold: Arc<Hold>,
    /// Stay for the rest of the minimum hold.
    stay: bool,
    left: Left,
}

/// What the background task has to do if the future is dropped now.
enum Left {
    Release,
    /// To go on with the end that is under way.
    End(Option<Duration>, Option<Box<Ask>>),
    Nothing,
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

    /// Gives the lease back and says whether it was ours until now.
    pub(crate) async fn run(mut self) -> Result<()> {
        let released = self.release().await;
        released.map_err(|error| error.during("release", Some(&self.hold.name)))
    }

    async fn release(&mut self) -> Result<()> {
        // What the program did under the lock was done by now; staying longer is for others.
        let mut now = self.shared.clock.now();
        let valid = self.hold.lease().is_valid(now);
        if self.stay && !self.hold.min_hold().is_zero() {
            linger(&self.shared, &self.hold).await;
            now = self.shared.clock.now();
        }
        let keep = keep(&self.shared, &self.hold).filter(|_| self.stay);
        let (mut end, ours) = match close(&self.shared, &self.hold, keep, now) {
            Some(Closed::End(end, ours)) => (end, ours),
            Some(Closed::Passed) => {
                self.left = Left::Nothing;
                record(&self.shared, &self.hold, true, now);
                return if valid { Ok(()) } else { Err(self.lost()) };
            }
            None => {
                self.left = Left::Nothing;
                return if valid { Ok(()) } else { Err(self.lost()) };
            }
        };
        self.left = Left::End(keep, end.then.take());
        let Left::End(_, then) = &mut self.left else { return Ok(()) };
        let verdict = match end_once(&self.shared, now, end, then, false).await {
            Ok(ended) => ended.verdict,
            Err(error) => {
                if is_final(&error) {
                    self.left = Left::Nothing;
                }
                // A loss that is known stays one, whatever the backend could not be told.
                return Err(if valid { error } else { self.lost() });
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
        lost(reason.unwrap_or(LossReason::NotOwner))
    }
}

/// The error that tells of a loss.
pub(crate) fn lost(reason: LossReason) -> Error {
    Error::new(ErrorKind::Lost, format!("the lock was lost: {reason}"))
}

impl Drop for Releasing {
    fn drop(&mut self) {
        let job = match std::mem::replace(&mut self.left, Left::Nothing) {
            Left::Release => Job::Release(self.hold.clone()),
            Left::End(keep, then) => {
                let end = End { then, ..self.hold.end(keep) };
                Job::EndAgain(end, self.hold.lease().terms().ttl)
            }
            Left::Nothing => return,
        };
        hand_over(&self.shared, &self.jobs, job);
    }
}

/// Gives work to the background task; without one, does what can be done at once.
pub(crate) fn hand_over(shared: &Shared, jobs: &mpsc::UnboundedSender<Job>, job: Job) {
    if let Err(mpsc::error::SendError(job)) = jobs.send(job) {
        abandon_jobs(shared, vec![job]);
    }
}

/// Does what can be done of jobs without a runtime.
pub(crate) fn abandon_jobs(shared: &Shared, jobs: Vec<Job>) {
    let end = |job| match job {
        Job::End(end, _) | Job::EndAgain(end, _) => Some(end),
        Job::Release(hold) => abandon(shared, &hold),
        Job::Settle(_) => None,
    };
    shared.abandon(jobs.into_iter().filter_map(end).collect());
}
