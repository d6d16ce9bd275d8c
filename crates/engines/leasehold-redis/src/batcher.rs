//! Batches the requests of all tasks before the one connection: one script call for each batch, and
//! a direct call if no other request is outstanding.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use leasehold_core::clock::Clock;
use leasehold_core::{Deadline, Error, ErrorKind, Now, Result};
use redis::Value;
use tokio::sync::{mpsc, oneshot, watch};

use crate::call_limit::rest;
use crate::command::send;
use crate::error::{from_redis, is_demoted, is_dropped, is_no_script, no_connection, strange};
use crate::key::Keys;
use crate::reply::{Reply, lines, reply};
use crate::request::{Kind, Request, command};
use crate::script::{Script, Scripts};
use crate::supervisor::{ConnectionState, Live, Order, load};

/// The most requests in one script call.
const BATCH: usize = 64;
/// While a batch is outstanding, the next batch is sent when this many requests wait.
const EAGER: usize = 16;
/// How many requests are taken from the channel in one turn.
const ARRIVALS: usize = 1024;
/// The most outstanding batches.
const IN_FLIGHT: usize = 4;
/// How many batches of other kinds may be sent before a waiting batch.
const PASSED_OVER: u8 = 2;

/// How long the check of the right to push may take.
const PUBLISH_LIMIT: Duration = Duration::from_secs(5);
/// If a request is outstanding and no answer arrives for this long, the connection is broken.
const BROKEN_AFTER: Duration = Duration::from_secs(1);

/// A request, with the caller that waits for its reply, and until when.
#[derive(Debug)]
struct Queued {
    request: Request,
    asker: oneshot::Sender<Result<Reply>>,
    /// Set when it is taken from the channel.
    until: Option<Deadline>,
}

/// The connection to the server. It is cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Batcher {
    requests: mpsc::UnboundedSender<Queued>,
    wire: BatcherState,
}

/// The state that direct calls and batches share.
#[derive(Clone, Debug)]
struct BatcherState {
    state: watch::Receiver<ConnectionState>,
    orders: mpsc::UnboundedSender<Order>,
    scripts: Arc<Scripts>,
    keys: Keys,
    under_way: Arc<AtomicUsize>,
    clock: Clock,
    /// The steady time of the last answer.
    heard_ns: Arc<AtomicU64>,
}

