//! Acquiring: turn, ask, wait, ask again; and nothing left behind wherever it is dropped.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{Backoff, Deadline, Lease, Now, Terms, TooLate};

use crate::backend::{Answer, Ask, End, Grant, Holder, Mode, Term};
use crate::client::Client;
use crate::ending::hand_over;
use crate::hold::Hold;
use crate::options::Options;
use crate::renewal::Job;
use crate::shared::{Inbox, Shared, Slot, elapsed, jitter};
use crate::{Error, ErrorKind, Name, Result};

/// How long somebody who finds the lock taken goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Not at all.
    None,
    /// For ever, or until a moment.
    Until(Option<Deadline>),
}

/// First and longest pause between two asks where the engine does not say when to come again.
const BUSY_PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));
/// A push may be lost: whoever waits asks again after this long at the latest.
const SLOW_POLL: Duration = Duration::from_secs(15);
/// Attempts whose grant came too late before it is called an error.
const ANEW: u32 = 4;
/// First and longest pause after an error.
const ERROR_PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Acquires a lock; `None` when it is taken and nobody wants to wait.
pub(crate) async fn acquire(
    client: &Client,
    name: &Name,
    options: &Options,
    patience: Patience,
) -> Result<Option<Arc<Hold>>> {
    let shared = client.shared();
    let terms = options.terms(&shared.capability)?;
    let start = shared.clock.now();
    let outcome = tokio::select! {
        biased;
        outcome = in_turn(client, name, options, terms, patience) => outcome,
        () = shared.closed.cancelled() => Err(closed()),
    };
    match &outcome {
        Ok(Some(_)) => {
            shared.meters.acquired.increment(1);
            shared.meters.waited(elapsed(start, shared.clock.now()));
        }
        Err(error) if error.kind() == ErrorKind::Timeout => shared.meters.timed_out.increment(1),
        _ => {}
    }
    outcome
}

pub(crate) fn closed() -> Error {
    Error::new(
        ErrorKind::Closed,
        "the client was closed, or the runtime that its renewal task ran on has ended",
    )
}

async fn in_turn(
    client: &Client,
    name: &Name,
    options: &Options,
    terms: Terms,
    patience: Patience,
) -> Result<Option<Arc<Hold>>> {
    let shared = client.shared();
    let (until, _turn) = match patience {
        Patience::None => (Some(Deadline::after(shared.clock.now(), shared.patience)), None),
        Patience::Until(until) => {
            let turn = shared.clock.within(until, shared.turns.enter(name)).await;
            (until, Some(turn.ok_or_else(timed_out)?))
        }
    };
    let waits = matches!(patience, Patience::Until(_));
    let mut pauses = Backoff::new(BUSY_PAUSES.0, BUSY_PAUSES.1);
    for round in 0..ANEW {
        if round > 1 {
            shared.clock.sleep(pauses.next(jitter())).await;
        }
        let attempt = Attempt::new(client, name, options, terms, waits);
        match attempt.run(until).await? {
            Outcome::Held(hold) => return Ok(Some(hold)),
            Outcome::Busy => {
                shared.meters.contended.increment(1);
                return Ok(None);
            }
            Outcome::Anew => {}
        }
    }
    Err(Error::new(
        ErrorKind::Unavailable,
        format!(
            "{ANEW} grants in a row came after their own end: the backend answers more slowly than \
             a ttl of {:?} allows",
            terms.ttl
        ),
    ))
}

fn timed_out() -> Error {
    Error::new(ErrorKind::Timeout, "the lock was not to be had in the time given")
}

enum Outcome {
    Held(Arc<Hold>),
    Busy,
    /// This attempt came to nothing (its lease ended before we heard of it): try another.
    Anew,
}

/// One attempt. Dropped before it holds, it is ended in the background.
struct Attempt<'a> {
    client: &'a Client,
    ask: Ask,
    terms: Terms,
    options: &'a Options,
    slot: Option<Arc<Slot>>,
    /// Asks that may have reached the backend and were not answered.
    unanswered: bool,
    /// The backend may know of this attempt.
    known: bool,
}

impl<'a> Attempt<'a> {
    fn new(
        client: &'a Client,
        name: &Name,
        options: &'a Options,
        terms: Terms,
        waits: bool,
    ) -> Self {
        let shared = client.shared();
        let id = shared.new_attempt();
        let holder = Holder {
            attempt: id,
            host: shared.host.clone(),
            pid: std::process::id(),
            metadata: options.metadata.clone(),
        };
        let ask = Ask {
            name: name.clone(),
            attempt: id,
            mode: Mode::Exclusive,
            ttl: terms.ttl,
            wait: waits,
            fair: options.fair,
            tokens: 1,
            holder: Arc::new(holder),
        };
        let slot = waits.then(|| shared.wait_for(name, id));
        Self { client, ask, terms, options, slot, unanswered: false, known: false }
    }

    fn shared(&self) -> &Arc<Shared> {
        self.client.shared()
    }

