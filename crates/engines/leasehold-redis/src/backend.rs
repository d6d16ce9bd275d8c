//! The `Backend` trait over a route to the servers.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Ended, EventSink, Grant, Mode, ReleaseRequest,
    Renewal, Renewed,
};
use leasehold_core::clock::Clock;
use leasehold_core::{
    AttemptId, Capability, ClientId, Deadline, Error, ErrorKind, Forced, LeaseKind, Name, Now,
    Result, Status, Token,
};
use redis::Value;

use crate::error::strange;
use crate::key::Keys;
use crate::push::{self, Pushes};
use crate::replication::Replicas;
use crate::reply::{self, Reply};
use crate::request::{self, Request, What};
use crate::scan::Scan;
use crate::status::status;
use crate::topology::Route;
use crate::waiters::Waiters;

/// The bounds of the time limit of one request, which is a third of the ttl within them.
const LIMITS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// How many records one script reads: the server does nothing else meanwhile.
const READ: usize = 250;

/// The connection of one client to a Redis server.
#[derive(Debug)]
pub struct RedisBackend {
    route: Route,
    replicas: Option<Replicas>,
    keys: Keys,
    place: String,
    clock: Clock,
    capability: Capability,
    waiters: Waiters,
    client: OnceLock<ClientId>,
}

impl RedisBackend {
    pub(crate) fn new(
        route: Route,
        push: bool,
        replicas: Option<Replicas>,
        keys: Keys,
        place: String,
        clock: Clock,
    ) -> Self {
        let mut capability = Capability::new("redis", LeaseKind::Ttl);
        (capability.ordered, capability.push) = (push, push);
        capability.unfair = push;
        capability.token_blocks = true;
        capability.rotate = true;
        capability.keep = true;
        capability.list = true;
        capability.force_release = true;
        // Each call may take the limit to be sent, and again to be answered. A grant that replicas
        // do not have is released too.
        let calls = if replicas.is_some() { 5 } else { 2 };
        capability.answers_within = Some(calls * LIMITS.1);
        let (waiters, client) = (Waiters::default(), OnceLock::new());
        Self { route, replicas, keys, place, clock, capability, waiters, client }
    }

    /// Waits until the channel of this client is subscribed; returns the rest of the limit.
    async fn subscribed(&self, limit: Duration) -> Result<Duration> {
        if self.route.is_subscribed() {
            return Ok(limit);
        }
        let until = Deadline::after(self.clock.now(), limit);
        Box::pin(self.route.subscribed(limit)).await?;
        Ok(until.remaining(self.clock.now()))
    }

    /// Acquires. Steps that a call rarely takes are in boxes of their own, here and in `end`: each
    /// call allocates its whole future.
    async fn ask(&self, mut request: AcquireRequest) -> Result<Answer> {
        if request.mode != Mode::Exclusive {
            return Err(Error::new(ErrorKind::Unsupported, "redis: shared mode is not supported"));
        }
        request::acquire_fits(&request)?;
        let mut limit = limit(request.ttl);
        request.wait &= self.is_heard();
        let (attempt, wait) = (request.attempt, request.wait);
        let mut new = false;
        if wait {
            limit = self.subscribed(limit).await?;
            new = self.waiters.enter(&request);
        }
        let sent = self.clock.now();
        let secured =
            self.replicas.as_ref().map(|replicas| (replicas, request.name.clone(), request.ttl));
        match self.route.send(&self.keys, Request { what: What::Acquire(request), limit }).await {
            Ok(Reply { answer: Some(answer), .. }) => {
                let answer = self.note(attempt, wait, sent, answer);
                if let (Answer::Granted(grant), Some((replicas, name, ttl))) = (&answer, secured) {
                    Box::pin(self.secure(replicas, name, attempt, *grant, ttl)).await?;
                }
                Ok(answer)
            }
            Ok(Reply { answer: None, .. }) => Err(strange("no answer to an acquire")),
            Err(error) => {
                // It is certainly not queued, and no task will end it.
                if new && error.kind().is_certain() {
                    self.waiters.leave(attempt);
                }
                Err(error)
            }
        }
    }