/// Counts a call as outstanding while this value exists.
struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Batcher {
    pub(crate) fn new(
        state: watch::Receiver<ConnectionState>,
        orders: mpsc::UnboundedSender<Order>,
        scripts: Arc<Scripts>,
        keys: Keys,
        clock: Clock,
    ) -> Self {
        let heard_ns = Arc::new(AtomicU64::new(clock.now().steady_ns));
        let wire = BatcherState {
            state,
            orders,
            scripts,
            keys,
            under_way: Arc::default(),
            clock,
            heard_ns,
        };
        let (requests, receiver) = mpsc::unbounded_channel();
        tokio::spawn(gather(wire.clone(), receiver));
        Self { requests, wire }
    }

    pub(crate) fn scripts(&self) -> &Scripts {
        &self.wire.scripts
    }

    /// Sends an order to the supervisor.
    pub(crate) fn order(&self, order: Order) {
        self.wire.orders.send(order).ok();
    }

    pub(crate) fn is_subscribed(&self) -> bool {
        self.wire.state.borrow().is_subscribed()
    }

    /// Waits until the channel of this client is subscribed: a waiter must not be queued before.
    pub(crate) async fn subscribed(&self, limit: Duration) -> Result<()> {
        let mut state = self.wire.state.clone();
        let subscribed = state.wait_for(ConnectionState::is_subscribed);
        match tokio::time::timeout(limit, subscribed).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(self.wire.state.borrow().live().err().unwrap_or_else(|| no_connection(None))),
        }
    }

    /// Returns true if waiters must ask again, because the server cannot push.
    pub(crate) fn cannot_push(&self) -> bool {
        self.wire.state.borrow().cannot_push()
    }

    pub(crate) fn live(&self) -> Result<Live> {
        self.wire.state.borrow().live()
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(*self.wire.state.borrow(), ConnectionState::Up(_))
    }

    /// Waits until there is a connection.
    pub(crate) async fn connected(&self, limit: Duration) -> Result<()> {
        let mut state = self.wire.state.clone();
        let up = state.wait_for(|state| matches!(state, ConnectionState::Up(_)));
        match tokio::time::timeout(limit, up).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(self.wire.state.borrow().live().err().unwrap_or_else(|| no_connection(None))),
        }
    }

    /// Sends one request: directly if no other request is outstanding (a task switch costs a
    /// fifth), otherwise in a batch.
    pub(crate) async fn send(&self, request: Request) -> Result<Reply> {
        let free = self.wire.under_way.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
        if free.is_ok() {
            let _under_way = UnderWay(&self.wire.under_way);
            // In a box: the future is large, and busy clients rarely use it.
            return Box::pin(self.wire.call_one(&request)).await;
        }
        let (asker, answered) = oneshot::channel();
        self.requests
            .send(Queued { request, asker, until: None })
            .map_err(|_| no_connection(None))?;
        answered.await.unwrap_or_else(|_| Err(no_connection(None)))
    }

    /// Runs a command that calls a script.
    pub(crate) async fn run(&self, command: &redis::Cmd, limit: Duration) -> Result<Value> {
        self.wire.run(command, limit).await
    }

    /// Runs a command with other commands right before and after it on the same connection. Returns
    /// the answer of the command, in an array with the answer of the last command if there is one.
    pub(crate) async fn run_between(
        &self,
        before: Option<&redis::Cmd>,
        command: &redis::Cmd,
        after: Option<&redis::Cmd>,
        limit: Duration,
    ) -> Result<Value> {
        self.wire.run_between(before, command, after, limit).await
    }

    /// Checks the right to push. Only waiters need it, but an early error is better. A proxy that
    /// does not know the command is fine: scripts publish on the server behind it.
    pub(crate) async fn check_publish(&self) -> Result<()> {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg("leasehold:c:0000000000000000").arg("");
        match self.command(&publish, PUBLISH_LIMIT).await {
            Err(error) if !error.to_string().to_lowercase().contains("unknown command") => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Sends a plain command.
    pub(crate) async fn command(&self, command: &redis::Cmd, limit: Duration) -> Result<Value> {
        self.wire.command(command, limit).await
    }
}

impl BatcherState {
    async fn call_one(&self, request: &Request) -> Result<Reply> {
        let command = alone(&self.scripts, request, &self.keys);
        answered(request, self.run(&command, request.limit).await?, &self.keys)
    }

    /// Runs a command that calls a script.
    async fn run(&self, command: &redis::Cmd, limit: Duration) -> Result<Value> {
        let live = self.state.borrow().live()?;
        let mut connection = live.connection.clone();
        let calling = async {
            match send(&mut connection, command).await {
                // The first call, or the server restarted or dropped its scripts: nothing was executed.
                Err(error) if is_no_script(&error) => {
                    load(&mut connection, self.scripts.called_by(command)).await?;
                    send(&mut connection, command).await.map_err(from_redis)
                }
                answer => answer.map_err(from_redis),
            }
        };
        self.limited(pin!(calling), limit, live.epoch).await
    }

    async fn run_between(
        &self,
        before: Option<&redis::Cmd>,
        command: &redis::Cmd,
        after: Option<&redis::Cmd>,
        limit: Duration,
    ) -> Result<Value> {
        let live = self.state.borrow().live()?;
        let mut connection = live.connection.clone();
        let mut all = redis::pipe();
        let commands = before.into_iter().chain([command]).chain(after).cloned();
        for command in commands {
            all.add_command(command);
        }
        let count = all.cmd_iter().count();
        let calling = async {
            let mut again = true;
            loop {
                let answers = connection.send_packed_commands(&all, 0, count).await;
                let mut answers = answers.map_err(from_redis)?.into_iter();
                let mut next = || answers.next().unwrap_or(Value::Nil).extract_error();
                if before.is_some() {
                    next().map_err(from_redis)?;
                }
                let answer = match next() {
                    Err(error) if is_no_script(&error) && again => {
                        load(&mut connection, self.scripts.called_by(command)).await?;
                        again = false;
                        continue;
                    }
                    answer => answer.map_err(from_redis)?,
                };
                return Ok(match after {
                    Some(_) => Value::Array(vec![answer, next().map_err(from_redis)?]),
                    None => answer,
                });
            }
        };
        self.limited(pin!(calling), limit, live.epoch).await
    }

    async fn command(&self, command: &redis::Cmd, limit: Duration) -> Result<Value> {
        let live = self.state.borrow().live()?;
        let mut connection = live.connection.clone();
        let calling = async { send(&mut connection, command).await.map_err(from_redis) };
        self.limited(pin!(calling), limit, live.epoch).await
    }

    /// Returns how long no answer has arrived on any connection.
    fn silent_for(&self) -> Duration {
        let now = self.clock.now().steady_ns;
        Duration::from_nanos(now.saturating_sub(self.heard_ns.load(Ordering::Relaxed)))
    }

    /// Limits a call. A connection that does not answer in time is closed and re-established. The
    /// call stays where the caller has pinned it: each move would take its size once more.
    async fn limited<T>(
        &self,
        calling: Pin<&mut impl Future<Output = Result<T>>>,
        limit: Duration,
        epoch: u64,
    ) -> Result<T> {
        match tokio::time::timeout(limit, calling).await {
            Ok(answer) => {
                self.heard_ns.store(self.clock.now().steady_ns, Ordering::Relaxed);
                if answer.as_ref().is_err_and(|error| is_demoted(error) || is_dropped(error)) {
                    self.orders.send(Order::Broken(epoch)).ok();
                }
                answer
            }
            Err(_elapsed) => {
                // A server that stalls for a short limit is not a broken connection.
                if limit >= BROKEN_AFTER || self.silent_for() >= BROKEN_AFTER {
                    self.orders.send(Order::Broken(epoch)).ok();
                }
                Err(Error::new(
                    ErrorKind::Unavailable,
                    format!("the server did not answer in {limit:?}"),
                ))
            }
        }
    }

    /// Sends one batch of one kind, and answers each caller.
    async fn answer_batch(&self, kind: Kind, batch: Vec<Queued>) {
        let _under_way = UnderWay(&self.under_way);
        let now = self.clock.now();
        let until = batch.iter().filter_map(|queued| queued.until);
        let longest = until.map(|until| until.remaining(now)).max();
        let requests = batch.iter().map(|queued| &queued.request);
        let command = command(script(&self.scripts, kind), kind, &self.keys, requests);
        let answers = self.run(&command, longest.unwrap_or_default()).await.and_then(text);
        let answers = match &answers {
            Ok(text) => lines(text, batch.len()).ok_or_else(|| strange(text)),
            Err(error) => Err(error.clone()),
        };
        match answers {
            Ok(lines) => {
                for (Queued { request, asker, until }, line) in batch.into_iter().zip(lines) {
                    let mut reply = reply(&request, line, &self.keys);
                    if let (Ok(Reply { shared: Some(again), .. }), Some(until)) =
                        (&mut reply, until)
                    {
                        again.limit = rest(&self.clock, until, again.limit);
                    }
                    asker.send(reply).ok();
                }
            }
            Err(error) => tell_all(batch, &error),
        }
    }
}

fn script(scripts: &Scripts, kind: Kind) -> &Script {
    match kind {
        Kind::Acquire => &scripts.acquire,
        Kind::Release | Kind::End => &scripts.release,
        Kind::Rotate => &scripts.rotate,
    }
}

/// Builds the script call for one request.
pub(crate) fn alone(scripts: &Scripts, request: &Request, keys: &Keys) -> redis::Cmd {
    let kind = request.kind();
    command(script(scripts, kind), kind, keys, [request].into_iter())
}

/// Reads the answer to such a call.
pub(crate) fn answered(request: &Request, answer: Value, keys: &Keys) -> Result<Reply> {
    reply(request, &text(answer)?, keys)
}

fn tell_all(batch: Vec<Queued>, error: &Error) {
    for queued in batch {
        queued.asker.send(Err(error.clone())).ok();
    }
}

pub(crate) fn text(value: Value) -> Result<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(strange),
        other => Err(strange(other)),
    }
}

