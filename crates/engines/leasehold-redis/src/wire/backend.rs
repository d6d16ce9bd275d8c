//! The `Backend` of a lock in another library's format.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::backend::wire::{no_list, only_exclusive, only_locks, only_release};
use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Changes, Ended, Event, EventSink, ReleaseRequest,
    Renewal, Renewed,
};
use leasehold_core::clock::Clock;
use leasehold_core::{
    AttemptId, Capability, ClientId, Forced, LeaseKind, Name, Result, Status, Token,
};
use redis::{Cmd, Value};

use super::keys::WireKeys;
use super::mark::{self, Marks};
use super::waiting::Waiting;
use super::{Wire, reply};
use crate::batcher::text;
use crate::call_limit::{LIMITS, limit};
use crate::error::strange;
use crate::key::Keys;
use crate::push;
use crate::request;
use crate::script::Script;
use crate::supervisor::Listener;
use crate::topology::Route;
use crate::watched::WatchedLocks;

/// After this time a waiter asks again, if the server can report no changes.
const POLL: Duration = Duration::from_secs(1);
/// The same if it can: reports may be lost with a connection.
const PUSHED: Duration = Duration::from_secs(5);

/// The connection of one client to locks in the format of another library (`?wire=`).
#[derive(Debug)]
pub struct WireBackend {
    route: Route,
    wire: Wire,
    acquire: Arc<Script>,
    others: Arc<Script>,
    mark: Arc<Script>,
    marks: Marks,
    /// The keys of clients without the option.
    native: Keys,
    place: String,
    clock: Clock,
    capability: Capability,
    waiting: Waiting,
    watched: WatchedLocks,
    events: OnceLock<EventSink>,
}

impl WireBackend {
    pub(crate) fn new(
        route: Route,
        push: bool,
        (wire, [acquire, others, mark]): (Wire, [Arc<Script>; 3]),
        native: Keys,
        place: String,
        clock: Clock,
    ) -> Self {
        let mut capability = Capability::new("redis", LeaseKind::Ttl);
        (capability.push, capability.observe) = (push, push);
        only_locks(&mut capability);
        capability.force_release = true;
        capability.longest_ttl = wire.longest_ttl();
        let (marks, waiting, watched, events) = Default::default();
        Self {
            route,
            wire,
            acquire,
            others,
            mark,
            marks,
            native,
            place,
            clock,
            capability,
            waiting,
            watched,
            events,
        }
    }

    fn keys(&self, name: &Name) -> Result<WireKeys> {
        let keys = WireKeys::of(&self.wire, name);
        if self.in_cluster() {
            keys.check_slot()?;
        }
        Ok(keys)
    }

    fn in_cluster(&self) -> bool {
        matches!(self.route, Route::Cluster(_))
    }

    async fn run(&self, keys: &WireKeys, command: &Cmd, limit: Duration) -> Result<Value> {
        self.route.run_patiently(&keys.lock, command, false, limit).await
    }

    async fn ask(&self, request: AcquireRequest) -> Result<Answer> {
        only_exclusive(&request)?;
        request::fits("ttl", request.ttl)?;
        let AcquireRequest { name, attempt, ttl, wait, .. } = &request;
        let keys = self.keys(name)?;
        self.mark(name).await?;
        if *wait && let Some(events) = self.events.get() {
            self.waiting.enter(name, *attempt, events, || self.observe(&keys));
        }
        let mut command = keys.call(self.acquire.hash(), *attempt);
        command.arg("A").arg(value(*attempt)).arg(ttl.as_millis() as u64);
        command.arg(request.origin.written(request::tail));
        let answer = self.run(&keys, &command, limit(*ttl)).await.and_then(text);
        let is_pushed = self.capability.push && !self.route.cannot_push();
        let longest = if is_pushed { PUSHED } else { POLL };
        let answer = answer.and_then(|text| reply::answer(&text, &keys.lock, longest));
        let waits = match &answer {
            Ok(Answer::Busy { .. }) => *wait,
            Ok(_) => false,
            Err(error) => !error.kind().is_certain(),
        };
        if !waits {
            self.waiting.leave(name, *attempt);
        }
        answer
    }

