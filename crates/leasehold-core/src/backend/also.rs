//! One lock in two formats at once, for the time in which clients move from one to the other (the option `also` of a URL).
//!
//! A client takes the lock of the other library first and then the native one, and gives them back the other way round.
//! So it excludes the clients of that library, those with the option `wire`, and those without an option. No client waits
//! for the foreign lock while it holds the native one, so the two orders cannot block each other.

mod attempts;
mod term;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use leasehold_proto::{AttemptId, ClientId, Deadline, Token};

use self::attempts::{Attempts, Native};
use super::wire::{no_list, only_exclusive, only_release};
use super::{
    AcquireRequest, Answer, Backend, BoxFuture, Ended, Event, EventSink, Grant, ReleaseRequest,
    Renewal, Renewed, Verdict,
};
use crate::clock::Clock;
use crate::{Capability, ErrorKind, Forced, LeaseKind, Name, Result, State, Status};

/// How often one request asks for the native lock, while the mark of the name changes.
const ROUNDS: usize = 4;
/// The longest pause of the client's own schedule.
const SCHEDULE: Duration = Duration::from_millis(250);

/// The mark by which clients with the option `wire` have clients without an option refused.
pub trait Mark: Send + Sync + Debug + 'static {
    /// Returns true if the foreign lock of this name is the native one too, so that no mark and no second lock is needed.
    fn is_native(&self, _name: &Name) -> bool {
        false
    }

    /// Looks for the mark of the format under a name whose foreign lock this client holds, and makes it last for `ttl` or
    /// longer. If only clients with `also` have kept it lately, it is removed, unless this client relies on it (`held`).
    ///
    /// # Errors
    /// [`ErrorKind::Foreign`] for the mark of another format.
    fn cover<'a>(
        &'a self,
        name: &'a Name,
        ttl: Duration,
        held: bool,
    ) -> BoxFuture<'a, Result<Covered>>;

    /// Makes the next token of the foreign lock larger than the native one that a client is about to use with both locks.
    /// Returns false if it does not hold the foreign lock any more. By default the foreign tokens are larger anyway.
    fn follow<'a>(
        &'a self,
        _foreign: &'a AcquireRequest,
        _native: Token,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(std::future::ready(Ok(true)))
    }
}

/// What a client with the option `also` finds under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Covered {
    /// The mark: it refuses all clients without an option, for as long as was asked.
    Marked,
    /// No mark: the native lock is needed.
    Open,
}

/// The connection of one client that holds each lock in two formats.
#[derive(Debug)]
pub struct AlsoBackend {
    foreign: Arc<dyn Backend>,
    native: Arc<dyn Backend>,
    mark: Option<Arc<dyn Mark>>,
    capability: Capability,
    warnings: Vec<String>,
    attempts: Attempts,
    clock: Clock,
}

/// A foreign lock that an attempt holds.
struct Foreign {
    token: Token,
    grant: Grant,
    /// When a lease ends that is counted from the request.
    until: Deadline,
}

impl AlsoBackend {
    /// Creates a backend over the locks of another library and the native ones. `mark` is that of clients with `wire` on
    /// engines that have one.
    pub fn new(
        foreign: Arc<dyn Backend>,
        native: Arc<dyn Backend>,
        mark: Option<Arc<dyn Mark>>,
    ) -> Self {
        let capability = capability(foreign.capability(), native.capability());
        let warnings = [foreign.warnings(), native.warnings()].concat();
        let (attempts, clock) = (Attempts::default(), Clock::system());
        Self { foreign, native, mark, capability, warnings, attempts, clock }
    }

