//! The `Backend` of a lock in another library's format.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::backend::wire::{no_list, only_exclusive, only_locks, only_release};
use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Changes, Covered, Ended, Event, EventSink, Mark,
    Origin, ReleaseRequest, Renewal, Renewed, Verdict,
};
use leasehold_core::clock::Clock;
use leasehold_core::{
    AttemptId, Capability, ClientId, Error, Forced, LeaseKind, Name, Result, Status, Token, random,
};
use redis::{Cmd, Value};

use super::keys::WireKeys;
use super::mark::{self, Found, Marks, Step};
use super::origins::Origins;
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
    /// The format, as marks name it.
    marked: String,
    acquire: Arc<Script>,
    others: Arc<Script>,
    mark: Arc<Script>,
    marks: Marks,
    /// The client holds the lock of clients without the option too, so it leaves no mark.
    is_beside: bool,
    /// The keys of clients without the option.
    native: Keys,
    place: String,
    clock: Clock,
    capability: Capability,
    waiting: Waiting,
    origins: Origins,
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
        let (marks, waiting, origins, watched, events) = Default::default();
        let marked = wire.text();
        Self {
            route,
            wire,
            marked,
            acquire,
            others,
            mark,
            marks,
            is_beside: false,
            native,
            place,
            clock,
            capability,
            waiting,
            origins,
            watched,
            events,
        }
    }

    /// Makes it one of so many servers that keep the locks together.
    pub(crate) fn one_of(self, servers: usize) -> Self {
        match servers {
            // Then the other libraries make no difference either.
            1 => self,
            _ => Self { marked: format!("{} at {servers} servers", self.marked), ..self },
        }
    }

    /// Returns true if the server reports changes, as far as is known.
    pub(super) fn reports(&self) -> bool {
        self.capability.push
    }

    /// Makes it the part of a client with the option `also`, which leaves no marks of its own.
    #[must_use]
    pub fn beside_native(self) -> Self {
        Self { is_beside: true, ..self }
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
        // A client with the option also that holds the lock has the native one too. So only a client that gets this
        // lock knows who uses the other.
        let unmarked = self.mark(name, *ttl).await?;
        if *wait && let Some(events) = self.events.get() {
            let keys = self.keys(name)?;
            self.waiting.enter(name, *attempt, events, || self.observe(&keys));
        }
        let mut answer = self.send(&request, &value(*attempt), None).await;
        if unmarked.is_some()
            && let Ok(Answer::Granted(grant)) = &answer
            && let Some(error) = self.mark(name, *ttl).await?
        {
            let release =
                ReleaseRequest::new(name.clone(), *attempt).with_base(grant.tokens.base());
            self.end(release).await?;
            answer = Err(error);
        }
        let waits = match &answer {
            Ok(Answer::Busy { .. }) => *wait,
            Ok(_) => false,
            Err(error) => !error.kind().is_certain(),
        };
        if !waits {
            self.waiting.leave(name, *attempt);
        }
        if let Ok(Answer::Granted(_)) = &answer {
            self.origins.hold(*attempt, &request.origin);
        }
        answer
    }

    /// Asks for the lock with this value. A client of several servers proposes a token, so that all give the same.
    pub(super) async fn acquire_as(
        &self,
        request: &AcquireRequest,
        me: &str,
        proposed: Option<u64>,
    ) -> Result<Answer> {
        only_exclusive(request)?;
        request::fits("ttl", request.ttl)?;
        if let Some(error) = self.mark(&request.name, request.ttl).await? {
            return Err(error);
        }
        self.send(request, me, proposed).await
    }

    async fn send(
        &self,
        request: &AcquireRequest,
        me: &str,
        proposed: Option<u64>,
    ) -> Result<Answer> {
        let AcquireRequest { name, attempt, ttl, .. } = request;
        let keys = self.keys(name)?;
        let mut command = keys.call(self.acquire.hash(), *attempt);
        command.arg("A").arg(me).arg(ttl.as_millis() as u64);
        command.arg(request.origin.written(request::tail)).arg(proposed);
        let answer = text(self.run(&keys, &command, limit(*ttl)).await?)?;
        reply::answer(&answer, &keys.lock, self.longest())
    }

    /// Returns after what time a waiter asks again, whatever the server reports.
    pub(super) fn longest(&self) -> Duration {
        let is_pushed =
            self.capability.push && !self.route.cannot_push() && !self.watched.is_refused();
        if is_pushed { PUSHED } else { POLL }
    }

    /// Gives the lease of this value a token that is larger than its own. Returns false if there is no such lease.
    pub(super) async fn commit_as(
        &self,
        request: &AcquireRequest,
        me: &str,
        token: Token,
    ) -> Result<bool> {
        let keys = self.keys(&request.name)?;
        let mut command = keys.call(self.others.hash(), request.attempt);
        command.arg("C").arg(me).arg(format!("{:016}", token.get()));
        match text(self.run(&keys, &command, limit(request.ttl)).await?)?.as_str() {
            "C" => Ok(true),
            "L" => Ok(false),
            other => Err(strange(other)),
        }
    }

    /// Has clients without the option refused under this name. Returns an error if they use it.
    async fn mark(&self, name: &Name, ttl: Duration) -> Result<Option<Error>> {
        let sent = self.clock.now();
        if self.is_beside || !self.marks.is_due(name, ttl, sent) {
            return Ok(None);
        }
        if !self.marks.is_known(name) {
            // A mark would have others refused, though this client may find a value that it cannot use.
            self.read(name).await?;
        }
        let answer = self.ask_mark(Step::Mark, name, ttl).await?;
        match mark::found(&answer, name, &self.marked)? {
            Found::Native(error) => Ok(Some(error)),
            Found::Marked => {
                self.marks.done(name, ttl, sent, &self.clock);
                Ok(None)
            }
        }
    }

    async fn ask_mark(&self, step: Step, name: &Name, ttl: Duration) -> Result<String> {
        let command = mark::command(&self.mark, step, &self.native, name, (&self.marked, ttl));
        let key = self.native.of(name);
        text(self.route.run_patiently(&key, &command, false, LIMITS.1).await?)
    }

    async fn end(&self, release: ReleaseRequest) -> Result<Ended> {
        only_release(&release)?;
        self.waiting.leave(&release.name, release.attempt);
        let verdict = self.release_as(&release, &value(release.attempt)).await?;
        self.origins.forget(release.attempt);
        Ok(Ended::new(verdict, None))
    }

    /// Ends the lease of this value.
    pub(super) async fn release_as(&self, release: &ReleaseRequest, me: &str) -> Result<Verdict> {
        let ReleaseRequest { name, attempt, base, suspect, .. } = release;
        let keys = self.keys(name)?;
        let mut command = keys.call(self.others.hash(), *attempt);
        command.arg("E").arg(me).arg(base.map_or(0, Token::get));
        command.arg(u8::from(*suspect));
        keys.push_channels(&mut command, self.in_cluster());
        reply::verdict(&text(self.run(&keys, &command, LIMITS.1).await?)?)
    }

    /// Renews the lease of this value, and what is noted about it. Returns false if there is none.
    pub(super) async fn renew_as(
        &self,
        lease: &Renewal,
        me: &str,
        origin: Option<&Origin>,
    ) -> Result<bool> {
        request::fits("ttl", lease.ttl)?;
        let keys = self.keys(&lease.name)?;
        let mut command = keys.call(self.others.hash(), lease.attempt);
        command.arg("R").arg(me).arg(lease.ttl.as_millis() as u64);
        command.arg(format!("{:016}", lease.base.get()));
        command.arg(origin.map_or("", |origin| origin.written(request::tail)));
        match text(self.run(&keys, &command, limit(lease.ttl)).await?)?.as_str() {
            "R" => {
                // The lease is held whether or not others are refused for longer.
                let marked = self.mark(&lease.name, lease.ttl).await;
                if let Err(error) | Ok(Some(error)) = marked {
                    tracing::debug!(name = %lease.name, %error, "cannot renew the mark of the lock");
                }
                Ok(true)
            }
            "L" => Ok(false),
            other => Err(strange(other)),
        }
    }

    async fn renew_one(&self, lease: &Renewal) -> Result<Renewed> {
        let origin = self.origins.of(lease.attempt);
        match self.renew_as(lease, &value(lease.attempt), origin.as_deref()).await? {
            true => Ok(Renewed::Renewed),
            false => {
                self.origins.forget(lease.attempt);
                Ok(Renewed::Lost)
            }
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
            true => self.watched.observe(&self.route, &self.clock, keys.locks()),
            false => None,
        }
    }
}

/// Returns the value by which an attempt owns a lock.
pub(super) fn value(attempt: AttemptId) -> String {
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
        // The native part has the channel of this client, whose subscribers are counted.
        let client = match self.is_beside {
            true => ClientId::from_bits(random::fresh()),
            false => client,
        };
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

impl Mark for WireBackend {
    fn cover<'a>(
        &'a self,
        name: &'a Name,
        ttl: Duration,
        held: bool,
    ) -> BoxFuture<'a, Result<Covered>> {
        Box::pin(async move {
            let step = if held { Step::Keep } else { Step::Cover };
            mark::covered(&self.ask_mark(step, name, ttl).await?, name, &self.marked)
        })
    }

    fn follow<'a>(
        &'a self,
        foreign: &'a AcquireRequest,
        native: Token,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            match self.wire {
                // A counter, far below the native tokens.
                Wire::Redisson => self.commit_as(foreign, &value(foreign.attempt), native).await,
                // The server's time, as the native ones.
                Wire::SetNx { .. } | Wire::Rueidis { .. } => Ok(true),
            }
        })
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