    /// Records the answer to an acquire for later pushes.
    fn note(
        &self,
        attempt: AttemptId,
        wait: bool,
        sent: Now,
        (answer, server_us): (Answer, Option<u64>),
    ) -> Answer {
        let answer = match answer {
            // Use the client's own schedule: no push reports the release of the lease.
            Answer::Busy { ask_again } if ask_again != Some(Duration::ZERO) && !self.is_heard() => {
                Answer::Busy { ask_again: None }
            }
            answer => answer,
        };
        match server_us {
            // If replicas must have the grant, a waiter asks again after a push.
            Some(server_us) if self.replicas.is_none() => {
                self.waiters.refer(attempt, sent, server_us);
            }
            Some(_) => {}
            None if wait => self.waiters.leave(attempt),
            None => {}
        }
        answer
    }

    /// Waits until replicas have acknowledged a grant, or releases it.
    async fn secure(
        &self,
        replicas: &Replicas,
        name: Name,
        attempt: AttemptId,
        grant: Grant,
        ttl: Duration,
    ) -> Result<()> {
        let Err(error) = replicas.secure(&name, attempt, grant, ttl).await else { return Ok(()) };
        let base = Some(grant.tokens.base());
        let release = ReleaseRequest::new(name, attempt).with_base(base).with_last(base);
        let request = Request { what: What::Release(release, None), limit: LIMITS.1 };
        match self.route.send(&self.keys, request).await {
            Ok(_) => Err(error),
            // The caller ends it then.
            Err(unknown) => {
                Err(Error::new(ErrorKind::Unavailable, error.to_string()).with_source(unknown))
            }
        }
    }

    /// Returns whether pushes arrive. If not, waiters must not join the queue: the client asks
    /// again.
    fn is_heard(&self) -> bool {
        self.capability.push && !self.route.is_mute()
    }

    async fn end(&self, mut release: ReleaseRequest) -> Result<Ended> {
        if let Some(request) = &mut release.then {
            request.wait &= self.is_heard();
        }
        let then = release.then.as_deref();
        if then.is_some_and(|request| request.mode != Mode::Exclusive) {
            return Err(Error::new(ErrorKind::Unsupported, "redis: shared mode is not supported"));
        }
        request::fits("keep", release.keep.unwrap_or_default())?;
        then.map_or(Ok(()), request::acquire_fits)?;
        let ended = release.attempt;
        // A granted lease is not in the queue, unless a request is still on its way.
        let queued = (release.base.is_none() || release.suspect).then_some(ended);
        // From now on it neither waits nor holds, even if no answer arrives.
        let member = queued.and_then(|attempt| self.waiters.end(attempt, self.clock.now()));
        if let Some(replicas) = &self.replicas {
            replicas.forget(ended);
        }
        let mut limit = LIMITS.1;
        let mut entered = None;
        if let Some(request) = then.filter(|request| request.wait) {
            limit = self.subscribed(limit).await?;
            entered = self.waiters.enter(request).then_some(request.attempt);
        }
        let secured =
            self.replicas.as_ref().zip(then.map(|request| (request.name.clone(), request.ttl)));
        let then = then.map(|request| (request.attempt, request.wait, self.clock.now()));
        let name = release.name.clone();
        let request = Request { what: What::Release(release, member), limit };
        let reply = self.route.send(&self.keys, request).await.inspect_err(|error| {
            // It is certainly not queued, and no task will end it.
            if let Some(attempt) = entered.filter(|_| error.kind().is_certain()) {
                self.waiters.leave(attempt);
            }
        })?;
        if reply.more {
            self.clear_line(name);
        }
        if let Some(attempt) = queued {
            self.waiters.leave(attempt);
        }
        let answered = then.zip(reply.answer);
        let mut then = answered.map(|((attempt, wait, sent), answer)| {
            (attempt, self.note(attempt, wait, sent, answer))
        });
        if let (Some((attempt, answer)), Some((replicas, (name, ttl)))) = (&mut then, secured)
            && let Answer::Granted(grant) = *answer
        {
            match Box::pin(self.secure(replicas, name, *attempt, grant, ttl)).await {
                // The caller makes another attempt, which gets the reason itself.
                Err(error) if error.kind().is_certain() => *answer = Answer::Ended,
                secured => secured?,
            }
        }
        Ok(Ended::new(reply.verdict, then.map(|(_, answer)| answer)))
    }

