//! Acquires a lock: joins the local queue, sends requests and waits between them. A dropped future
//! leaves nothing behind. The decisions are those of [`leasehold_proto::client`]; this file sends
//! and waits.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::client::{
    Acquire, Attempts, Granted, Heard, HeldTokens, Limits, Next, Reply, Silence, Sound, take_over,
};
use leasehold_proto::semaphore::Demand;
use leasehold_proto::{AttemptId, Deadline, Lease, Now};

use crate::backend::{AcquireRequest, Mode};
use crate::caching;
use crate::common_errors::{closed, no_answer, since, timed_out};
use crate::driver::Driver;
use crate::engine_request::{engine_request, held_tokens, reply};
use crate::hold::Hold;
use crate::local_handoff;
use crate::local_queue::{EngineRequest, Entered, Handover, Inbox, LocalQueues, LocalWaiter, Wish};
use crate::options::Options;
use crate::patience::Patience;
use crate::release::let_drop;
use crate::shared::{Shared, jitter};
use crate::telemetry::{ModeMeters, label};
use crate::{Error, ErrorKind, Name, Result};

/// Acquires a lock. Returns `None` if it is taken and the caller does not wait.
pub(crate) async fn acquire(
    driver: &Arc<Driver>,
    name: &Name,
    options: &Options,
    (mode, demand): (Mode, Option<Demand>),
    patience: Patience,
) -> Result<Option<Arc<Hold>>> {
    // With an engine that answers at once, the task must still yield to other tasks.
    tokio::task::coop::consume_budget().await;
    let shared = &driver.shared;
    let (meters, start) = (shared.meters.of(mode), shared.clock.now());
    let mut now = start;
    // In a block: what it keeps would take memory in each task that waits.
    let mut caller = {
        let wish = options.wish(shared, mode, demand)?;
        let cached = || caching::take(shared, name, options, &wish, start);
        let local = match shared.join(name, &wish, start).map(Ok).or_else(cached) {
            Some(Err(from)) => {
                let until = patience.end(start, shared.try_patience);
                Box::pin(caching::give_back_first(driver, from, until, start)).await;
                now = shared.clock.now();
                shared.join(name, &wish, now)
            }
            local => local.and_then(|local| local.ok()),
        };
        if let Some(hold) = local {
            meters.acquired.increment(1);
            meters.waited(Duration::ZERO);
            return Ok(Some(hold));
        }
        match patience {
            Patience::None => Caller::past(driver, name, options, wish),
            Patience::Until(end) => Caller::enter(driver, name, options, wish, (start, now), end),
        }
    };
    let outcome = match patience {
        Patience::None => caller.try_once().await,
        Patience::Until(_) => caller.run().await.map(Some),
    };
    match &outcome {
        Ok(Some(hold)) => {
            meters.acquired.increment(1);
            meters.waited(hold.waited_since(start));
        }
        Err(error) if error.kind() == ErrorKind::Timeout => meters.timed_out.increment(1),
        _ => {}
    }
    outcome
}

enum Outcome {
    Held(Arc<Hold>),
    Busy,
    /// The lease of this attempt ended before its grant arrived: use another attempt.
    Another,
}

/// The place of a caller in the local queue.
#[derive(Clone, Copy, Debug, PartialEq)]
enum QueuePosition {
    /// At the front, where it asks the engine.
    Front,
    /// Behind the front.
    Behind(u64),
    /// Not in the queue: it bypasses the queue, or holds the lock.
    Bypass,
    /// In no local queue, since it wants a permit: it waits in the queue of the engine.
    Beside,
}

/// A caller that wants a lock. If it is dropped before it holds, it leaves the queue. The next
/// local waiter continues its attempt at the engine, or the background task ends the attempt.
struct Caller<'a> {
    driver: &'a Driver,
    name: &'a Name,
    options: &'a Options,
    waiter: Arc<LocalWaiter>,
    place: QueuePosition,
    current: Option<Current>,
    limits: Limits,
    /// It was counted among the callers that found the lock taken.
    contended: bool,
}

/// The attempt that a caller asks for at the moment.
struct Current {
    request: AcquireRequest,
    acquire: Acquire<Error>,
}

impl<'a> Caller<'a> {
    fn new(
        driver: &'a Driver,
        name: &'a Name,
        options: &'a Options,
        wish: Wish,
        place: QueuePosition,
        start: Now,
        until: Option<Deadline>,
    ) -> Self {
        let (patience, waits) = (driver.shared.patience, place != QueuePosition::Bypass);
        let limits = Limits { start, until, patience, waits };
        let waiter = Arc::new(LocalWaiter::new(wish));
        Self { driver, name, options, waiter, place, current: None, limits, contended: false }
    }

