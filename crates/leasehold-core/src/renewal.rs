//! The background task of a client (the "watchdog"). It renews leases in batches, reports losses in
//! time, delivers events to waiters, and ends abandoned attempts.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_proto::client::{AfterPush, Granted, Pushed, SLOW_POLL, Standing, decide_push};
use leasehold_proto::handoff;
use leasehold_proto::{AttemptId, Deadline, LossReason, Now, Step};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinSet};

use crate::backend::{Event, Events, ReleaseRequest, Renewal, Renewed};
use crate::background_job::{Job, abandon_jobs};
use crate::engine_request::granted;
use crate::hold::Hold;
use crate::hold_end::{close_dropped, linger, lingers};
use crate::local_handoff::{give_all_back, give_back};
use crate::local_queue::Wanted;
use crate::pending_release::PendingRelease;
use crate::shared::{Shared, jitter};
use crate::table_capacity::shrink_map;
use crate::timer_buckets::{bucket_end, deadline};
use crate::{Error, ErrorKind, Name, Result};

/// How many leases one call to the backend renews.
const BATCH: usize = 256;
/// How often the task reads the clock while it holds anything, since clocks may jump.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How far the wall clock must run ahead of the steady clock to count as a jump.
const JUMP_NS: i128 = 50_000_000;

/// The result of one of the task's own calls.
enum Done {
    Renewed(Now, Vec<(Arc<Hold>, Renewal)>, Vec<Result<Renewed>>),
    Ended,
    /// A hold whose guards were dropped has reached its minimum hold.
    Stayed(Arc<Hold>),
    /// It is time to end the stray attempt.
    Stray,
}

/// A release whose task runs.
#[derive(Debug)]
struct Unfinished {
    /// Its place in the order in which releases began.
    number: u64,
    /// What remains to be done if the task is dropped.
    job: Job,
}

/// When a client outside wants the lease of an attempt that no local task has, the attempt is ended
/// after this time. By then, an end that is in progress has been answered. Only one such attempt is
/// tracked, to keep the cost low.
const STRAY: Duration = Duration::from_secs(1);
/// How many jobs are taken in one turn.
const JOBS: usize = 256;

pub(crate) struct Task {
    shared: Arc<Shared>,
    jobs: mpsc::UnboundedReceiver<Job>,
    events: Events,
    running: JoinSet<Done>,
    /// The releases among the running tasks. Their tasks end with the runtime; their jobs are kept
    /// here.
    releases: HashMap<Id, Unfinished>,
    began: u64,
    /// Callers that wait for all releases below a number.
    settling: Vec<(u64, oneshot::Sender<()>)>,
    /// An attempt of this client that the engine takes for a holder, though no local task has it.
    stray: Option<(Name, handoff::ReleaseRequest)>,
    /// The wall clock minus the steady clock at the last look, and the time of that look.
    offset_ns: i128,
    looked_at: Now,
}

impl Task {
    pub(crate) fn new(
        shared: Arc<Shared>,
        jobs: mpsc::UnboundedReceiver<Job>,
        events: Events,
    ) -> Self {
        let now = shared.clock.now();
        Self {
            shared,
            jobs,
            events,
            running: JoinSet::new(),
            releases: HashMap::new(),
            began: 0,
            settling: Vec::new(),
            stray: None,
            offset_ns: offset(now),
            looked_at: now,
        }
    }

    /// Runs until every handle of the client has gone and everything abandoned has ended.
    pub(crate) async fn run(mut self) {
        let mut handles_live = true;
        let mut backend_live = true;
        let mut jobs = Vec::new();
        while handles_live || !self.releases.is_empty() {
            let wake_at = self.next_look();
            // Callers that wait for the engine come before clean-up.
            tokio::select! {
                biased;
                () = sleep(&self.shared, wake_at) => self.look(),
                event = self.events.recv(), if backend_live => match event {
                    Some(event) => self.handle_event(event),
                    None => backend_live = false,
                },
                Some(done) = self.running.join_next_with_id() => self.handle_done(done),
                taken = self.jobs.recv_many(&mut jobs, JOBS), if handles_live => {
                    handles_live = taken > 0;
                    jobs.drain(..).for_each(|job| self.handle_job(job));
                    if !handles_live {
                        // No task can take a cached lease any more, and none is cached from now on.
                        self.shared.close();
                        self.give_all_back();
                    }
                }
                () = self.shared.wake.notified() => {}
            }
            self.tell_settled();
        }
    }