    async fn run(mut self, until: Option<Deadline>) -> Result<Outcome> {
        let clock = self.shared().clock.clone();
        let mut busy = Backoff::new(BUSY_PAUSES.0, BUSY_PAUSES.1);
        let mut errors = Backoff::new(ERROR_PAUSES.0, ERROR_PAUSES.1);
        let mut heard = clock.now();
        let mut contended = false;
        loop {
            let sent = clock.now();
            let pause = match self.ask_once(until).await {
                Ok(Answer::Granted(grant)) => return Ok(self.hold(grant, sent)),
                Ok(Answer::Ended) => return Ok(Outcome::Anew),
                Ok(Answer::Busy { .. }) if !self.ask.wait => {
                    self.known = self.unanswered;
                    return Ok(Outcome::Busy);
                }
                Ok(Answer::Queued { ask_again, .. }) => ask_again,
                Ok(Answer::Busy { ask_again }) => ask_again.unwrap_or_else(|| busy.next(jitter())),
                Err(error) if error.kind().is_certain() => return Err(error),
                Err(error) => {
                    // Unknown is not refused: the same attempt asks again until too long nothing
                    // was heard.
                    let now = clock.now();
                    let silent = elapsed(heard, now) >= self.shared().patience;
                    if self.ask.wait && until.is_some_and(|until| until.has_passed(now)) {
                        return Err(timed_out().with_source(error));
                    }
                    if silent || until.is_some_and(|until| until.has_passed(now)) {
                        return Err(error);
                    }
                    tracing::debug!(name = %self.ask.name, %error, "no answer, asking again");
                    self.pause(errors.next(jitter()), until).await?;
                    continue;
                }
            };
            heard = clock.now();
            errors.reset();
            if !contended {
                contended = true;
                self.shared().meters.contended.increment(1);
            }
            if let Some(grant) = self.wait(pause.min(SLOW_POLL), until).await? {
                // A push says itself how long it is good for; the time spent waiting counts not.
                let now = clock.now();
                return Ok(self.hold(grant, now));
            }
        }
    }

    /// Asks the backend, within the time that the caller and the client's patience allow.
    async fn ask_once(&mut self, until: Option<Deadline>) -> Result<Answer> {
        let unanswered = std::mem::replace(&mut self.unanswered, true);
        let known = std::mem::replace(&mut self.known, true);
        let shared = self.client.shared();
        let patience = Deadline::after(shared.clock.now(), shared.patience);
        let limit = until.map_or(patience, |until| until.min(patience));
        let answer =
            shared.clock.within(Some(limit), shared.backend.acquire(self.ask.clone())).await;
        let answer = answer.unwrap_or_else(|| Err(no_answer()));
        let refused = answer.as_ref().is_err_and(|error| error.kind().is_certain());
        self.unanswered = unanswered || (answer.is_err() && !refused);
        if refused {
            self.known = known;
        }
        answer
    }

    /// Waits for a message from the engine, or until it is time to ask again.
    /// A message to ask again cuts the wait short, one that tells a new time replaces it.
    async fn wait(&self, pause: Duration, until: Option<Deadline>) -> Result<Option<Grant>> {
        let shared = self.shared();
        let mut ask_at = Deadline::after(shared.clock.now(), pause);
        let Some(slot) = &self.slot else { return Ok(None) };
        loop {
            let Inbox { granted, next, ask } = slot.take();
            if granted.is_some() {
                return Ok(granted);
            }
            if ask {
                return Ok(None);
            }
            if let Some(next) = next {
                ask_at = Deadline::after(shared.clock.now(), next.min(SLOW_POLL));
            }
            let wake_at = until.map_or(ask_at, |until| until.min(ask_at));
            let rung = shared.clock.within(Some(wake_at), slot.bell.notified()).await;
            if rung.is_none() {
                let now = shared.clock.now();
                return match until.is_some_and(|until| until.has_passed(now)) {
                    true => Err(timed_out()),
                    false => Ok(None),
                };
            }
        }
    }

    /// Sleeps after an error; being told to ask again cuts it short.
    async fn pause(&self, pause: Duration, until: Option<Deadline>) -> Result<()> {
        let shared = self.shared();
        let ask_at = Deadline::after(shared.clock.now(), pause);
        let wake_at = until.map_or(ask_at, |until| until.min(ask_at));
        match &self.slot {
            Some(slot) => drop(shared.clock.within(Some(wake_at), slot.bell.notified()).await),
            None => shared.clock.sleep_until(wake_at).await,
        }
        Ok(())
    }

    /// Turns a grant into a hold. One whose deadline has passed already is given back.
    fn hold(mut self, grant: Grant, sent: Now) -> Outcome {
        let shared = self.client.shared();
        let now = shared.clock.now();
        let (until, offer) = match grant.term {
            Term::Ttl | Term::Session => (None, false),
            Term::Until(until) => (Some(until), false),
            Term::Offer(until) => (Some(until), true),
        };
        let mut lease = Lease::ask(sent, self.terms);
        if lease.handle_granted(now, until, offer, jitter()) == Err(TooLate) {
            tracing::debug!(name = %self.ask.name, "a grant came after its own end; trying anew");
            return Outcome::Anew;
        }
        let (name, attempt) = (self.ask.name.clone(), self.ask.attempt);
        let mut hold = Hold::new(name, attempt, grant.tokens, lease, now, self.unanswered);
        hold.on_loss = self.options.on_loss;
        hold.min_hold = self.options.min_hold;
        let hold = Arc::new(hold);
        shared.look_after(&hold);
        self.known = false;
        tracing::debug!(name = %hold.name, token = hold.tokens.base().get(), "lock acquired");
        Outcome::Held(hold)
    }
}

fn no_answer() -> Error {
    Error::new(ErrorKind::Unavailable, "the backend did not answer in the time given")
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let shared = self.client.shared();
        let (name, attempt) = (self.ask.name.clone(), self.ask.attempt);
        if self.slot.is_some() {
            shared.stop_waiting(&name, attempt);
        }
        if self.known {
            let end = End {
                name,
                attempt,
                base: None,
                last: None,
                suspect: self.unanswered,
                keep: None,
                then: None,
            };
            hand_over(shared, self.client.jobs(), Job::End(end, self.terms.ttl));
        }
    }
}