    /// Bypasses the local queue.
    fn past(driver: &'a Driver, name: &'a Name, options: &'a Options, wish: Wish) -> Self {
        let start = driver.shared.clock.now();
        let until = Some(Deadline::after(start, driver.shared.try_patience));
        Self::new(driver, name, options, wish, QueuePosition::Bypass, start, until)
    }

    /// Joins the local queue.
    fn enter(
        driver: &'a Driver,
        name: &'a Name,
        options: &'a Options,
        wish: Wish,
        (start, now): (Now, Now),
        until: Option<Deadline>,
    ) -> Self {
        let mut caller = Self::new(driver, name, options, wish, QueuePosition::Front, start, until);
        caller.join_queue(now);
        caller
    }

    /// Joins the local queue; at its front, prepares an attempt. `now` has just been read.
    fn join_queue(&mut self, now: Now) {
        if self.waiter.wish.mode == Mode::Permit {
            self.place = QueuePosition::Beside;
            return self.begin_attempt(None);
        }
        let (queues, wish) = (self.queues(), &self.waiter.wish);
        let (entered, read) = queues.enter(self.name, &self.waiter);
        if let Some(read) = read {
            self.driver.end(local_handoff::give_back(self.shared(), &read));
        }
        match entered {
            Entered::Front => {
                let attempt = self.shared().new_attempt_at(now, wish.mode);
                queues.ask(self.name, attempt);
                let first = engine_request(self.name, wish, attempt, true, self.caches());
                self.take_up(first);
                self.place = QueuePosition::Front;
            }
            Entered::Behind(number) => self.place = QueuePosition::Behind(number),
            // Its turn is in the inbox already.
            Entered::Cached => {
                self.shared().uncached(Mode::Exclusive);
                self.place = QueuePosition::Behind(0);
            }
        }
    }