    fn tell_settled(&mut self) {
        if self.settling.is_empty() {
            return;
        }
        let awaited = self.releases.values().filter(|unfinished| unfinished.job.is_awaited());
        let oldest = awaited.map(|unfinished| unfinished.number).min().unwrap_or(u64::MAX);
        for (below, waiting) in std::mem::take(&mut self.settling) {
            match below <= oldest {
                true => drop(waiting.send(()).ok()),
                false => self.settling.push((below, waiting)),
            }
        }
    }

    /// Returns when to look next. A client that held something a moment ago is likely to hold
    /// again. The task then sleeps as if it still held, and is not woken for each short hold.
    fn next_look(&self) -> Option<Deadline> {
        let now = self.shared.clock.now();
        let again = LOOK_AGAIN.as_nanos() as u64;
        let mut held = self.shared.held();
        held.asleep_until = match (held.next_due(self.shared.cached_end()), held.asleep_until) {
            (Some(next), _) => Some(next.min(self.looked_at.steady_ns + again)),
            (None, Some(at)) if at > now.steady_ns => Some(at.min(now.steady_ns + again)),
            (None, _) => None,
        };
        held.asleep_until.map(|at| deadline(now, at))
    }

    /// Does what is due: sends renewals in batches, and reports losses.
    fn look(&mut self) {
        let now = self.shared.clock.now();
        self.looked_at = now;
        let offset = offset(now);
        let jumped = offset - self.offset_ns > JUMP_NS;
        self.offset_ns = offset;
        let (mut renewals, mut others) = (Vec::new(), Vec::new());
        for hold in self.shared.take_due_cached(now) {
            self.give_back(&hold);
        }
        let mut held = self.shared.held();
        let mut due = held.buckets.take_due(now);
        if jumped {
            due = held.all();
        }
        for hold in due {
            let step = {
                let mut lease = hold.lease();
                // A lost lease is released at its deadline, not a little before.
                let early = lease.loss().is_none();
                let at = if early { bucket_end(now, lease.terms().ttl) } else { now };
                lease.handle_timeout(at)
            };
            held.buckets.schedule(&hold);
            match step {
                Step::Wait => {}
                // A lease without a holder is not renewed, even if the next holder takes it over late.
                Step::Renew if hold.is_released() => {}
                Step::Renew => renewals.push(hold),
                Step::Lost(_) | Step::End => others.push((hold, step)),
            }
        }
        drop(held);
        for (hold, step) in others {
            match step {
                Step::Lost(reason) => match self.take_cached_of(&hold) {
                    Some(cached) => self.give_back(&cached),
                    None => self.shared.tell_loss(&hold, reason),
                },
                Step::End if hold.claim_end() => {
                    self.shared.forget(&hold);
                    self.end(PendingRelease::of_hold(&hold, hold.end(None)));
                }
                _ => {}
            }
        }
        while !renewals.is_empty() {
            let rest = renewals.split_off(renewals.len().min(BATCH));
            self.send_renewals(std::mem::replace(&mut renewals, rest));
        }
    }

    fn send_renewals(&mut self, holds: Vec<Arc<Hold>>) {
        let shared = self.shared.clone();
        self.running.spawn(async move {
            let sent = shared.clock.now();
            let batch: Vec<Renewal> = holds.iter().map(|hold| hold.renewal()).collect();
            let longest = batch.iter().map(|renewal| renewal.ttl).max().unwrap_or_default();
            let limit = Deadline::after(sent, longest);
            let answers = shared.clock.within(Some(limit), shared.backend.renew(&batch)).await;
            let answers = answers.unwrap_or_else(|| {
                batch.iter().map(|_| Err(Error::new(ErrorKind::Unavailable, "no answer"))).collect()
            });
            Done::Renewed(sent, holds.into_iter().zip(batch).collect(), answers)
        });
    }

    fn handle_done(&mut self, done: std::result::Result<(Id, Done), JoinError>) {
        match done {
            Ok((_, Done::Renewed(sent, batch, answers))) => {
                self.handle_renewals(sent, &batch, answers);
            }
            Ok((id, Done::Ended)) => drop(self.releases.remove(&id)),
            Ok((id, Done::Stayed(hold))) => {
                let number = self.releases.remove(&id).map_or(self.began, |stayed| stayed.number);
                self.close(number, &hold);
            }
            Ok((_, Done::Stray)) => self.end_stray(),
            // The runtime ends, and this task with it: its drop ends the rest.
            Err(error) if error.is_cancelled() => {}
            // A panic in the backend: renewals are sent again; an unfinished end is left to the ttl.
            Err(error) => drop(self.releases.remove(&error.id())),
        }
        shrink_map(&mut self.releases);
    }