    /// Lets the server continue with a free lock whose queue has more dead waiters than one call
    /// removes. If this ends early, the timers of the waiters continue.
    fn clear_line(&self, name: Name) {
        let Some(client) = self.client.get() else { return };
        let (route, keys) = (self.route.clone(), self.keys.clone());
        // No attempt has this id, so the call ends nothing.
        let attempt = AttemptId::new(*client, 0, 0);
        let release = ReleaseRequest::new(name, attempt);
        tokio::spawn(async move {
            loop {
                let request =
                    Request { what: What::Release(release.clone(), None), limit: LIMITS.1 };
                match route.send(&keys, request).await {
                    Ok(Reply { more: true, .. }) => {}
                    Ok(_) => return,
                    Err(error) => {
                        tracing::debug!(name = %release.name, %error, "dead waiters are left in the queue");
                        return;
                    }
                }
            }
        });
    }

    /// Renews leases that fit into one call.
    async fn renew_batch(&self, leases: &[Renewal]) -> Result<Vec<Result<Renewed>>> {
        leases.iter().try_for_each(|lease| request::fits("ttl", lease.ttl))?;
        let shortest = leases.iter().map(|lease| lease.ttl).min().unwrap_or_default();
        let command = request::renewals(self.route.scripts().renew.hash(), &self.keys, leases);
        let Some(first) = leases.first() else { return Ok(Vec::new()) };
        match self.route.run(&self.keys.of(&first.name), &command, limit(shortest)).await? {
            Value::BulkString(all) if all == b"R" => {
                Ok(leases.iter().map(|_| Ok(Renewed::Renewed)).collect())
            }
            Value::BulkString(answers) if answers.len() == leases.len() => {
                let verdict = |letter| match letter {
                    b'R' => Ok(Renewed::Renewed),
                    b'L' => Ok(Renewed::Lost),
                    other => Err(strange(other)),
                };
                Ok(answers.into_iter().map(verdict).collect())
            }
            other => Err(strange(other)),
        }
    }

    /// Renews leases of different servers, one group after the other.
    async fn renew_apart(&self, leases: &[Renewal]) -> Vec<Result<Renewed>> {
        let groups = self.route.together(&self.keys, leases.iter().map(|lease| &lease.name));
        let renewing = groups.iter().map(|group| async move {
            let leases: Vec<Renewal> = group.iter().map(|&number| leases[number].clone()).collect();
            self.renew_batch(&leases).await
        });
        let mut answers: Vec<Result<Renewed>> = Vec::new();
        answers.resize_with(leases.len(), || Err(strange("no answer to a renewal")));
        for (group, renewed) in groups.iter().zip(join_all(renewing).await) {
            match renewed {
                Ok(renewed) => group.iter().zip(renewed).for_each(|(&at, one)| answers[at] = one),
                Err(error) => group.iter().for_each(|&at| answers[at] = Err(error.clone())),
            }
        }
        answers
    }

