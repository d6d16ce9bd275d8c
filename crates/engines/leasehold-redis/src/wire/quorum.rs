//! Locks of other libraries on several independent servers (`redlock://…?wire=set-nx`): who holds a majority of them holds the
//! lock. Each server is a [`WireBackend`]; nothing is stored there that one server alone would not store.
//!
//! A client asks in rounds, each with a value of its own: what a round that failed gives back cannot be what the next one has.

mod attempts;
mod gather;
mod round;
#[cfg(test)]
mod token_tests;
mod votes;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use leasehold_core::backend::wire::{no_list, only_exclusive, only_locks, only_release};
use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, ChangeSource, Changes, Ended, EventSink, Grant,
    ReleaseRequest, Renewal, Renewed, Term, Verdict,
};
use leasehold_core::clock::Clock;
use leasehold_core::proto::drift;
use leasehold_core::{
    Capability, ClientId, Deadline, Forced, LeaseKind, Name, Now, Result, Status, Token, TokenBlock,
};

use super::WireBackend;
use super::backend::value;
use super::waiting::Waiting;
use crate::{call_limit, request};
use attempts::{Attempts, Held};
use gather::gather;
pub(crate) use votes::too_few;
use votes::{Servers, status};

/// How long a waiter lets after the first server's report before it asks: the other servers report soon, and waiters of several
/// processes must not ask at the same moment.
const AFTER_REPORT: (u64, u64) = (1, 8); // ms
/// How long to wait for servers that are asked for what is shown to users.
const SHOWN: Duration = Duration::from_secs(1);
/// The bounds of the time that a server has for a step, a thirtieth of the ttl within them.
const LIMITS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The connections of one client to the servers of a list, for locks in the format of other libraries.
#[derive(Debug)]
pub struct WireQuorum {
    servers: Arc<Servers>,
    node_limit: Option<Duration>,
    clock: Clock,
    capability: Capability,
    waiting: Waiting,
    attempts: Arc<Attempts>,
    events: OnceLock<EventSink>,
}

impl WireQuorum {
    pub(crate) fn new(
        servers: Vec<WireBackend>,
        node_limit: Option<Duration>,
        clock: Clock,
    ) -> Self {
        let mut capability = Capability::new("redlock", LeaseKind::Ttl);
        let reports = servers.iter().all(WireBackend::reports);
        (capability.push, capability.observe) = (reports, reports);
        only_locks(&mut capability);
        capability.force_release = true;
        let servers = Arc::new(Servers::new(servers.into_iter().map(Arc::new).collect()));
        let (waiting, attempts, events) = Default::default();
        Self { servers, node_limit, clock, capability, waiting, attempts, events }
    }

    fn limit(&self, ttl: Duration) -> Duration {
        self.node_limit.unwrap_or((ttl / 30).clamp(LIMITS.0, LIMITS.1))
    }

    async fn ask(&self, request: AcquireRequest) -> Result<Answer> {
        only_exclusive(&request)?;
        request::fits("ttl", request.ttl)?;
        let AcquireRequest { name, attempt, ttl, wait, .. } = &request;
        if self.attempts.verdict(*attempt).is_some() {
            return Ok(Answer::Ended);
        }
        if let Some(held) = self.attempts.held(*attempt) {
            let lease = Renewal::new(name.clone(), *attempt, held.token, *ttl);
            if self.renew_held(&lease, &held).await? {
                return Ok(granted(held.token));
            }
            self.attempts.forget(*attempt);
        }
        if *wait && let Some(events) = self.events.get() {
            self.waiting.enter(name, *attempt, events, || self.observe(name));
        }
        let answer = self.round(&request).await;
        let waits = match &answer {
            Ok(Answer::Busy { .. }) => *wait,
            Ok(_) => false,
            Err(error) => !error.kind().is_certain(),
        };
        if !waits {
            self.waiting.leave(name, *attempt);
        }
        if !waits && !matches!(answer, Ok(Answer::Granted(_)) | Err(_)) {
            // No client ends it.
            self.attempts.trust(*attempt);
        }
        answer
    }

    /// Returns false if a majority of the servers does not have the lease any more.
    async fn renew_held(&self, lease: &Renewal, held: &Held) -> Result<bool> {
        let until = valid(self.clock.now(), lease.ttl);
        let calls = self.servers.each(|server| {
            let (lease, me, origin) = (lease.clone(), held.me.clone(), held.origin.clone());
            async move { server.renew_as(&lease, &me, Some(&origin)).await }
        });
        let most = self.servers.majority();
        let answers = gather(calls, &self.clock, self.limit(lease.ttl), |answers| {
            let (yes, no) = votes::yes_and_no(answers);
            yes >= most || no > answers.len() - most
        })
        .await;
        let (yes, no) = votes::yes_and_no(&answers);
        if yes >= most {
            self.attempts.extend(lease.attempt, until);
            self.mend(lease, held, &answers);
            return Ok(true);
        }
        if no > answers.len() - most {
            return Ok(false);
        }
        Err(self.servers.unavailable(yes + no, &answers))
    }

    /// Takes the lock at servers that have lost it, or did not answer when it was acquired: no other client can hold it meanwhile.
    fn mend(&self, lease: &Renewal, held: &Held, answers: &[Option<Result<bool>>]) {
        for (at, server) in self.servers.all.iter().enumerate() {
            if !matches!(answers[at], Some(Ok(false))) {
                continue;
            }
            let Renewal { name, attempt, ttl, .. } = lease.clone();
            // What arrives late is refused after the release.
            self.attempts.suspect(attempt, at);
            let (server, me, token) = (server.clone(), held.me.clone(), held.token.get());
            let request = AcquireRequest::new(name, attempt, ttl).with_origin(held.origin.clone());
            tokio::spawn(async move { server.acquire_as(&request, &me, Some(token)).await });
        }
    }

