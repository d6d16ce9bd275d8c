//! The `Backend` trait over one link.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold_core::backend::{
    Answer, Ask, Backend, BoxFuture, Capability, End, Ended, EventSink, Forced, LeaseKind, Mode,
    Renewal, Renewed, Status,
};
use leasehold_core::clock::Clock;
use leasehold_core::{AttemptId, ClientId, Deadline, Error, ErrorKind, Name, Now, Result, Token};
use redis::Value;

use crate::error::strange;
use crate::key::Keys;
use crate::link::Link;
use crate::push::{self, Pushes, Waiters};
use crate::reply::{self, Reply};
use crate::request::{self, Request, What};
use crate::scan::Scan;
use crate::status::status;
use crate::supervisor::Order;

/// Bounds of the time that one request may take; within them it is a third of the ttl.
const LIMITS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Records read by one script: a server does nothing else meanwhile.
const READ: usize = 250;

/// One client's connection to a Redis server.
#[derive(Debug)]
pub struct RedisBackend {
    link: Link,
    keys: Keys,
    place: String,
    clock: Clock,
    capability: Capability,
    waiters: Waiters,
    client: OnceLock<ClientId>,
}

impl RedisBackend {
    pub(crate) fn new(link: Link, keys: Keys, place: String, clock: Clock) -> Self {
        let mut capability = Capability::new("redis", LeaseKind::Ttl);
        capability.ordered = true;
        capability.push = true;
        capability.token_blocks = true;
        capability.rotate = true;
        capability.keep = true;
        capability.list = true;
        capability.force_release = true;
        // As long to be sent, and as long again to be answered.
        capability.answers_within = Some(2 * LIMITS.1);
        let (waiters, client) = (Waiters::default(), OnceLock::new());
        Self { link, keys, place, clock, capability, waiters, client }
    }

    /// Waits until our channel is subscribed; what is left of the limit.
    async fn subscribed(&self, limit: Duration) -> Result<Duration> {
        if self.link.is_subscribed() {
            return Ok(limit);
        }
        let until = Deadline::after(self.clock.now(), limit);
        self.link.subscribed(limit).await?;
        Ok(until.remaining(self.clock.now()))
    }

    async fn ask(&self, ask: Ask) -> Result<Answer> {
        if ask.mode != Mode::Exclusive {
            return Err(Error::new(ErrorKind::Unsupported, "redis: shared mode is not supported"));
        }
        request::ask_fits(&ask)?;
        let mut limit = limit(ask.ttl);
        let (attempt, wait) = (ask.attempt, ask.wait);
        let mut new = false;
        if wait {
            limit = self.subscribed(limit).await?;
            new = self.waiters.enter(&ask);
        }
        let sent = self.clock.now();
        match self.link.send(Request { what: What::Ask(ask), limit }).await {
            Ok(Reply { answer: Some(answer), .. }) => Ok(self.note(attempt, wait, sent, answer)),
            Ok(Reply { answer: None, .. }) => Err(strange("no answer to an ask")),
            Err(error) => {
                // Certainly not queued, and nobody will end it.
                if new && error.kind().is_certain() {
                    self.waiters.leave(attempt);
                }
                Err(error)
            }
        }
    }

    /// An answer to an ask, with its consequences for pushes.
    fn note(
        &self,
        attempt: AttemptId,
        wait: bool,
        sent: Now,
        (answer, server_us): (Answer, Option<u64>),
    ) -> Answer {
        match server_us {
            Some(server_us) => self.waiters.refer(attempt, sent, server_us),
            None if wait => self.waiters.leave(attempt),
            None => {}
        }
        answer
    }

    async fn end(&self, end: End) -> Result<Ended> {
        let then = end.then.as_deref();
        if then.is_some_and(|ask| ask.mode != Mode::Exclusive) {
            return Err(Error::new(ErrorKind::Unsupported, "redis: shared mode is not supported"));
        }
        request::fits("keep", end.keep.unwrap_or_default())?;
        then.map_or(Ok(()), request::ask_fits)?;
        let mut limit = LIMITS.1;
        if let Some(ask) = then.filter(|ask| ask.wait) {
            limit = self.subscribed(limit).await?;
            self.waiters.enter(ask);
        }
        let then = then.map(|ask| (ask.attempt, ask.wait, self.clock.now()));
        // Whoever was granted the lease does not stand in the queue, unless an ask is still on its way.
        let queued = (end.base.is_none() || end.suspect).then_some(end.attempt);
        let member = queued.and_then(|attempt| self.waiters.member(attempt));
        let reply = self.link.send(Request { what: What::End(end, member), limit }).await?;
        if let Some(attempt) = queued {
            self.waiters.leave(attempt);
        }
        let answered = then.zip(reply.answer);
        let then =
            answered.map(|((attempt, wait, sent), answer)| self.note(attempt, wait, sent, answer));
        Ok(Ended { verdict: reply.verdict, then })
    }

    async fn renew_batch(&self, leases: &[Renewal]) -> Result<Vec<Result<Renewed>>> {
        leases.iter().try_for_each(|lease| request::fits("ttl", lease.ttl))?;
        let shortest = leases.iter().map(|lease| lease.ttl).min().unwrap_or_default();
        let command = request::renewals(self.link.scripts().renew.hash(), &self.keys, leases);
        match self.link.run(&command, limit(shortest)).await? {
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

    async fn status_of(&self, names: Vec<Name>) -> Result<Vec<Result<Status>>> {
        let keys: Vec<String> = names.iter().map(|name| self.keys.of(name)).collect();
        let refs: Vec<&str> = keys.iter().map(String::as_str).collect();
        let script = &self.link.scripts().status;
        let Value::Array(answers) = self.link.call(script, &refs, &[], LIMITS.1).await? else {
            return Err(strange("status is not an array"));
        };
        let each = names.into_iter().zip(&keys).zip(answers.chunks(4));
        Ok(each.map(|((name, key), answers)| status(name, key, answers)).collect())
    }

    async fn scan(&self, prefix: &str) -> Result<Vec<Name>> {
        let mut scan = Scan::new(&self.keys, prefix);
        while let Some(command) = scan.next() {
            scan.take(self.link.command(&command, LIMITS.1).await?)?;
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
        self.link.order(Order::Subscribe(push::channel(client), Arc::new(pushes)));
    }

    fn acquire(&self, ask: Ask) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(self.ask(ask))
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(async move {
            match self.renew_batch(leases).await {
                Ok(answers) => answers,
                Err(error) => leases.iter().map(|_| Err(error.clone())).collect(),
            }
        })
    }

    fn release(&self, end: End) -> BoxFuture<'_, Result<Ended>> {
        Box::pin(self.end(end))
    }

    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>> {
        Box::pin(async move {
            let statuses = self.status_of(vec![name.clone()]).await?;
            statuses.into_iter().next().unwrap_or_else(|| Err(strange("no status")))
        })
    }

    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        Box::pin(async move {
            let mut names = self.scan(prefix).await?;
            names.truncate(limit);
            let mut listed = Vec::new();
            for page in names.chunks(READ) {
                // Keys of somebody else under our prefix are no locks.
                listed.extend(
                    self.status_of(page.to_vec()).await?.into_iter().filter_map(Result::ok),
                );
            }
            Ok(listed)
        })
    }

    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(async move {
            let key = self.keys.of(name);
            let token = format!("{:016}", token.get());
            let script = &self.link.scripts().force_release;
            match self.link.call(script, &[&key], &[&token], LIMITS.1).await? {
                Value::BulkString(answer) => match answer.as_slice() {
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