    /// Uses another clock than that of the system.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    async fn ask(&self, request: AcquireRequest) -> Result<Answer> {
        only_exclusive(&request)?;
        let request = request.with_tokens(1);
        let until = term::end(self.clock.now(), request.ttl);
        let (name, attempt) = (request.name.clone(), request.attempt);
        let asked = AcquireRequest { attempt: self.attempts.foreign(attempt), ..request.clone() };
        let grant = match self.foreign.acquire(asked).await {
            Ok(Answer::Granted(grant)) => grant,
            // It was lost while the attempt waited for the native one.
            Ok(_) if self.attempts.get(attempt).is_some() => {
                self.end_both(&name, attempt).await?;
                return Ok(Answer::Ended);
            }
            Err(error) if error.kind().is_certain() && self.attempts.get(attempt).is_some() => {
                self.end_both(&name, attempt).await?;
                return Err(error);
            }
            other => return other,
        };
        let foreign = Foreign { token: grant.tokens.base(), grant, until };
        let was_marked = matches!(self.attempts.get(attempt), Some((_, Native::Marked)));
        self.attempts.set(attempt, foreign.token, Native::Asked);
        let answer = self.ask_natively(&request, &foreign, was_marked).await;
        let stays = match &answer {
            Ok(Answer::Granted(_)) => true,
            Ok(Answer::Queued { .. } | Answer::Busy { .. } | Answer::Later { .. }) => request.wait,
            Ok(_) => false,
            Err(error) => !error.kind().is_certain(),
        };
        if !stays {
            self.end_foreign(&name, attempt, foreign.token).await?;
            if !request.wait {
                self.attempts.replace(attempt);
            }
        }
        answer
    }

    /// Takes the native lock for an attempt that holds the foreign one, or makes sure that the mark stands for it.
    async fn ask_natively(
        &self,
        request: &AcquireRequest,
        foreign: &Foreign,
        mut held: bool,
    ) -> Result<Answer> {
        // Each request renews the foreign lease.
        let soon = request.ttl / 3;
        if self.mark.as_ref().is_some_and(|mark| mark.is_native(&request.name)) {
            self.attempts.set(request.attempt, foreign.token, Native::Marked);
            return Ok(Answer::Granted(foreign.grant));
        }
        for round in 1.. {
            let error = match self.native.acquire(request.clone().with_also(true)).await {
                Ok(Answer::Granted(grant)) => {
                    let token = grant.tokens.base();
                    if !self.follow(request, token).await? {
                        self.end_both(&request.name, request.attempt).await?;
                        return Ok(Answer::Ended);
                    }
                    self.attempts.set(request.attempt, foreign.token, Native::Held(token));
                    let term = term::earlier(foreign.grant.term, grant.term, foreign.until);
                    return Ok(Answer::Granted(Grant { term, ..grant }));
                }
                Ok(Answer::Queued { place, ask_again }) => {
                    return Ok(Answer::Queued { place, ask_again: ask_again.min(soon) });
                }
                Ok(Answer::Busy { ask_again: Some(ask_again) }) => {
                    return Ok(Answer::Busy { ask_again: Some(ask_again.min(soon)) });
                }
                Ok(Answer::Busy { ask_again: None }) if soon < SCHEDULE => {
                    return Ok(Answer::Busy { ask_again: Some(soon) });
                }
                Ok(Answer::Later { ask_again, why }) => {
                    return Ok(Answer::Later { ask_again: ask_again.min(soon), why });
                }
                Ok(answer) => return Ok(answer),
                // A mark refuses it so.
                Err(error) if error.kind() == ErrorKind::Foreign => error,
                Err(error) => return Err(error),
            };
            let Some(mark) = &self.mark else { return Err(error) };
            match mark.cover(&request.name, request.ttl, held).await? {
                Covered::Marked => {
                    self.attempts.set(request.attempt, foreign.token, Native::Marked);
                    return Ok(Answer::Granted(foreign.grant));
                }
                Covered::Open if round == ROUNDS => return Err(error),
                Covered::Open => held = false,
            }
        }
        Ok(Answer::Ended)
    }

    /// Makes the foreign tokens go on from the native one. Returns false if the foreign lock was lost.
    async fn follow(&self, request: &AcquireRequest, token: Token) -> Result<bool> {
        let Some(mark) = &self.mark else { return Ok(true) };
        let attempt = self.attempts.foreign(request.attempt);
        let there = AcquireRequest { attempt, ..request.clone() };
        let followed = mark.follow(&there, token).await;
        if followed.as_ref().is_err_and(|error| error.kind().is_certain()) {
            // The caller gives back the foreign lock.
            let release =
                ReleaseRequest::new(request.name.clone(), request.attempt).with_base(token);
            known(self.native.release(release).await)?;
        }
        followed
    }

    /// Gives back the foreign lock of an attempt without the native one.
    async fn end_foreign(&self, name: &Name, attempt: AttemptId, token: Token) -> Result<()> {
        let attempt_there = self.attempts.foreign(attempt);
        let release = ReleaseRequest::new(name.clone(), attempt_there).with_base(token);
        known(self.foreign.release(release).await)?;
        self.attempts.forget(attempt);
        Ok(())
    }

    /// Ends an attempt whose foreign lock was lost while it waited.
    async fn end_both(&self, name: &Name, attempt: AttemptId) -> Result<()> {
        let release = ReleaseRequest::new(name.clone(), attempt).with_suspect(true);
        known(self.native.release(release.clone()).await)?;
        let release = ReleaseRequest { attempt: self.attempts.foreign(attempt), ..release };
        known(self.foreign.release(release).await)?;
        self.attempts.forget(attempt);
        Ok(())
    }

    async fn end(&self, release: ReleaseRequest) -> Result<Ended> {
        only_release(&release)?;
        let attempt = release.attempt;
        let entry = self.attempts.get(attempt);
        let (foreign_base, native_base) = match entry {
            Some((foreign, native)) => (Some(foreign), native.token()),
            // Another connection acquired it, or it was released before: the token may be of either.
            None => (release.base, release.base),
        };
        let granted = |base: Option<Token>| base.filter(|_| release.base.is_some());
        let native = ReleaseRequest { base: granted(native_base), ..release.clone() };
        let foreign = ReleaseRequest {
            base: granted(foreign_base),
            attempt: self.attempts.foreign(attempt),
            ..release.clone()
        };
        let native = match entry {
            Some((_, Native::Held(_))) => self.native.release(native).await,
            // The native store has refused it.
            Some((_, Native::Marked)) => Ok(Ended::new(Verdict::Gone, None)),
            _ => {
                let ended = known(self.native.release(native).await);
                ended.map(|ended| ended.unwrap_or(Ended::new(Verdict::Gone, None)))
            }
        };
        let foreign = self.foreign.release(foreign).await;
        let (native, foreign) = (native?.verdict, foreign?.verdict);
        self.attempts.forget(attempt);
        Ok(Ended::new(verdict(entry.map(|(_, native)| native), native, foreign), None))
    }

    async fn renew_one(&self, lease: &Renewal) -> Result<Renewed> {
        let Some((foreign, native)) = self.attempts.get(lease.attempt) else {
            return Ok(Renewed::Lost);
        };
        let there = self.attempts.foreign(lease.attempt);
        let beside = Renewal { base: foreign, attempt: there, ..lease.clone() };
        let own = async {
            match (native, &self.mark) {
                (Native::Held(token), _) => {
                    let lease = Renewal { base: token, ..lease.clone() };
                    only(self.native.renew(&[lease]).await)
                }
                (Native::Marked, Some(mark)) => {
                    match mark.cover(&lease.name, lease.ttl, true).await? {
                        Covered::Marked => Ok(Renewed::Renewed),
                        Covered::Open => Ok(Renewed::Lost),
                    }
                }
                _ => Ok(Renewed::Lost),
            }
        };
        let other = async { only(self.foreign.renew(std::slice::from_ref(&beside)).await) };
        // The native request goes first, so that its lease does not outlive the foreign one.
        match join(own, other).await {
            (Ok(Renewed::Lost), _) | (_, Ok(Renewed::Lost)) => Ok(Renewed::Lost),
            (Err(error), _) | (_, Err(error)) => Err(error),
            (Ok(own), Ok(_)) => Ok(own),
        }
    }

    async fn read(&self, name: &Name) -> Result<Status> {
        match self.native.status(name).await {
            Ok(status) if status.state != State::Free => return Ok(status),
            // Under a mark there is no native lock.
            Err(error) if !error.kind().is_certain() => return Err(error),
            _ => {}
        }
        self.foreign.status(name).await
    }

    async fn force(&self, name: &Name, token: Token) -> Result<Forced> {
        // Read first: afterwards it may be that of the next holder.
        let beside = self.foreign.status(name).await.ok().and_then(|status| status.token);
        match self.native.force_release(name, token).await {
            Ok(Forced::Ended) => {
                if let Some(beside) = beside {
                    self.foreign.force_release(name, beside).await?;
                }
                return Ok(Forced::Ended);
            }
            Ok(Forced::Other(other)) => return Ok(Forced::Other(other)),
            Err(error) if !error.kind().is_certain() => return Err(error),
            _ => {}
        }
        self.foreign.force_release(name, token).await
    }
}

