//! Acquires a lock: joins the local queue, asks, waits, asks again. A dropped future leaves nothing
//! behind.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{AttemptId, Backoff, Deadline, Lease, Now, TokenBlock, TooLate};

use crate::ask::pursuit;
use crate::backend::{Answer, Grant, Term};
use crate::client::Client;
use crate::hold::Hold;
use crate::line::{Entered, Inbox, Pursuit, Silence, Slot, Told, Turn, Wish};
use crate::options::Options;
use crate::pass;
use crate::shared::{Shared, jitter};
use crate::{Error, ErrorKind, Name, Result};

/// How long a caller that finds the lock taken keeps waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// It does not wait.
    None,
    /// It waits until this moment; without a moment, for ever.
    Until(Option<Deadline>),
}

/// The first and longest pause between two requests if the engine does not say when to ask again.
const BUSY_PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));
/// A push may be lost, so a waiter asks again after this long at the latest.
const SLOW_POLL: Duration = Duration::from_secs(15);
/// After this many attempts whose grants arrived too late, the acquire fails.
const ANEW: u32 = 4;
/// After a failed request, a caller sends its last request early. An answer that takes a quarter
/// longer than the previous one then still arrives before its timeout, with this margin.
const SPARE: Duration = Duration::from_millis(20);
/// The first and longest pause after an error.
const ERROR_PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Acquires a lock. Returns `None` if it is taken and the caller does not wait.
pub(crate) async fn acquire(
    client: &Client,
    name: &Name,
    options: &Options,
    patience: Patience,
) -> Result<Option<Arc<Hold>>> {
    // With an engine that answers at once, the task must still yield to other tasks.
    tokio::task::coop::consume_budget().await;
    let shared = client.shared();
    let terms = options.terms(&shared.capability)?;
    let start = shared.clock.now();
    let origin = options.origin.as_ref().unwrap_or(&shared.origin).clone();
    let wish = Wish { terms, fair: options.fair, origin };
    let outcome = match patience {
        Patience::None => try_once(client, name, options, wish).await,
        Patience::Until(until) => {
            Acquire::enter(client, name, options, wish, start).run(until).await.map(Some)
        }
    };
    match &outcome {
        Ok(Some(hold)) => {
            shared.meters.acquired.increment(1);
            shared.meters.waited(hold.waited_since(start));
        }
        Err(error) if error.kind() == ErrorKind::Timeout => shared.meters.timed_out.increment(1),
        _ => {}
    }
    outcome
}

pub(crate) fn closed() -> Error {
    Error::new(
        ErrorKind::Closed,
        "the client was closed, or the runtime of its renewal task has ended; open a new client",
    )
}

fn timed_out() -> Error {
    Error::new(ErrorKind::Timeout, "timed out waiting for the lock")
}

/// Adds to a timeout why the last request to the backend failed.
fn since(error: Error, why: Option<Error>) -> Error {
    match why.filter(|_| error.kind() == ErrorKind::Timeout) {
        Some(why) => {
            let message = format!("{}: {}", error.message(), why.message());
            Error::new(ErrorKind::Timeout, message).with_source(why)
        }
        None => error,
    }
}

/// Tries once, bypassing the local queue. Returns at once if a local task holds the lock.
async fn try_once(
    client: &Client,
    name: &Name,
    options: &Options,
    wish: Wish,
) -> Result<Option<Arc<Hold>>> {
    let shared = client.shared();
    let start = shared.clock.now();
    let until = Some(Deadline::after(start, shared.try_patience));
    let held = shared.lines.holder(name).and_then(|attempt| shared.held_by(attempt));
    let busy = shared.passes && held.is_some_and(|held| held.lease().is_valid(start));
    let mut past = Acquire::new(client, name, options, wish, Place::Past, start);
    for _ in 0..if busy { 0 } else { ANEW } {
        past.ask_anew();
        match past.pursue(None, until).await? {
            Outcome::Held(hold) => return Ok(Some(hold)),
            Outcome::Busy => break,
            Outcome::Anew => {}
        }
    }
    shared.meters.contended.increment(1);
    Ok(None)
}

enum Outcome {
    Held(Arc<Hold>),
    Busy,
    /// The lease of this attempt ended before its grant arrived: use another attempt.
    Anew,
}