    /// Reads records that fit into one call.
    async fn statuses(&self, names: &[Name]) -> Result<Vec<Result<Status>>> {
        let keys: Vec<String> = names.iter().map(|name| self.keys.of(name)).collect();
        let Some(first) = keys.first() else { return Ok(Vec::new()) };
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.route.scripts().status.hash()).arg(keys.len()).arg(&keys);
        let Value::Array(answers) = self.route.run(first, &command, LIMITS.1).await? else {
            return Err(strange("status is not an array"));
        };
        let each = names.iter().zip(&keys).zip(answers.chunks(4));
        Ok(each.map(|((name, key), answers)| status(name.clone(), key, answers)).collect())
    }

    async fn scan(&self, prefix: &str) -> Result<Vec<Name>> {
        let mut scan = Scan::new(&self.keys, prefix);
        for link in self.route.all()? {
            scan.begin();
            while let Some(command) = scan.next() {
                scan.take(link.command(&command, LIMITS.1).await?)?;
            }
        }
        Ok(scan.names())
    }
}

fn limit(ttl: Duration) -> Duration {
    (ttl / 3).clamp(LIMITS.0, LIMITS.1)
}

impl Backend for RedisBackend {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn place(&self) -> String {
        self.place.clone()
    }

    fn attach(&self, client: ClientId, events: EventSink) {
        if self.client.set(client).is_err() {
            return;
        }
        let pushes = Pushes {
            waiters: self.waiters.clone(),
            keys: self.keys.clone(),
            clock: self.clock.clone(),
            events,
        };
        self.route.subscribe(push::channel(client), Arc::new(pushes));
    }

    fn replicas(&self, attempt: AttemptId) -> Option<usize> {
        self.replicas.as_ref()?.of(attempt)
    }

    fn acquire(&self, request: AcquireRequest) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(self.ask(request))
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(async move {
            if let Route::Cluster(_) = self.route {
                return self.renew_apart(leases).await;
            }
            match self.renew_batch(leases).await {
                Ok(answers) => answers,
                Err(error) => leases.iter().map(|_| Err(error.clone())).collect(),
            }
        })
    }

    fn release(&self, release: ReleaseRequest) -> BoxFuture<'_, Result<Ended>> {
        Box::pin(self.end(release))
    }

    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>> {
        Box::pin(async move {
            let statuses = self.statuses(std::slice::from_ref(name)).await?;
            statuses.into_iter().next().unwrap_or_else(|| Err(strange("no status")))
        })
    }

    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        Box::pin(async move {
            let mut names = self.scan(prefix).await?;
            names.truncate(limit);
            let mut listed = Vec::new();
            for page in names.chunks(READ) {
                let groups = self.route.together(&self.keys, page.iter());
                let names = |group: &Vec<usize>| -> Vec<Name> {
                    group.iter().map(|&number| page[number].clone()).collect()
                };
                let groups: Vec<Vec<Name>> = groups.iter().map(names).collect();
                for statuses in join_all(groups.iter().map(|group| self.statuses(group))).await {
                    // Keys of other programs under this prefix are not locks.
                    listed.extend(statuses?.into_iter().filter_map(Result::ok));
                }
            }
            listed.sort_by(|one, next| one.name.cmp(&next.name));
            Ok(listed)
        })
    }

    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(async move {
            let key = self.keys.of(name);
            let token = format!("{:016}", token.get());
            let mut command = redis::cmd("EVALSHA");
            command.arg(self.route.scripts().force_release.hash()).arg(1).arg(&key).arg(token);
            match self.route.run(&key, &command, LIMITS.1).await? {
                Value::BulkString(answer) => match answer.as_slice() {
                    [answer @ (b'e' | b'n')] => {
                        self.clear_line(name.clone());
                        Ok(if *answer == b'e' { Forced::Ended } else { Forced::NotHeld })
                    }
                    b"E" => Ok(Forced::Ended),
                    b"N" => Ok(Forced::NotHeld),
                    [b'O', base @ ..] => {
                        Ok(Forced::Other(reply::token(&String::from_utf8_lossy(base))?))
                    }
                    [b'X', why, ..] => Err(crate::error::foreign(*why, &key)),
                    other => Err(strange(other)),
                },
                other => Err(strange(other)),
            }
        })
    }
}

#[cfg(test)]
#[path = "backend_tests.rs"]
mod tests;