    /// Has clients without the option refused under this name.
    async fn mark(&self, name: &Name) -> Result<()> {
        if !self.marks.is_due(name, &self.clock) {
            return Ok(());
        }
        let command = mark::command(&self.mark, &self.native, name, &self.wire);
        let key = self.native.of(name);
        let answer = self.route.run_patiently(&key, &command, false, LIMITS.1).await?;
        mark::check(&text(answer)?, name)?;
        self.marks.done(name, &self.clock);
        Ok(())
    }

    async fn end(&self, release: ReleaseRequest) -> Result<Ended> {
        let ReleaseRequest { name, attempt, base, suspect, .. } = &release;
        only_release(&release)?;
        self.waiting.leave(name, *attempt);
        let keys = self.keys(name)?;
        let mut command = keys.call(self.others.hash(), *attempt);
        command.arg("E").arg(value(*attempt)).arg(base.map_or(0, Token::get));
        command.arg(u8::from(*suspect));
        keys.push_channels(&mut command, self.in_cluster());
        let verdict = text(self.run(&keys, &command, LIMITS.1).await?)?;
        Ok(Ended::new(reply::verdict(&verdict)?, None))
    }

    async fn renew_one(&self, lease: &Renewal) -> Result<Renewed> {
        request::fits("ttl", lease.ttl)?;
        let keys = self.keys(&lease.name)?;
        let mut command = keys.call(self.others.hash(), lease.attempt);
        command.arg("R").arg(value(lease.attempt)).arg(lease.ttl.as_millis() as u64);
        match text(self.run(&keys, &command, limit(lease.ttl)).await?)?.as_str() {
            "R" => {
                // The lease is held whether or not others are refused for longer.
                if let Err(error) = self.mark(&lease.name).await {
                    tracing::debug!(name = %lease.name, %error, "cannot renew the mark of the lock");
                }
                Ok(Renewed::Renewed)
            }
            "L" => Ok(Renewed::Lost),
            other => Err(strange(other)),
        }
    }

    async fn read(&self, name: &Name) -> Result<Status> {
        let keys = self.keys(name)?;
        let mut command = keys.call(self.others.hash(), nobody());
        command.arg("S").arg("");
        let answers = self.run(&keys, &command, LIMITS.1).await?;
        reply::status(name, &keys.lock, &answers)
    }

    async fn force(&self, name: &Name, token: Token) -> Result<Forced> {
        let keys = self.keys(name)?;
        let mut command = keys.call(self.others.hash(), nobody());
        command.arg("X").arg("").arg(token.get()).arg("");
        keys.push_channels(&mut command, self.in_cluster());
        reply::forced(&text(self.run(&keys, &command, LIMITS.1).await?)?)
    }

    fn observe(&self, keys: &WireKeys) -> Option<Changes> {
        match self.capability.observe {
            true => self.watched.observe(&self.route, &self.clock, vec![keys.lock.clone()]),
            false => None,
        }
    }
}

/// Returns the value by which an attempt owns a lock.
fn value(attempt: AttemptId) -> String {
    format!("leasehold:{attempt}")
}

/// An attempt for calls that belong to none.
fn nobody() -> AttemptId {
    AttemptId::new(ClientId::from_bits(0), 0, 0)
}

impl Backend for WireBackend {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn place(&self) -> String {
        self.place.clone()
    }

    fn attach(&self, client: ClientId, events: EventSink) {
        if self.events.set(events.clone()).is_ok() {
            let pushes = Pushes { watched: self.watched.clone(), events };
            self.route.subscribe(push::channel(client), Arc::new(pushes));
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
        self.observe(&self.keys(name).ok()?)
    }

    fn list<'a>(&'a self, _prefix: &'a str, _limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        Box::pin(std::future::ready(Err(no_list())))
    }

    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(self.force(name, token))
    }
}

/// Hears the server's reports about keys.
#[derive(Debug)]
struct Pushes {
    watched: WatchedLocks,
    events: EventSink,
}

impl Listener for Pushes {
    fn message(&self, _payload: &[u8]) {}

    fn subscribed(&self) {
        self.watched.ask_again();
        self.events.send(Event::Reset);
    }

    fn broken(&self) {
        self.watched.ask_again();
        self.events.send(Event::Broken);
    }

    fn changed(&self, report: &[Value]) {
        self.watched.handle_report(report);
    }
}