/// The place of a caller in the local queue.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// At the front, where it asks the engine.
    Front,
    /// Behind the front.
    Behind(u64),
    /// Not in the queue: it bypasses the queue, or holds the lock.
    Past,
}

/// A caller that wants a lock. If it is dropped before it holds, it leaves the queue. The next
/// local waiter continues its attempt at the engine, or the background task ends the attempt.
struct Acquire<'a> {
    client: &'a Client,
    name: &'a Name,
    options: &'a Options,
    slot: Arc<Slot>,
    place: Place,
    pursuit: Option<Pursuit>,
    /// When it began.
    start: Now,
    /// It was counted among the callers that found the lock taken.
    contended: bool,
}

impl<'a> Acquire<'a> {
    fn new(
        client: &'a Client,
        name: &'a Name,
        options: &'a Options,
        wish: Wish,
        place: Place,
        start: Now,
    ) -> Self {
        let slot = Arc::new(Slot::new(wish));
        Self { client, name, options, slot, place, pursuit: None, start, contended: false }
    }

    /// Joins the local queue.
    fn enter(
        client: &'a Client,
        name: &'a Name,
        options: &'a Options,
        wish: Wish,
        start: Now,
    ) -> Self {
        let mut entered = Self::new(client, name, options, wish, Place::Front, start);
        let shared = client.shared();
        match shared.lines.enter(name, &entered.slot, || shared.new_attempt()) {
            Entered::Front(attempt) => {
                entered.pursuit = Some(pursuit(name, &entered.slot.wish, attempt, true, false));
            }
            Entered::Behind(number) => entered.place = Place::Behind(number),
        }
        entered
    }