/// Returns what both formats offer.
fn capability(foreign: &Capability, native: &Capability) -> Capability {
    let lease = match (foreign.lease, native.lease) {
        (LeaseKind::Session, LeaseKind::Session) => LeaseKind::Session,
        _ => LeaseKind::Ttl,
    };
    let mut capability = Capability::new(native.engine, lease);
    capability.push = foreign.push && native.push;
    capability.force_release = foreign.force_release && native.force_release;
    capability.nested_names = foreign.nested_names || native.nested_names;
    let why = Some("the option also is for locks alone; leave it out");
    capability.why_no_read_write_locks = why;
    (capability.why_no_semaphores, capability.why_no_latches) = (why, why);
    capability.longest_ttl = [foreign.longest_ttl, native.longest_ttl].into_iter().flatten().min();
    capability
}

/// Passes on an answer; a refusal is none.
fn known(ended: Result<Ended>) -> Result<Option<Ended>> {
    match ended {
        Ok(ended) => Ok(Some(ended)),
        Err(error) if error.kind().is_certain() => Ok(None),
        Err(error) => Err(error),
    }
}

fn verdict(entry: Option<Native>, native: Verdict, foreign: Verdict) -> Verdict {
    let both = [native, foreign];
    match entry {
        Some(Native::Marked) => foreign,
        _ if both.contains(&Verdict::Lost) => Verdict::Lost,
        Some(Native::Held(_)) if native == foreign => native,
        Some(Native::Held(_)) => Verdict::Unknown,
        // The native lock was not held.
        Some(Native::Asked) => native,
        None if both.contains(&Verdict::Released) => Verdict::Released,
        None if both.contains(&Verdict::Unknown) => Verdict::Unknown,
        None => Verdict::Gone,
    }
}