    /// Handles the answers to a batch; each concerns the current holder of that attempt.
    fn handle_renewals(
        &mut self,
        sent: Now,
        batch: &[(Arc<Hold>, Renewal)],
        answers: Vec<Result<Renewed>>,
    ) {
        let now = self.shared.clock.now();
        let (mut renewed, mut failed, mut lost) = (0, 0, Vec::new());
        let mut wanted = Vec::new();
        let mut held = self.shared.held();
        for ((hold, renewal), answer) in batch.iter().zip(answers) {
            let Some(hold) = held.now_held(hold) else { continue };
            match answer {
                Ok(answer @ (Renewed::Renewed | Renewed::Wanted)) => {
                    renewed += 1;
                    if answer == Renewed::Wanted {
                        wanted.push(hold.clone());
                    }
                    // The lease may have been extended since: this answer counts with its own ttl.
                    hold.lease().handle_extended(sent, now, renewal.ttl, jitter());
                }
                // Its new lease has another attempt.
                Ok(Renewed::Lost) if hold.is_converting() => continue,
                Ok(Renewed::Lost) => {
                    lost.push(hold);
                    continue;
                }
                Err(error) => {
                    failed += 1;
                    tracing::debug!(name = %hold.name, %error, "renewal failed; retrying");
                    hold.lease().handle_renewal_failed(now, jitter());
                }
            }
            held.buckets.schedule(&hold);
        }
        drop(held);
        self.shared.meters.renewed.increment(renewed);
        self.shared.meters.renewal_failed.increment(failed);
        for hold in wanted {
            if let Wanted::Cached(cached) = self.shared.wanted(&hold.name, hold.attempt) {
                self.give_back(&cached);
            }
        }
        for hold in lost {
            self.shared.lose(&hold, LossReason::NotOwner);
        }
    }

    fn handle_job(&mut self, job: Job) {
        match job {
            Job::End(pending) => self.end(pending),
            Job::Release(hold) => self.release(hold),
            Job::Settle(answer) => self.settling.push((self.began, answer)),
        }
    }

    /// Releases a hold whose guards were dropped, after its minimum hold.
    fn release(&mut self, hold: Arc<Hold>) {
        let number = self.next_number();
        if !lingers(&self.shared, &hold) {
            return self.close(number, &hold);
        }
        let (shared, stays) = (self.shared.clone(), hold.clone());
        let task = self.running.spawn(async move {
            linger(&shared, &stays).await;
            Done::Stayed(stays)
        });
        self.releases.insert(task.id(), Unfinished { number, job: Job::Release(hold) });
    }

    fn close(&mut self, number: u64, hold: &Arc<Hold>) {
        if let Some(pending) = close_dropped(&self.shared, hold, true) {
            self.spawn_release(number, pending);
        }
    }

    fn end(&mut self, pending: PendingRelease) {
        let number = self.next_number();
        self.spawn_release(number, pending);
    }

    fn next_number(&mut self) -> u64 {
        self.began += 1;
        self.began - 1
    }