    fn shared(&self) -> &'a Arc<Shared> {
        self.client.shared()
    }

    async fn run(mut self, until: Option<Deadline>) -> Result<Arc<Hold>> {
        let mut start = Some(self.start);
        if self.place != Place::Front {
            self.count_contended();
            if let Some(hold) = self.come_to_front(until).await? {
                return Ok(hold);
            }
            start = None;
        }
        let mut pauses = Backoff::new(BUSY_PAUSES.0, BUSY_PAUSES.1);
        for round in 0..ANEW {
            if round > 0 {
                self.ask_anew();
            }
            if round > 1 {
                self.shared().clock.sleep(pauses.next(jitter())).await;
            }
            if let Outcome::Held(hold) = self.pursue(start.take(), until).await? {
                return Ok(hold);
            }
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!(
                "{ANEW} grants in a row arrived after they had expired: the backend answers \
                 too slowly for a ttl of {:?}; use a longer ttl",
                self.slot.wish.terms.ttl
            ),
        ))
    }

    /// Waits in the local queue, and takes over what it gets at the front: a lease, or an attempt.
    async fn come_to_front(&mut self, until: Option<Deadline>) -> Result<Option<Arc<Hold>>> {
        let shared = self.shared();
        let turn = loop {
            if shared.is_closed() {
                return Err(closed());
            }
            if let Some(turn) = self.slot.inbox().turn.take() {
                break turn;
            }
            if shared.clock.within(until, self.slot.bell.notified()).await.is_none() {
                return Err(timed_out());
            }
        };
        self.place = Place::Front;
        match turn {
            Turn::Ask(silence) => {
                self.ask_anew();
                if let Some(pursuit) = &mut self.pursuit {
                    pursuit.silence = silence;
                }
            }
            Turn::Attempt(pursuit) => self.pursuit = Some(*pursuit),
            Turn::Lease(from) => match self.take_over(&from) {
                Some(hold) => return Ok(Some(hold)),
                None => {
                    pass::end_lost(self.client, &from);
                    self.ask_anew();
                }
            },
        }
        self.heeds_silence()?;
        Ok(None)
    }

    /// Fails if the backend has been silent to the earlier waiters for as long as this caller would
    /// ask.
    fn heeds_silence(&self) -> Result<()> {
        let shared = self.shared();
        let Some(pursuit) = &self.pursuit else { return Ok(()) };
        let Some(error) = self.last_error() else { return Ok(()) };
        let now = shared.clock.now();
        match gives_up(pursuit, self.start, shared.patience, now).has_passed(now) {
            true => Err(error),
            false => Ok(()),
        }
    }

    /// Continues the lease of one who has let go of it; `None` if it was lost meanwhile.
    fn take_over(&mut self, from: &Hold) -> Option<Arc<Hold>> {
        let shared = self.shared();
        let now = shared.clock.now();
        let lease = from.lease().pass(now, self.slot.wish.terms)?;
        let mut hold = self.prepare(from.attempt, from.tokens(), lease, now, from.suspect);
        if !hold.follow(from) {
            return None;
        }
        let hold = Arc::new(hold);
        if !shared.take_over(from, &hold) {
            return None;
        }
        shared.lead(&hold, None);
        self.place = Place::Past;
        tracing::debug!(name = %hold.name, token = hold.token().get(), "lock passed on");
        Some(hold)
    }

    /// Switches to a new attempt, which the engine does not know yet.
    fn ask_anew(&mut self) {
        self.forget_pursuit();
        let many = self.place == Place::Front;
        let waits = self.place != Place::Past;
        let attempt = match waits {
            true => self.shared().new_attempt(),
            false => self.shared().new_attempt_past(),
        };
        self.pursuit = Some(pursuit(self.name, &self.slot.wish, attempt, waits, many));
        if many {
            self.shared().lines.ask(self.name, attempt);
        }
        // Messages for the previous attempt are not meant for this one.
        *self.slot.inbox() = Inbox::default();
    }

    /// Asks until there is an outcome. `now` is the current time, if the caller has just read it.
    async fn pursue(&mut self, mut now: Option<Now>, until: Option<Deadline>) -> Result<Outcome> {
        let shared = self.shared();
        let clock = &shared.clock;
        let mut busy = Backoff::new(BUSY_PAUSES.0, BUSY_PAUSES.1);
        let mut errors = Backoff::new(ERROR_PAUSES.0, ERROR_PAUSES.1);
        loop {
            let (sent, answer) = match self.pursuit.as_ref().and_then(|pursuit| pursuit.ask_at) {
                None => {
                    let now = now.take().unwrap_or_else(|| clock.now());
                    (now, self.ask_once(now, until).await)
                }
                Some(ask_at) => {
                    let heard = self.listen(ask_at, until).await;
                    match heard.map_err(|error| since(error, self.last_error()))? {
                        Heard::Nothing => {
                            let now = clock.now();
                            (now, self.ask_once(now, until).await)
                        }
                        Heard::Answer(told) => {
                            if let Some(pursuit) = &mut self.pursuit {
                                pursuit.hear(&told);
                            }
                            (told.sent, told.answer)
                        }
                        // A push contains its own validity; the time spent waiting does not count.
                        Heard::Granted(grant) => return Ok(self.hold(grant, clock.now())),
                    }
                }
            };
            let Some(pursuit) = &mut self.pursuit else { return Ok(Outcome::Anew) };
            let pause = match answer {
                Ok(Answer::Granted(grant)) => return Ok(self.hold(grant, sent)),
                Ok(Answer::Ended) => return Ok(Outcome::Anew),
                // The lock is free, and each request removes some of the dead waiters ahead.
                Ok(Answer::Busy { ask_again: Some(Duration::ZERO) })
                    if !pursuit.ask.wait
                        && !until.is_some_and(|until| until.has_passed(clock.now())) =>
                {
                    pursuit.known = pursuit.unanswered;
                    (pursuit.ask_at, pursuit.silence) = (None, None);
                    tokio::task::coop::consume_budget().await;
                    continue;
                }
                Ok(Answer::Busy { .. }) if !pursuit.ask.wait => {
                    pursuit.known = pursuit.unanswered;
                    return Ok(Outcome::Busy);
                }
                Ok(Answer::Queued { ask_again, .. }) => ask_again,
                Ok(Answer::Later { ask_again, why }) => {
                    let why = Error::new(ErrorKind::Unavailable, why);
                    if !pursuit.ask.wait {
                        return Err(why);
                    }
                    let now = clock.now();
                    let pause = ask_again.min(shared.patience / 2);
                    pursuit.ask_at = Some(Deadline::after(now, pause));
                    pursuit.silence = Some(Silence { since: now, error: Some(why) });
                    continue;
                }
                Ok(Answer::Busy { ask_again }) => ask_again.unwrap_or_else(|| busy.next(jitter())),
                Err(error) if error.kind().is_certain() => {
                    pursuit.silence = None;
                    return Err(error);
                }
                Err(error) => {
                    // An unknown result is not a refusal: the same attempt asks again until the
                    // backend has been silent for too long.
                    let now = clock.now();
                    let waits = pursuit.ask.wait;
                    let last = match waits {
                        true => until.map(|until| last_ask(sent, now, self.start, until)),
                        false => until,
                    };
                    let over = last.is_some_and(|last| last.has_passed(now));
                    let silence = pursuit.silent_since(sent);
                    if over && waits {
                        return Err(since(timed_out(), Some(error)));
                    }
                    silence.error = Some(error.clone());
                    let gives_up = gives_up(pursuit, self.start, shared.patience, now);
                    if over || gives_up.has_passed(now) {
                        return Err(error);
                    }
                    tracing::debug!(name = %self.name, %error, "no answer, asking again");
                    let pause = Deadline::after(now, errors.next(jitter())).min(gives_up);
                    pursuit.ask_at = Some(last.map_or(pause, |last| pause.min(last)));
                    continue;
                }
            };
            let now = clock.now();
            pursuit.ask_at = Some(Deadline::after(now, pause.min(SLOW_POLL)));
            pursuit.silence = None;
            errors.reset();
            self.count_contended();
        }
    }

    /// Returns why the last request failed, if no answer has arrived since.
    fn last_error(&self) -> Option<Error> {
        self.pursuit.as_ref()?.silence.as_ref()?.error.clone()
    }

    /// Asks the backend, within the limits of the caller and of the client. If there is no answer,
    /// the error of the previous request explains more.
    async fn ask_once(&mut self, now: Now, until: Option<Deadline>) -> Result<Answer> {
        let shared = self.shared();
        let why = self.last_error();
        let Some(pursuit) = &mut self.pursuit else { return Ok(Answer::Ended) };
        // The engine has some time to answer, even if this whole process was paused.
        let patience = gives_up(pursuit, self.start, shared.patience, now)
            .max(Deadline::after(now, shared.patience / 10));
        let unanswered = std::mem::replace(&mut pursuit.unanswered, true);
        let known = std::mem::replace(&mut pursuit.known, true);
        let asking = shared.backend.acquire(pursuit.ask.clone());
        let answer = shared.called(now, patience, until, asking).await;
        let answer = answer.unwrap_or_else(|| Err(why.unwrap_or_else(no_answer)));
        let refused = answer.as_ref().is_err_and(|error| error.kind().is_certain());
        pursuit.unanswered = unanswered || (answer.is_err() && !refused);
        if refused {
            pursuit.known = known;
        }
        if shared.is_closed() {
            return Err(closed());
        }
        answer
    }

    /// Waits for a message, or until it is time to ask again. A message to ask again ends the wait,
    /// and a message with an earlier time shortens it.
    async fn listen(&mut self, mut ask_at: Deadline, until: Option<Deadline>) -> Result<Heard> {
        let shared = self.shared();
        loop {
            if shared.is_closed() {
                return Err(closed());
            }
            let Inbox { answer, granted, next, ask, broken, turn: _ } =
                std::mem::take(&mut *self.slot.inbox());
            if let Some(grant) = granted {
                return Ok(Heard::Granted(grant));
            }
            if let Some(told) = answer {
                return Ok(Heard::Answer(told));
            }
            if ask {
                return Ok(Heard::Nothing);
            }
            let now = shared.clock.now();
            if let Some(next) = next {
                ask_at = ask_at.min(Deadline::after(now, next.min(SLOW_POLL)));
            }
            if let Some(pursuit) = &mut self.pursuit {
                if let Some(since) = broken {
                    pursuit.silent_since(since);
                    ask_at = ask_at.min(Deadline::after(now, shared.patience / 2));
                }
                pursuit.ask_at = Some(ask_at);
            }
            let wake_at = until.map_or(ask_at, |until| until.min(ask_at));
            let rung = shared.clock.within(Some(wake_at), self.slot.bell.notified()).await;
            if rung.is_none() {
                let over = until.is_some_and(|until| until.has_passed(shared.clock.now()));
                let waits = self.place != Place::Past; // Otherwise its last answer is reported.
                return if over && waits { Err(timed_out()) } else { Ok(Heard::Nothing) };
            }
        }
    }

    /// Turns a grant into a hold. A grant whose deadline has passed already is released.
    fn hold(&mut self, grant: Grant, sent: Now) -> Outcome {
        let shared = self.shared();
        let Some(pursuit) = &self.pursuit else { return Outcome::Anew };
        let now = shared.clock.now();
        let (until, offer) = match grant.term {
            Term::Ttl | Term::Session => (None, false),
            Term::Until(until) => (Some(until), false),
            Term::Offer(until) => (Some(until), true),
        };
        let mut lease = Lease::ask(sent, self.slot.wish.terms);
        if lease.handle_granted(now, until, offer, jitter()) == Err(TooLate) {
            tracing::debug!(name = %self.name, "a grant arrived after it had expired; acquiring again");
            return Outcome::Anew;
        }
        let attempt = pursuit.ask.attempt;
        let hold = self.prepare(attempt, grant.tokens, lease, now, pursuit.is_suspect());
        let hold = Arc::new(hold);
        self.pursuit = None;
        if self.contended || offer {
            shared.meters.remote.increment(1);
        }
        shared.look_after(&hold);
        match shared.passes {
            true => {
                shared.lead(&hold, grant.wanted.then_some(now.steady_ns));
            }
            // The next local waiter asks while this caller holds, and so joins the engine's queue.
            false if self.place == Place::Front => {
                shared.lines.next(self.name, Some(attempt), |_, _| (Turn::Ask(None), ()));
            }
            false => {}
        }
        self.place = Place::Past;
        tracing::debug!(name = %hold.name, token = hold.token().get(), "lock acquired");
        Outcome::Held(hold)
    }

    fn prepare(
        &self,
        attempt: AttemptId,
        tokens: TokenBlock,
        lease: Lease,
        now: Now,
        suspect: bool,
    ) -> Hold {
        let mut hold = Hold::new(self.name.clone(), attempt, tokens, lease, now, suspect);
        hold.on_loss = self.options.on_loss;
        hold.set_min_hold(self.options.min_hold);
        hold
    }

    fn count_contended(&mut self) {
        if !std::mem::replace(&mut self.contended, true) {
            self.shared().meters.contended.increment(1);
            self.shared().meters.waiting.increment(1.0);
        }
    }

    /// Ends the attempt that the engine may know.
    fn forget_pursuit(&mut self) {
        if let Some(pursuit) = self.pursuit.take().filter(|pursuit| pursuit.known) {
            pass::give_up(self.client, &pursuit, None);
        }
    }
}