/// The requests that wait to be sent, by kind.
#[derive(Debug, Default)]
struct Pending {
    waiting: [VecDeque<Queued>; Kind::ALL.len()],
    /// For each kind: how many batches of other kinds were sent while it waited.
    passed_over: [u8; Kind::ALL.len()],
}

impl Pending {
    fn add(&mut self, mut queued: Queued, now: Now) {
        queued.until = Some(Deadline::after(now, queued.request.limit));
        self.waiting[queued.request.kind() as usize].push_back(queued);
    }

    fn is_empty(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty)
    }

    /// Shrinks the lists after a burst: space for one batch of each kind is enough.
    fn give_room_back(&mut self) {
        self.waiting.iter_mut().for_each(|waiting| waiting.shrink_to(BATCH));
    }

    /// Returns a batch whose callers still wait: from the longest list that has at least this many
    /// requests, or from a list that was passed over often enough. All acquiring clients may wait
    /// for one release.
    fn take(&mut self, at_least: usize, now: Now) -> Option<(Kind, Vec<Queued>)> {
        let overdue = |kind: Kind| self.passed_over[kind as usize] >= PASSED_OVER;
        let length = |kind: Kind| self.waiting[kind as usize].len();
        let kind = Kind::ALL.into_iter().max_by_key(|&kind| (overdue(kind), length(kind)))?;
        if length(kind) < at_least && !overdue(kind) {
            return None;
        }
        for (waiting, passed_over) in self.waiting.iter().zip(&mut self.passed_over) {
            *passed_over = if waiting.is_empty() { 0 } else { *passed_over + 1 };
        }
        self.passed_over[kind as usize] = 0;
        let waiting = &mut self.waiting[kind as usize];
        let mut batch: Vec<Queued> = waiting.drain(..waiting.len().min(BATCH)).collect();
        batch.retain(|queued| !queued.asker.is_closed());
        let is_late = |queued: &mut Queued| queued.until.is_some_and(|until| until.has_passed(now));
        let late = batch.extract_if(.., is_late).collect();
        tell_all(
            late,
            &Error::new(ErrorKind::Unavailable, "the time limit ended before the request was sent"),
        );
        Some((kind, batch))
    }
}

/// Collects requests into batches until every handle of the link is dropped.
async fn gather(wire: BatcherState, mut requests: mpsc::UnboundedReceiver<Queued>) {
    let mut arrived = Vec::with_capacity(BATCH);
    let mut pending = Pending::default();
    let mut batches = FuturesUnordered::new();
    let mut open = true;
    while open || !pending.is_empty() || !batches.is_empty() {
        tokio::select! {
            biased;
            Some(()) = batches.next() => {}
            count = requests.recv_many(&mut arrived, ARRIVALS), if open => open = count > 0,
        }
        let now = wire.clock.now();
        arrived.drain(..).for_each(|queued| pending.add(queued, now));
        while batches.len() < IN_FLIGHT {
            let at_least = if batches.is_empty() { 1 } else { EAGER };
            let Some((kind, batch)) = pending.take(at_least, now) else { break };
            if !batch.is_empty() {
                wire.under_way.fetch_add(1, Ordering::AcqRel);
                batches.push(wire.answer_batch(kind, batch));
            }
        }
        if batches.is_empty() {
            pending.give_room_back();
            arrived.shrink_to(BATCH);
        }
    }
}

#[cfg(test)]
#[path = "batcher_tests.rs"]
mod tests;
