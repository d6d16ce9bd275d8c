//! The `Backend` trait over a store with compare-and-set: read the record, let the machine decide,
//! write it back unless another client has written it meanwhile.

use futures_util::future::join_all;
use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Ended, EventSink, Grant, Mode, ReleaseRequest,
    Renewal, Renewed, Term,
};
use leasehold_core::proto::handoff::{self, Record};
use leasehold_core::{
    Capability, ClientId, Error, ErrorKind, Forced, LeaseKind, Name, Now, Result, State, Status,
    Token,
};

use crate::record::{Participant, decode, encode};
use crate::store::KeyValueStore;

/// How often a call reads and writes again because another client was faster.
const TRIES: usize = 100;

/// The connection of one client to a [`KeyValueStore`].
#[derive(Debug)]
pub struct TemplateBackend {
    store: KeyValueStore,
    capability: Capability,
}

impl TemplateBackend {
    /// Connects a client to the store.
    pub fn new(store: KeyValueStore) -> Self {
        // Each field that is set here adds cases of the suite. Begin with none of them.
        let mut capability = Capability::new("template", LeaseKind::Ttl);
        capability.list = true;
        capability.force_release = true;
        capability.keep = true;
        Self { store, capability }
    }

    /// Lets the machine decide about a lock, and stores what it has changed.
    async fn step<T>(
        &self,
        name: &Name,
        step: impl Fn(&mut Record<Participant>, Now) -> T,
    ) -> Result<T> {
        for _ in 0..TRIES {
            let now = self.store.now().await?;
            let read = self.store.get(name.as_str()).await?;
            let mut record = match &read {
                Some((_, text)) => decode(name, text)?,
                None => Record::default(),
            };
            let answer = step(&mut record, now);
            let text = encode(record);
            let (version, before) = read.unzip();
            // What has not changed needs no write.
            if before.as_ref() == Some(&text) {
                return Ok(answer);
            }
            if self.store.put_if(name.as_str(), version, text).await? {
                return Ok(answer);
            }
        }
        let message = format!("other clients changed the record {TRIES} times in a row; try again");
        Err(Error::new(ErrorKind::Unavailable, message))
    }

    async fn ask(&self, request: AcquireRequest) -> Result<Answer> {
        if request.mode != Mode::Exclusive {
            let message = "template: shared mode is not supported";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        // No queue: a client that finds the lock taken asks again by itself.
        let request = request.with_wait(false).with_fair(false).with_tokens(1);
        let answer = self.step(&request.name, |record, now| {
            let holder = request.origin.holder(request.attempt);
            let (host, pid, metadata) = (holder.host, holder.pid, holder.metadata);
            let tag = Participant { host, pid, metadata, since_unix_ms: now.unix_ms() };
            record.acquire(now, &request.for_record(tag), &mut |_, _| false)
        });
        Ok(match answer.await? {
            handoff::Answer::Granted { tokens, waiters } => {
                Answer::Granted(Grant::new(tokens, Term::Ttl, waiters > 0))
            }
            handoff::Answer::Busy(_) | handoff::Answer::Queued { .. } => {
                Answer::Busy { ask_again: None }
            }
            handoff::Answer::Ended => Answer::Ended,
            handoff::Answer::UsedUp => {
                let message = "the lock has no token left; use another lock name";
                return Err(Error::new(ErrorKind::Foreign, message));
            }
        })
    }

    async fn renew_one(&self, lease: &Renewal) -> Result<Renewed> {
        let renewed = self.step(&lease.name, |record, now| {
            record.renew(now, lease.attempt, lease.base, lease.ttl)
        });
        Ok(renewed.await?.into())
    }

    async fn end(&self, release: ReleaseRequest) -> Result<Ended> {
        if release.then.is_some() {
            let message = "template: a release cannot acquire for another attempt in the same step";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let words = release.for_record();
        let step =
            |record: &mut Record<Participant>, now| record.release(now, &words, &mut |_, _| false);
        let verdict = self.step(&release.name, step).await?;
        Ok(Ended::new(verdict.into(), None))
    }

    async fn look(&self, name: &Name) -> Result<Status> {
        let now = self.store.now().await?;
        let Some((_, text)) = self.store.get(name.as_str()).await? else {
            return Ok(Status::free(name));
        };
        let record = decode(name, &text)?;
        let mut status = Status::free(name);
        status.state = match record.state(now) {
            handoff::State::Free => State::Free,
            handoff::State::Held => State::Held,
            handoff::State::Kept => State::Kept,
        };
        let owner = record.owner();
        status.holder = owner.map(|(attempt, participant)| participant.holder(attempt));
        status.since_unix_ms = owner.map(|(_, participant)| participant.since_unix_ms);
        status.token = record.base();
        let held = status.state != State::Free;
        status.remaining = held.then(|| record.remaining(now));
        Ok(status)
    }

    async fn look_at_all(&self, prefix: &str, limit: usize) -> Result<Vec<Status>> {
        let mut found = Vec::new();
        for key in self.store.keys(prefix, limit).await? {
            if let Ok(name) = Name::new(key) {
                found.push(self.look(&name).await?);
            }
        }
        Ok(found)
    }

    async fn force(&self, name: &Name, token: Token) -> Result<Forced> {
        let forced =
            self.step(name, |record, now| record.force_release(now, token, &mut |_, _| false));
        Ok(forced.await?.into())
    }
}

impl Backend for TemplateBackend {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn place(&self) -> String {
        "template:".to_owned()
    }

    /// This engine sends no events: `push` is not among its capabilities.
    fn attach(&self, _client: ClientId, _events: EventSink) {}

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
        Box::pin(self.look(name))
    }

    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        Box::pin(self.look_at_all(prefix, limit))
    }

    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(self.force(name, token))
    }
}