    /// Runs a release: an end that the backend does at once needs no task.
    fn spawn_release(&mut self, number: u64, pending: PendingRelease) {
        let mut run = Box::pin(pending.clone().run(self.shared.clone()));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        if run.as_mut().poll(&mut context).is_ready() {
            return;
        }
        let task = self.running.spawn(async move {
            run.await;
            Done::Ended
        });
        self.releases.insert(task.id(), Unfinished { number, job: Job::End(pending) });
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Granted { name, attempt, grant } => {
                self.handle_grant(name, attempt, granted(grant, Vec::new()));
            }
            Event::Permit { name, attempt, grant, slots } => {
                self.handle_grant(name, attempt, granted(grant, slots));
            }
            // The engine refuses the next request, with the limit.
            Event::Refused { name, attempt, limit: _ } => {
                self.shared.tell(&name, attempt, |mail| mail.ask_again = true);
            }
            Event::Next { name, attempt, ask_again } => {
                let by = Deadline::after(self.shared.clock.now(), ask_again.min(SLOW_POLL));
                self.shared.tell(&name, attempt, |mail| mail.ask_by = Some(by));
            }
            Event::Wanted { name, attempt } => match self.shared.wanted(&name, attempt) {
                Wanted::Told => {}
                Wanted::Cached(hold) => self.give_back(&hold),
                Wanted::Unknown => {
                    if self.shared.is_stray(attempt) {
                        self.handle_unclaimed(name, attempt, Pushed::Wanted);
                    }
                }
            },
            Event::Freed { name } => self.shared.freed(&name),
            Event::Lost { attempt, base } => {
                if let Some(hold) = self.shared.held_by(attempt) {
                    self.handle_unclaimed(hold.name.clone(), attempt, Pushed::Lost(base));
                }
            }
            // Without messages no lease can stay cached, and the store may have lost its data.
            Event::Broken => {
                let cached = self.shared.broken(self.shared.clock.now());
                cached.iter().for_each(|hold| self.give_back(hold));
            }
            Event::Reset => {
                let cached = self.shared.reset(self.shared.clock.now());
                cached.iter().for_each(|hold| self.give_back(hold));
            }
        }
    }

    /// Takes out a lease if it is cached.
    fn take_cached_of(&self, hold: &Hold) -> Option<Arc<Hold>> {
        self.shared.queues.take_cached_of(&hold.name, hold.attempt)
    }

    /// Ends a lease that was cached until now.
    fn give_back(&mut self, hold: &Hold) {
        if let Some(pending) = give_back(&self.shared, hold) {
            self.end(pending);
        }
    }

    /// Ends all cached leases.
    fn give_all_back(&mut self) {
        for pending in give_all_back(&self.shared) {
            self.end(pending);
        }
    }

    /// Handles a message for an attempt with which no task waits.
    fn handle_unclaimed(&mut self, name: Name, attempt: AttemptId, push: Pushed) {
        let hold = self.shared.held_by(attempt);
        let standing = match &hold {
            Some(hold) => Standing::Holding(hold.tokens.base()),
            None if self.releases.values().any(|one| one.job.ends(attempt)) => Standing::Ending,
            None => Standing::Unknown,
        };
        match (decide_push(attempt, push, standing), hold) {
            (AfterPush::Lose, Some(hold)) => self.shared.lose(&hold, LossReason::NotOwner),
            (AfterPush::End(end), _) => self.end(unclaimed(name, end)),
            (AfterPush::EndLater(end), _) => self.end_later(name, end),
            (AfterPush::Ignore | AfterPush::Lose, _) => {}
        }
    }

    /// Ends an attempt after a pause, unless another one is about to be ended so.
    fn end_later(&mut self, name: Name, end: handoff::ReleaseRequest) {
        if self.stray.is_some() {
            return;
        }
        self.stray = Some((name, end));
        let clock = self.shared.clock.clone();
        self.running.spawn(async move {
            clock.sleep(STRAY).await;
            Done::Stray
        });
    }

    fn end_stray(&mut self) {
        let Some((name, end)) = self.stray.take() else { return };
        tracing::debug!(%name, attempt = %end.attempt, "ending an attempt that no local task uses");
        self.end(unclaimed(name, end));
    }

    /// Handles a pushed grant: for a waiter, or for a caller that has left and must release it.
    fn handle_grant(&mut self, name: Name, attempt: AttemptId, granted: Granted) {
        let base = granted.tokens.base();
        if !self.shared.tell(&name, attempt, |mail| mail.granted = Some(granted)) {
            self.handle_unclaimed(name, attempt, Pushed::Granted(base));
        }
    }
}

impl Drop for Task {
    /// Runs when the task ends with its runtime, perhaps while locks are held: no task renews them
    /// any more, so their holders are notified now, and no caller acquires another lock.
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.shared.close();
        let cached = give_all_back(&self.shared);
        let held: Vec<Arc<Hold>> = self.shared.held().all();
        for hold in &held {
            let needs_renewal = !hold.lease().terms().session;
            if needs_renewal {
                self.shared.lose(hold, LossReason::ClientClosed);
            }
        }
        self.jobs.close();
        let mut left: Vec<Job> =
            self.releases.drain().map(|(_, unfinished)| unfinished.job).collect();
        left.extend(cached.into_iter().map(Job::End));
        while let Ok(job) = self.jobs.try_recv() {
            left.push(job);
        }
        abandon_jobs(&self.shared, left);
    }
}

/// Returns the end of an attempt that no local task has.
fn unclaimed(name: Name, end: handoff::ReleaseRequest) -> PendingRelease {
    PendingRelease::new(ReleaseRequest::of_machine(name, end), crate::options::DEFAULT_TTL)
}

async fn sleep(shared: &Shared, until: Option<Deadline>) {
    match until {
        Some(until) => shared.clock.sleep_until(until).await,
        None => std::future::pending().await,
    }
}

fn offset(now: Now) -> i128 {
    i128::from(now.wall_ns) - i128::from(now.steady_ns)
}