fn only(mut renewed: Vec<Result<Renewed>>) -> Result<Renewed> {
    renewed.pop().unwrap_or(Ok(Renewed::Lost))
}

/// A pushed grant of one lock is none of both: the client asks again. And a loss is that of the whole lease.
fn of_either(event: Event) -> Event {
    match event {
        Event::Granted { name, attempt, grant: _ } => {
            Event::Next { name, attempt, ask_again: Duration::ZERO }
        }
        Event::Lost { attempt, base: _ } => Event::Lost { attempt, base: None },
        other => other,
    }
}

impl Backend for AlsoBackend {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn place(&self) -> String {
        self.native.place()
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn attach(&self, client: ClientId, events: EventSink) {
        let events = events.mapped(of_either);
        self.foreign.attach(client, events.clone());
        self.native.attach(client, events);
    }

    fn acquire(&self, request: AcquireRequest) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(self.ask(request))
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(join_all(leases.iter().map(|lease| self.renew_one(lease))))
    }

    fn release(&self, release: ReleaseRequest) -> BoxFuture<'_, Result<Ended>> {
        Box::pin(self.end(release))
    }

    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>> {
        Box::pin(self.read(name))
    }

    fn list<'a>(&'a self, _prefix: &'a str, _limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        Box::pin(std::future::ready(Err(no_list())))
    }

    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(self.force(name, token))
    }

    #[cfg(unix)]
    fn descriptors(&self, attempt: AttemptId) -> Vec<std::os::fd::OwnedFd> {
        [self.native.descriptors(attempt), self.foreign.descriptors(self.attempts.foreign(attempt))]
            .into_iter()
            .flatten()
            .collect()
    }

    fn replicas(&self, attempt: AttemptId) -> Option<usize> {
        self.native.replicas(attempt)
    }

    fn abandon(&self, release: &ReleaseRequest) {
        self.native.abandon(release);
        let there = self.attempts.foreign(release.attempt);
        self.foreign.abandon(&ReleaseRequest { attempt: there, ..release.clone() });
        self.attempts.forget(release.attempt);
    }
}
