//! The client's one background task (the "watchdog"): renews what is due in batches, tells losses
//! in time, hands events to those who wait, and ends what was abandoned.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_proto::{AttemptId, Deadline, LossReason, Now, Step};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinSet};

use crate::backend::{End, Event, Grant, Renewal, Renewed};
use crate::buckets::{bucket_end, deadline};
use crate::ending;
use crate::hold::Hold;
use crate::shared::{Shared, give_room_back, jitter};
use crate::{Error, ErrorKind, Name, Result};

/// Leases in one call to the backend.
const BATCH: usize = 256;
/// The task looks at the clock this often while it holds anything: clocks may jump.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// A wall clock that ran ahead of the steady one by this much has jumped.
const JUMP_NS: i128 = 50_000_000;

/// Work that handles give to the background task.
#[derive(Debug)]
pub(crate) enum Job {
    /// End an attempt with leases of this ttl, and go on until the backend has answered.
    End(End, Duration),
    /// The same for an end that was sent before, without an answer.
    EndAgain(End, Duration),
    /// The last guard of a hold was dropped: release it, after its minimum hold.
    Release(Arc<Hold>),
    /// Answer when everything that was to be ended has been.
    Settle(oneshot::Sender<()>),
}

/// What came of one of the task's own calls.
enum Done {
    Renewed(Now, Vec<Arc<Hold>>, Vec<Result<Renewed>>),
    Ended,
    /// It is time to end the stray.
    Stray,
}

/// An attempt that nobody here has is ended this long after somebody outside wants its lease: until
/// then its own end, which may be under way, is answered. One at a time, so that this costs little.
const STRAY: Duration = Duration::from_secs(1);
/// Jobs taken in one turn.
const JOBS: usize = 256;

pub(crate) struct Task {
    shared: Arc<Shared>,
    jobs: mpsc::UnboundedReceiver<Job>,
    events: mpsc::UnboundedReceiver<Event>,
    running: JoinSet<Done>,
    /// The endings among what runs, numbered in the order in which they began.
    endings: HashMap<Id, u64>,
    began: u64,
    /// Who waits for all endings below a number.
    settling: Vec<(u64, oneshot::Sender<()>)>,
    /// An attempt of ours that the engine believes to hold, though nobody here does.
    stray: Option<(Name, AttemptId)>,
    /// Wall minus steady clock when last looked at, and when that was.
    offset_ns: i128,
    looked_at: Now,
}

impl Task {
    pub(crate) fn new(
        shared: Arc<Shared>,
        jobs: mpsc::UnboundedReceiver<Job>,
        events: mpsc::UnboundedReceiver<Event>,
    ) -> Self {
        let now = shared.clock.now();
        Self {
            shared,
            jobs,
            events,
            running: JoinSet::new(),
            endings: HashMap::new(),
            began: 0,
            settling: Vec::new(),
            stray: None,
            offset_ns: offset(now),
            looked_at: now,
        }
    }