    async fn end(&self, release: ReleaseRequest) -> Result<Ended> {
        only_release(&release)?;
        let ReleaseRequest { name, attempt, base, suspect, .. } = &release;
        self.waiting.leave(name, *attempt);
        if let Some(verdict) = self.attempts.verdict(*attempt) {
            return Ok(Ended::new(verdict, None));
        }
        let held = self.attempts.held(*attempt);
        let suspects = self.attempts.suspects(*attempt);
        let is_valid = held.as_ref().is_some_and(|held| !held.until.has_passed(self.clock.now()));
        let limit = match is_valid {
            true => self.node_limit.unwrap_or(LIMITS.1),
            false => call_limit::LIMITS.1,
        };
        // By the attempt alone: whichever round a server has.
        let me = value(*attempt);
        let mut at = 0;
        let calls = self.servers.each(|server| {
            let suspect = *suspect || suspects.get(at).copied().unwrap_or(false);
            at += 1;
            let (release, me) = (release.clone().with_suspect(suspect), me.clone());
            async move {
                server.release_as(&release, &me).await.map(|verdict| verdict == Verdict::Released)
            }
        });
        let most = self.servers.majority();
        let answers = gather(calls, &self.clock, limit, |answers| {
            let (yes, no) = votes::yes_and_no(answers);
            yes >= most || no > answers.len() - most
        })
        .await;
        let (yes, no) = votes::yes_and_no(&answers);
        let verdict = match (held, base) {
            _ if yes >= most => Verdict::Released,
            // A silent server has it too. The others are a majority that is free.
            _ if is_valid && yes + no >= most && no <= answers.len() - most => Verdict::Released,
            _ if no <= answers.len() - most => {
                return Err(self.servers.unavailable(yes + no, &answers));
            }
            (Some(_), _) => Verdict::Lost,
            (None, Some(_)) => Verdict::Unknown,
            (None, None) => Verdict::Gone,
        };
        self.attempts.end(self.clock.now(), *attempt, verdict);
        Ok(Ended::new(verdict, None))
    }

    async fn renew_one(&self, lease: &Renewal) -> Result<Renewed> {
        request::fits("ttl", lease.ttl)?;
        let Some(held) = self.attempts.held(lease.attempt) else { return Ok(Renewed::Lost) };
        match self.renew_held(lease, &held).await? {
            true => Ok(Renewed::Renewed),
            false => Ok(Renewed::Lost),
        }
    }

    async fn read(&self, name: &Name) -> Result<Status> {
        let calls = self.servers.each(|server| {
            let name = name.clone();
            async move { server.status(&name).await }
        });
        let answers = gather(calls, &self.clock, SHOWN, |_| false).await;
        let seen: Vec<&Status> = answers.iter().flatten().flatten().collect();
        if seen.len() < self.servers.majority() {
            return Err(self.servers.unavailable(seen.len(), &answers));
        }
        Ok(status(name, &seen, self.servers.majority()))
    }

    async fn force(&self, name: &Name, token: Token) -> Result<Forced> {
        let calls = self.servers.each(|server| {
            let name = name.clone();
            async move { server.force_release(&name, token).await }
        });
        let answers = gather(calls, &self.clock, SHOWN, |_| false).await;
        let seen: Vec<&Forced> = answers.iter().flatten().flatten().collect();
        if seen.len() < self.servers.majority() {
            return Err(self.servers.unavailable(seen.len(), &answers));
        }
        Ok(votes::forced(&seen))
    }

    /// Observes the lock at all servers.
    fn observe(&self, name: &Name) -> Option<Changes> {
        if !self.capability.observe {
            return None;
        }
        let observed: Option<Vec<Changes>> =
            self.servers.all.iter().map(|server| server.watch(name)).collect();
        let mut observed: FuturesUnordered<_> = observed?.into_iter().map(next).collect();
        let source = ChangeSource::new();
        let changes = source.observe();
        let clock = self.clock.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = source.unobserved() => return,
                    said = observed.next() => match said {
                        Some(Some(more)) => observed.push(next(more)),
                        // The waiters ask at shorter intervals from now on.
                        Some(None) => {}
                        None => return,
                    },
                }
                clock
                    .sleep(Duration::from_millis(fastrand::u64(AFTER_REPORT.0..=AFTER_REPORT.1)))
                    .await;
                source.mark();
            }
        });
        Some(changes)
    }
}

/// Waits for the next change, and returns what the ones after it mark. Returns `None` after the last one.
async fn next(mut changes: Changes) -> Option<Changes> {
    changes.changed().await.then_some(changes)
}

/// Returns until when a lease is surely held that was requested at this moment.
fn valid(sent: Now, ttl: Duration) -> Deadline {
    Deadline::after(sent, ttl.saturating_sub(drift(ttl)))
}

fn granted(token: Token) -> Answer {
    Answer::Granted(Grant::new(TokenBlock::single(token), Term::Ttl, false))
}

impl Backend for WireQuorum {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn place(&self) -> String {
        let places: Vec<String> = self.servers.all.iter().map(|server| server.place()).collect();
        format!("redlock://{}", places.join(","))
    }

    fn attach(&self, client: ClientId, events: EventSink) {
        if self.events.set(events).is_err() {
            return;
        }
        for server in &self.servers.all {
            // No client hears its events: one lost connection is not the end of all, and what changes is observed.
            server.attach(client, EventSink::channel().0);
        }
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

    fn watch(&self, name: &Name) -> Option<Changes> {
        self.observe(name)
    }

    fn list<'a>(&'a self, _prefix: &'a str, _limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        Box::pin(std::future::ready(Err(no_list())))
    }

    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(self.force(name, token))
    }
}