    /// Returns the local queues of the mode that the caller wants.
    fn queues(&self) -> &'a LocalQueues {
        self.driver.shared.queues_of(self.waiter.wish.mode)
    }

    fn shared(&self) -> &'a Arc<Shared> {
        &self.driver.shared
    }

    fn meters(&self) -> &'a ModeMeters {
        self.shared().meters.of(self.waiter.wish.mode)
    }

    fn take_up(&mut self, EngineRequest { request, pending, silence }: EngineRequest) {
        let acquire = Acquire::new(pending, silence, self.limits);
        self.current = Some(Current { request, acquire });
    }

    /// Tries once. Returns at once if a local task holds the lock.
    async fn try_once(&mut self) -> Result<Option<Arc<Hold>>> {
        let shared = self.shared();
        let held = shared.queues.holder(self.name).and_then(|attempt| shared.held_by(attempt));
        let busy = shared.passes
            && self.waiter.wish.mode != Mode::Permit
            && held.is_some_and(|held| held.lease().is_valid(self.limits.start));
        let mut attempts = Attempts::new();
        let mut may_ask = !busy;
        while may_ask {
            self.begin_attempt(None);
            may_ask = match self.ask_until_outcome(None).await? {
                Outcome::Held(hold) => return Ok(Some(hold)),
                Outcome::Busy => false,
                // A caller that does not wait makes no pauses.
                Outcome::Another => attempts.next(jitter).is_some(),
            };
        }
        self.meters().contended.increment(1);
        Ok(None)
    }

    /// Waits until it holds the lock.
    async fn run(&mut self) -> Result<Arc<Hold>> {
        let mut start = Some(self.limits.start);
        if let QueuePosition::Behind(_) = self.place {
            self.count_contended();
            if let Some(hold) = self.come_to_front().await? {
                return Ok(hold);
            }
            start = None;
        }
        let mut attempts = Attempts::new();
        loop {
            if let Outcome::Held(hold) = self.ask_until_outcome(start.take()).await? {
                return Ok(hold);
            }
            let Some(pause) = attempts.next(jitter) else { break };
            self.begin_attempt(None);
            if !pause.is_zero() {
                self.shared().clock.sleep(pause).await;
            }
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!(
                "{} grants in a row arrived after they had expired: the backend answers \
                 too slowly for a ttl of {:?}; use a longer ttl",
                Attempts::MAX,
                self.waiter.wish.terms.ttl
            ),
        ))
    }

    /// Waits in the local queue, and takes over what it gets at the front: a lease, or an attempt.
    async fn come_to_front(&mut self) -> Result<Option<Arc<Hold>>> {
        let shared = self.shared();
        let turn = loop {
            if shared.is_closed() {
                return Err(closed());
            }
            let turn = self.waiter.inbox().turn.take();
            match turn {
                // The lease was lost before this task woke up.
                Some(Handover::Join(hold)) if !hold.lease().is_valid(shared.clock.now()) => {
                    self.place = QueuePosition::Bypass;
                    self.leave(hold);
                    // Messages for that lease are not meant for the next attempt.
                    *self.waiter.inbox() = Inbox::default();
                    self.join_queue(shared.clock.now());
                    if self.place == QueuePosition::Front {
                        return Ok(None);
                    }
                }
                Some(turn) => break turn,
                None => {
                    let until = self.limits.until;
                    if shared.clock.within(until, self.waiter.bell.notified()).await.is_none() {
                        return Err(timed_out(self.waiter.wish.mode));
                    }
                }
            }
        };
        self.place = QueuePosition::Front;
        match turn {
            Handover::Join(hold) => {
                self.place = QueuePosition::Bypass;
                return Ok(Some(hold));
            }
            Handover::Ask(silence) => self.begin_attempt(silence),
            Handover::Attempt(engine_request) => self.take_up(*engine_request),
            Handover::Lease(from) => match self.take_over(&from) {
                Some(hold) => return Ok(Some(hold)),
                None => {
                    self.driver.end(local_handoff::end(shared, &from, None));
                    self.begin_attempt(None);
                }
            },
        }
        let current = self.current.as_ref();
        let silent = current.and_then(|current| current.acquire.fails_at_once(shared.clock.now()));
        silent.map_or(Ok(None), |error| Err(error.clone()))
    }

    /// Leaves a read lease that another task has shared with this one.
    fn leave(&self, hold: Arc<Hold>) {
        if self.shared().leave(&hold) {
            let_drop(self.driver, hold, false);
        }
    }

    /// Continues the lease of a holder that released it; `None` if it was lost meanwhile.
    fn take_over(&mut self, from: &Hold) -> Option<Arc<Hold>> {
        let shared = self.shared();
        let now = shared.clock.now();
        let terms = self.waiter.wish.terms;
        let (lease, tokens) = take_over(&from.lease(), &from.tokens, terms, now, Sound)?;
        let hold = Arc::new(self.prepare(from.attempt, tokens, lease, now, from.is_suspect()));
        if !shared.take_over(from, &hold) {
            return None;
        }
        shared.lead(&hold, false, now);
        self.place = QueuePosition::Bypass;
        tracing::debug!(name = %hold.name, token = hold.token().get(), "lock passed on");
        Some(hold)
    }

    /// Switches to a new attempt, which the engine does not know yet.
    fn begin_attempt(&mut self, silence: Option<Silence<Error>>) {
        self.end_attempt();
        let (front, mode) = (self.place == QueuePosition::Front, self.waiter.wish.mode);
        let attempt = match self.limits.waits {
            true => self.shared().new_attempt(mode),
            false => self.shared().new_attempt_past(mode),
        };
        let many = front && mode == Mode::Exclusive || self.caches();
        let new = engine_request(self.name, &self.waiter.wish, attempt, self.limits.waits, many);
        self.take_up(EngineRequest { silence, ..new });
        if front {
            self.queues().ask(self.name, attempt);
        } else if mode == Mode::Shared || self.caches() {
            self.shared().reading.ask(attempt);
        } else if self.place == QueuePosition::Beside {
            self.shared().permit_waiters.ask(self.name, attempt, &self.waiter);
        }
        // Messages for the previous attempt are not meant for this one.
        *self.waiter.inbox() = Inbox::default();
    }

    /// Asks until there is an outcome. `now` is the current time, if the caller has just read it.
    async fn ask_until_outcome(&mut self, mut now: Option<Now>) -> Result<Outcome> {
        let clock = &self.shared().clock;
        loop {
            let current = self.current.as_ref();
            let waits = current.is_some_and(|one| one.acquire.pending().ask_at().is_some());
            let heard = if waits { self.listen().await? } else { Heard::Ask };
            let (sent, answered, next) = match heard {
                // A push contains its own validity; the time spent waiting does not count.
                Heard::Granted(granted) => {
                    let now = clock.now();
                    return Ok(self.hold(granted, now, now));
                }
                Heard::Reply(sent, reply) => {
                    let Some(current) = &mut self.current else { return Ok(Outcome::Another) };
                    let now = clock.now();
                    (sent, now, current.acquire.handle_forwarded(sent, now, reply, jitter))
                }
                Heard::Ask | Heard::Wait(_) => {
                    let sent = now.take().unwrap_or_else(|| clock.now());
                    let (answered, next) = self.ask_once(sent).await?;
                    (sent, answered, next)
                }
            };
            match next {
                Next::Hold(granted) => return Ok(self.hold(granted, sent, answered)),
                Next::Another => return Ok(Outcome::Another),
                Next::Taken => return Ok(Outcome::Busy),
                Next::AskAgain => tokio::task::coop::consume_budget().await,
                Next::Wait { answered: true } => self.count_contended(),
                Next::Wait { answered: false } => {
                    let error = self.last_error();
                    tracing::debug!(name = %self.name, ?error, "no answer, retrying");
                }
                Next::Fail(error) => return Err(error),
                Next::TimedOut(error) => {
                    return Err(since(timed_out(self.waiter.wish.mode), Some(error)));
                }
            }
        }
    }

    /// Returns why the last request failed, if no answer has arrived since.
    fn last_error(&self) -> Option<Error> {
        self.current.as_ref()?.acquire.last_error().cloned()
    }

    /// Asks the backend, within the limits of the caller and of the client. If there is no answer,
    /// the error of the previous request explains more. Also returns when the answer arrived.
    async fn ask_once(&mut self, now: Now) -> Result<(Now, Next<Error>)> {
        let shared = self.shared();
        let Some(Current { request, acquire }) = &mut self.current else {
            return Ok((now, Next::Another));
        };
        let patience = acquire.handle_sent(now);
        let asking = shared.backend.acquire(request.clone());
        let answer = shared.called(now, patience, self.limits.until, asking).await;
        let reply = answer.map_or_else(
            || Reply::Unanswered(acquire.last_error().cloned().unwrap_or_else(no_answer)),
            reply,
        );
        let answered = shared.clock.now();
        let next = acquire.handle_reply(now, answered, reply, jitter);
        if shared.is_closed() {
            return Err(closed());
        }
        Ok((answered, next))
    }

    /// Waits for a message, or until it is time to ask again.
    async fn listen(&mut self) -> Result<Heard<Error>> {
        let shared = self.shared();
        loop {
            if shared.is_closed() {
                return Err(closed());
            }
            let Some(Current { acquire, .. }) = &mut self.current else { return Ok(Heard::Ask) };
            let mail = self.waiter.inbox().mail.take();
            let heard = acquire.handle_mail(shared.clock.now(), mail);
            let Heard::Wait(wake_at) = heard else { return Ok(heard) };
            if shared.clock.within(Some(wake_at), self.waiter.bell.notified()).await.is_none() {
                return match acquire.handle_timeout(shared.clock.now()) {
                    true => Err(since(timed_out(self.waiter.wish.mode), self.last_error())),
                    false => Ok(Heard::Ask),
                };
            }
        }
    }

    /// Turns a grant into a hold. A grant whose deadline has passed already is released.
    fn hold(&mut self, granted: Granted, sent: Now, now: Now) -> Outcome {
        let shared = self.shared();
        let Some(current) = &self.current else { return Outcome::Another };
        let lease = granted.lease(sent, now, self.waiter.wish.terms, jitter(), Sound);
        let Ok(lease) = lease else {
            tracing::debug!(name = %self.name, "a grant arrived after it had expired; acquiring again");
            return Outcome::Another;
        };
        let pending = current.acquire.pending();
        let (attempt, suspect) = (pending.attempt(), pending.is_suspect());
        let tokens = held_tokens(self.waiter.wish.mode, granted.tokens);
        let mut hold = self.prepare(attempt, tokens, lease, now, suspect);
        if !granted.slots.is_empty() {
            hold.set_slots(&granted.slots);
            shared.permit_waiters.note_slots(attempt, granted.slots);
        }
        let hold = Arc::new(hold);
        self.current = None;
        if self.contended || granted.offer {
            shared.meters.remote.increment(1);
        }
        shared.look_after(&hold);
        match shared.passes {
            // A message that arrives from now on finds the hold.
            _ if self.waiter.wish.mode == Mode::Permit => shared.permit_waiters.asked(attempt),
            _ if self.waiter.wish.mode == Mode::Shared => self.begin_reading(&hold, granted.wanted),
            true => {
                shared.lead(&hold, granted.wanted, now);
                // A message that arrived outside the queue, before the grant.
                let past = self.place != QueuePosition::Front && self.caches();
                if past && shared.reading.asked(attempt) {
                    shared.wanted(self.name, attempt);
                }
            }
            // The next local waiter asks while this caller holds, and so joins the engine's queue.
            false if self.place == QueuePosition::Front => {
                shared.queues.next(self.name, Some(attempt), |_, _| (Handover::Ask(None), ()));
            }
            false => {}
        }
        self.place = QueuePosition::Bypass;
        tracing::debug!(name = %hold.name, token = hold.token().get(), mode = label(hold.mode()), "lock acquired");
        Outcome::Held(hold)
    }

    /// Returns true if the client caches the lease that this task asks for.
    fn caches(&self) -> bool {
        let shared = self.shared();
        let caches = !self.options.cache_time(shared.cache).is_zero();
        self.waiter.wish.mode == Mode::Exclusive && shared.passes && caches
    }

    /// Lets the tasks that wait behind this one by now share its read lease.
    fn begin_reading(&self, hold: &Arc<Hold>, wanted: bool) {
        let (shared, queues) = (self.shared(), self.queues());
        let is_wanted = || self.waiter.inbox().mail.wanted;
        shared.reading.begin(hold, wanted || is_wanted());
        if self.place != QueuePosition::Front {
            if shared.reading.asked(hold.attempt) {
                shared.reading.wanted(self.name, hold.attempt);
            }
            return;
        }
        let now = shared.clock.now();
        let enter = |wish: &Wish| {
            shared.reading.enter(hold, wish, now).or_else(|| shared.join(self.name, wish, now))
        };
        let joins = |wish: &Wish| match enter(wish) {
            Some(hold) => (Handover::Join(hold.clone()), Some(hold.attempt)),
            None => (Handover::Ask(None), None),
        };
        let mut front = hold.attempt;
        while let Some(Some(next)) = queues.next(self.name, Some(front), |wish, _| joins(wish)) {
            front = next;
        }
        // A message that arrived meanwhile is for the lease; later ones find it.
        if is_wanted() {
            shared.reading.wanted(self.name, hold.attempt);
        }
    }

    fn prepare(
        &self,
        attempt: AttemptId,
        tokens: HeldTokens,
        lease: Lease,
        now: Now,
        suspect: bool,
    ) -> Hold {
        let mut hold = Hold::new(self.name.clone(), attempt, tokens, lease, now, suspect);
        hold.set_on_loss(self.options.on_loss);
        hold.set_min_hold(self.options.min_hold);
        hold.set_cache(self.options.cache_time(self.shared().cache));
        hold
    }

    fn count_contended(&mut self) {
        if !std::mem::replace(&mut self.contended, true) {
            self.meters().contended.increment(1);
            self.meters().waiting.increment(1.0);
        }
    }

    fn take_request(&mut self) -> Option<EngineRequest> {
        let Current { request, acquire } = self.current.take()?;
        let (pending, silence) = acquire.into_parts();
        Some(EngineRequest { request, pending, silence })
    }

    /// Ends the attempt, if the engine may know it.
    fn end_attempt(&mut self) {
        if let Some(engine_request) = self.take_request() {
            let attempt = engine_request.request.attempt;
            match engine_request.request.mode {
                Mode::Permit => self.shared().permit_waiters.asked(attempt),
                Mode::Exclusive | Mode::Shared => drop(self.shared().reading.asked(attempt)),
            }
            self.driver.end(local_handoff::end_attempt(&engine_request, None));
        }
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        let shared = self.shared();
        if self.contended {
            self.meters().waiting.decrement(1.0);
        }
        if let QueuePosition::Behind(number) = self.place {
            if self.queues().leave(self.name, number) {
                return;
            }
            // Moved to the front just now: what it got there goes to the next waiter.
            self.place = QueuePosition::Front;
            let turn = self.waiter.inbox().turn.take();
            match turn {
                Some(Handover::Lease(hold)) => {
                    return self.driver.end(local_handoff::hand_off_again(shared, &hold));
                }
                Some(Handover::Join(hold)) => return self.leave(hold),
                Some(Handover::Attempt(engine_request)) => self.take_up(*engine_request),
                Some(Handover::Ask(_)) | None => {}
            }
        }
        match self.place {
            QueuePosition::Front => {
                let engine_request = self.take_request();
                self.driver.end(local_handoff::leave_front(
                    shared,
                    self.name,
                    &self.waiter,
                    engine_request,
                ));
            }
            _ => self.end_attempt(),
        }
    }
}