    /// Runs until every handle of the client has gone and everything abandoned is ended.
    pub(crate) async fn run(mut self) {
        let mut handles_live = true;
        let mut backend_live = true;
        let mut jobs = Vec::new();
        while handles_live || !self.endings.is_empty() {
            let wake_at = self.next_look();
            // Whoever waits for the engine's word comes before what only tidies up.
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
        let oldest = self.endings.values().min().copied().unwrap_or(u64::MAX);
        for (below, waiting) in std::mem::take(&mut self.settling) {
            match below <= oldest {
                true => drop(waiting.send(()).ok()),
                false => self.settling.push((below, waiting)),
            }
        }
    }

    /// When to look next. Who holds nothing any more, but did a moment ago, is likely to hold
    /// again: the task then sleeps on as if it still did, and is not woken for each short hold.
    fn next_look(&self) -> Option<Deadline> {
        let now = self.shared.clock.now();
        let again = LOOK_AGAIN.as_nanos() as u64;
        let mut held = self.shared.held();
        held.asleep_until = match (held.buckets.next(), held.asleep_until) {
            (Some(next), _) => Some(next.min(self.looked_at.steady_ns + again)),
            (None, Some(at)) if at > now.steady_ns => Some(at.min(now.steady_ns + again)),
            (None, _) => None,
        };
        held.asleep_until.map(|at| deadline(now, at))
    }

    /// Does what is due: renewals go out in batches, losses are told.
    fn look(&mut self) {
        let now = self.shared.clock.now();
        self.looked_at = now;
        let offset = offset(now);
        let jumped = offset - self.offset_ns > JUMP_NS;
        self.offset_ns = offset;
        let (mut renewals, mut others) = (Vec::new(), Vec::new());
        let mut held = self.shared.held();
        let mut due = held.buckets.take_due(now);
        if jumped {
            due = held.all();
        }
        for hold in due {
            let step = {
                let mut lease = hold.lease();
                // A lost lease is given back at its deadline, not a little before.
                let early = lease.loss().is_none();
                let at = if early { bucket_end(now, lease.terms().ttl) } else { now };
                lease.handle_timeout(at)
            };
            held.buckets.schedule(&hold);
            match step {
                Step::Wait => {}
                // Nobody's lease is not renewed, however long the next one takes to come for it.
                Step::Renew if hold.is_let_go() => {}
                Step::Renew => renewals.push(hold),
                Step::Lost(_) | Step::End => others.push((hold, step)),
            }
        }
        drop(held);
        for (hold, step) in others {
            match step {
                Step::Lost(reason) => self.shared.tell_loss(&hold, reason),
                Step::End if hold.claim_end() => {
                    self.shared.forget(&hold);
                    let ttl = hold.lease().terms().ttl;
                    let end = hold.end(None);
                    self.spawn_ending(ending::end(self.shared.clone(), end, ttl, false));
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
            Done::Renewed(sent, holds, answers)
        });
    }

    fn handle_done(&mut self, done: std::result::Result<(Id, Done), JoinError>) {
        match done {
            Ok((_, Done::Renewed(sent, holds, answers))) => {
                self.handle_renewals(sent, &holds, answers);
            }
            Ok((id, Done::Ended)) => drop(self.endings.remove(&id)),
            Ok((_, Done::Stray)) => self.end_stray(),
            // A panic in the backend: renewals are sent again, an ending is left to the ttl.
            Err(error) => drop(self.endings.remove(&error.id())),
        }
        give_room_back(&mut self.endings);
    }

    /// Answers to a batch; each concerns whoever holds for that attempt by now.
    fn handle_renewals(&self, sent: Now, holds: &[Arc<Hold>], answers: Vec<Result<Renewed>>) {
        let now = self.shared.clock.now();
        let (mut renewed, mut failed, mut lost) = (0, 0, Vec::new());
        let mut held = self.shared.held();
        for (hold, answer) in holds.iter().zip(answers) {
            let Some(hold) = held.now_held(hold) else { continue };
            match answer {
                Ok(Renewed::Renewed) => {
                    renewed += 1;
                    hold.lease().handle_renewed(sent, now, jitter());
                }
                Ok(Renewed::Lost) => {
                    lost.push(hold);
                    continue;
                }
                Err(error) => {
                    failed += 1;
                    tracing::debug!(name = %hold.name, %error, "renewal failed, trying again");
                    hold.lease().handle_renewal_failed(now, jitter());
                }
            }
            held.buckets.schedule(&hold);
        }
        drop(held);
        self.shared.meters.renewed.increment(renewed);
        self.shared.meters.renewal_failed.increment(failed);
        for hold in lost {
            self.shared.lose(&hold, LossReason::NotOwner);
        }
    }

    fn handle_job(&mut self, job: Job) {
        match job {
            Job::End(end, ttl) => {
                self.spawn_ending(ending::end(self.shared.clone(), end, ttl, false));
            }
            Job::EndAgain(end, ttl) => {
                self.spawn_ending(ending::end(self.shared.clone(), end, ttl, true));
            }
            Job::Release(hold) => {
                self.spawn_ending(ending::release_in_background(self.shared.clone(), hold));
            }
            Job::Settle(answer) => self.settling.push((self.began, answer)),
        }
    }

    /// Runs an ending: what the backend does at once needs no task of its own.
    fn spawn_ending(&mut self, ending: impl Future<Output = ()> + Send + 'static) {
        let mut ending = Box::pin(ending);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        if ending.as_mut().poll(&mut context).is_ready() {
            return;
        }
        let task = self.running.spawn(async move {
            ending.await;
            Done::Ended
        });
        self.endings.insert(task.id(), self.began);
        self.began += 1;
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Granted { name, attempt, grant } => self.handle_grant(name, attempt, grant),
            Event::Next { name, attempt, ask_again } => {
                self.shared.lines.tell(&name, attempt, |inbox| inbox.next = Some(ask_again));
            }
            Event::Wanted { name, attempt } => {
                if !self.shared.lines.wanted(&name, attempt, self.shared.clock.now()) {
                    self.suspect_stray(name, attempt);
                }
            }
            Event::Freed { name } => self.shared.lines.freed(&name),
            Event::Lost { attempt, base } => {
                // An attempt that was granted a lease again has another one.
                let hold = self.shared.held_by(attempt);
                let of = |hold: &Arc<Hold>| base.is_none_or(|base| hold.tokens().base() == base);
                if let Some(hold) = hold.filter(of) {
                    self.shared.lose(&hold, LossReason::NotOwner);
                }
            }
            Event::Broken => self.shared.lines.broken(self.shared.clock.now()),
            Event::Reset => self.shared.lines.reset(self.shared.clock.now()),
        }
    }

    /// Somebody outside waits for an attempt that is not at the front of its line. If nobody here
    /// holds for it either, it has been ended, and something has repeated an ask of it since.
    fn suspect_stray(&mut self, name: Name, attempt: AttemptId) {
        if self.stray.is_some() || !self.shared.is_stray(attempt) {
            return;
        }
        self.stray = Some((name, attempt));
        let clock = self.shared.clock.clone();
        self.running.spawn(async move {
            clock.sleep(STRAY).await;
            Done::Stray
        });
    }

    fn end_stray(&mut self) {
        let Some((name, attempt)) = self.stray.take() else { return };
        tracing::debug!(%name, %attempt, "ending an attempt that nobody has");
        let (base, last, keep, then) = (None, None, None, None);
        let end = End { name, attempt, base, last, suspect: true, keep, then };
        let ttl = crate::options::DEFAULT_TTL;
        self.spawn_ending(ending::end(self.shared.clone(), end, ttl, false));
    }

    /// A pushed grant: for a waiter, or for one that has given up and must give it back.
    fn handle_grant(&mut self, name: Name, attempt: AttemptId, grant: Grant) {
        if self.shared.lines.tell(&name, attempt, |inbox| inbox.granted = Some(grant))
            || self.shared.held_by(attempt).is_some()
        {
            return;
        }
        let base = Some(grant.tokens.base());
        let end = End { name, attempt, base, last: None, suspect: false, keep: None, then: None };
        let ttl = crate::options::DEFAULT_TTL;
        self.spawn_ending(ending::end(self.shared.clone(), end, ttl, false));
    }
}

impl Drop for Task {
    /// The task ends with its runtime, perhaps while locks are held: nobody renews them any more,
    /// so their holders are told now, and nobody acquires another.
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.shared.close();
        let held: Vec<Arc<Hold>> = self.shared.held().all();
        for hold in &held {
            let needs_renewal = !hold.lease().terms().session;
            if needs_renewal {
                self.shared.lose(hold, LossReason::ClientClosed);
            }
        }
        self.jobs.close();
        let mut left = Vec::new();
        while let Ok(job) = self.jobs.try_recv() {
            left.push(job);
        }
        ending::abandon_jobs(&self.shared, left);
    }
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