/// What [`Acquire::listen`] has received.
enum Heard {
    /// It is time to ask.
    Nothing,
    /// The answer to a request that another local task sent.
    Answer(Told),
    /// A grant that the engine pushed.
    Granted(Grant),
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        if self.contended {
            self.shared().meters.waiting.decrement(1.0);
        }
        let lines = &self.shared().lines;
        if let Place::Behind(number) = self.place {
            if lines.leave(self.name, number) {
                return;
            }
            // Moved to the front just now: what it got there goes to the next waiter.
            self.place = Place::Front;
            match self.slot.inbox().turn.take() {
                Some(Turn::Lease(hold)) => return pass::go_on(self.client, &hold),
                Some(Turn::Attempt(pursuit)) => self.pursuit = Some(*pursuit),
                Some(Turn::Ask(_)) | None => {}
            }
        }
        match self.place {
            Place::Front => {
                pass::leave_front(self.client, self.name, &self.slot, self.pursuit.take())
            }
            _ => self.forget_pursuit(),
        }
    }
}

/// Returns when a caller that began at `start` gives up if the backend stays silent from `now` on.
fn gives_up(pursuit: &Pursuit, start: Now, patience: Duration, now: Now) -> Deadline {
    let since = pursuit.silence.as_ref().map_or(now, |silence| silence.since);
    let later = if since.steady_ns > start.steady_ns { since } else { start };
    Deadline::after(later, patience)
}

/// Returns when a caller asks for the last time, if it began at `start` and its request failed
/// between `sent` and `now`. Its error must be ready before `until`.
fn last_ask(sent: Now, now: Now, start: Now, until: Deadline) -> Deadline {
    let given = until.remaining(start);
    let took = Duration::from_nanos(now.steady_ns.saturating_sub(sent.steady_ns));
    let early = took.saturating_add(took / 4).saturating_add(SPARE.min(given / 10));
    Deadline::after(start, given.saturating_sub(early.min(given / 2)))
}

fn no_answer() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the backend did not answer in time; check that the server is reachable",
    )
}
