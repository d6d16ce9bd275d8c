//! The fan-in before the one connection: requests of all tasks go out in batches of one script
//! call each, and directly when nothing else is under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use leasehold_core::clock::Clock;
use leasehold_core::{Error, ErrorKind, Result};
use redis::Value;
use tokio::sync::{mpsc, oneshot, watch};

use crate::error::{from_redis, is_demoted, is_no_script, no_connection, strange};
use crate::script::{Script, Scripts};
use crate::supervisor::{Line, Order, load, send};

/// Requests in one script call at the most.
const BATCH: usize = 64;
/// While a batch is under way, the next one goes out when this many wait.
const EAGER: usize = 16;
/// Batches under way at the most.
const IN_FLIGHT: usize = 4;

/// Nothing heard for this long, with a request under way, means that the connection is broken.
const BROKEN_AFTER: Duration = Duration::from_secs(1);

/// Which script a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One argument, one answer.
    Acquire,
    /// Two arguments, two answers.
    Release,
}

/// One request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    pub(crate) key: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) limit: Duration,
}

type Answers = Vec<Vec<u8>>;
type Queued = (Request, oneshot::Sender<Result<Answers>>);

/// The way to the server. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    requests: mpsc::UnboundedSender<Queued>,
    wire: Wire,
}

/// What direct calls and batches share.
#[derive(Clone, Debug)]
struct Wire {
    line: watch::Receiver<Line>,
    orders: mpsc::UnboundedSender<Order>,
    scripts: Arc<Scripts>,
    under_way: Arc<AtomicUsize>,
    clock: Clock,
    /// Steady time of the last answer.
    heard_ns: Arc<AtomicU64>,
}

/// Counts a call as under way for as long as it lives.
struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Link {
    pub(crate) fn new(
        line: watch::Receiver<Line>,
        orders: mpsc::UnboundedSender<Order>,
        scripts: Arc<Scripts>,
        clock: Clock,
    ) -> Self {
        let heard_ns = Arc::new(AtomicU64::new(clock.now().steady_ns));
        let wire = Wire { line, orders, scripts, under_way: Arc::default(), clock, heard_ns };
        let (requests, receiver) = mpsc::unbounded_channel();
        tokio::spawn(gather(wire.clone(), receiver));
        Self { requests, wire }
    }

    pub(crate) fn scripts(&self) -> &Scripts {
        &self.wire.scripts
    }

    /// Gives the supervisor an order.
    pub(crate) fn order(&self, order: Order) {
        self.wire.orders.send(order).ok();
    }

    /// Waits until our channel is subscribed: a waiter must not be queued before.
    pub(crate) async fn subscribed(&self, limit: Duration) -> Result<()> {
        let mut line = self.wire.line.clone();
        let subscribed = line.wait_for(Line::is_subscribed);
        match tokio::time::timeout(limit, subscribed).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(self.wire.line.borrow().live().err().unwrap_or_else(|| no_connection(None))),
        }
    }

    /// Sends one request: directly when nothing else is under way (a hop costs a fifth), else with
    /// others.
    pub(crate) async fn send(&self, request: Request) -> Result<Answers> {
        let free = self.wire.under_way.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
        if free.is_ok() {
            let _under_way = UnderWay(&self.wire.under_way);
            let answers =
                self.wire.call_batch(request.kind, std::slice::from_ref(&request)).await?;
            return answers.into_iter().next().ok_or_else(|| strange("no answer"));
        }
        let (answer, answered) = oneshot::channel();
        self.requests.send((request, answer)).map_err(|_| no_connection(None))?;
        answered.await.unwrap_or_else(|_| Err(no_connection(None)))
    }

    /// Calls a script for something that is a batch already, or rare.
    pub(crate) async fn call(
        &self,
        script: &Script,
        keys: &[&str],
        arguments: &[&str],
        limit: Duration,
    ) -> Result<Value> {
        self.wire.call(script, keys, arguments, limit).await
    }

    /// Sends a plain command.
    pub(crate) async fn command(&self, command: &redis::Cmd, limit: Duration) -> Result<Value> {
        self.wire.command(command, limit).await
    }
}

impl Wire {
    async fn call_batch(&self, kind: Kind, batch: &[Request]) -> Result<Vec<Answers>> {
        let script = match kind {
            Kind::Acquire => &self.scripts.acquire,
            Kind::Release => &self.scripts.release,
        };
        let keys: Vec<&str> = batch.iter().map(|request| request.key.as_str()).collect();
        let arguments: Vec<&str> =
            batch.iter().flat_map(|request| &request.arguments).map(String::as_str).collect();
        let limit = batch.iter().map(|request| request.limit).max().unwrap_or_default();
        let Value::Array(values) = self.call(script, &keys, &arguments, limit).await? else {
            return Err(strange("not an array"));
        };
        let each = arguments.len() / keys.len().max(1);
        if values.len() != batch.len() * each {
            return Err(strange(format!("{} answers to {} requests", values.len(), batch.len())));
        }
        let mut values = values.into_iter().map(|value| match value {
            Value::BulkString(bytes) => Ok(bytes),
            other => Err(strange(other)),
        });
        batch.iter().map(|_| values.by_ref().take(each).collect()).collect()
    }

    async fn call(
        &self,
        script: &Script,
        keys: &[&str],
        arguments: &[&str],
        limit: Duration,
    ) -> Result<Value> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(script.hash()).arg(keys.len()).arg(keys).arg(arguments);
        let live = self.line.borrow().live()?;
        let mut connection = live.connection.clone();
        let calling = async {
            match send(&mut connection, &command).await {
                // The server has restarted or was told to forget: nothing was executed.
                Err(error) if is_no_script(&error) => {
                    load(&mut connection, &self.scripts).await?;
                    send(&mut connection, &command).await.map_err(from_redis)
                }
                answer => answer.map_err(from_redis),
            }
        };
        self.limited(calling, limit, live.epoch).await
    }

    async fn command(&self, command: &redis::Cmd, limit: Duration) -> Result<Value> {
        let live = self.line.borrow().live()?;
        let mut connection = live.connection.clone();
        let calling = async { send(&mut connection, command).await.map_err(from_redis) };
        self.limited(calling, limit, live.epoch).await
    }

    /// How long nothing was heard on any connection.
    fn silent_for(&self) -> Duration {
        let now = self.clock.now().steady_ns;
        Duration::from_nanos(now.saturating_sub(self.heard_ns.load(Ordering::Relaxed)))
    }

    /// A connection that does not answer in time is given up, and made anew.
    async fn limited<T>(
        &self,
        calling: impl Future<Output = Result<T>>,
        limit: Duration,
        epoch: u64,
    ) -> Result<T> {
        match tokio::time::timeout(limit, calling).await {
            Ok(answer) => {
                self.heard_ns.store(self.clock.now().steady_ns, Ordering::Relaxed);
                if answer.as_ref().is_err_and(is_demoted) {
                    self.orders.send(Order::Broken(epoch)).ok();
                }
                answer
            }
            Err(_elapsed) => {
                // A server that stalls for the length of a short limit is no broken connection.
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

    /// One batch of one kind, answered to each who asked.
    async fn answer_batch(&self, kind: Kind, batch: Vec<Queued>) {
        let _under_way = UnderWay(&self.under_way);
        let (requests, askers): (Vec<Request>, Vec<_>) = batch.into_iter().unzip();
        match self.call_batch(kind, &requests).await {
            Ok(answers) => {
                for (asker, answer) in askers.into_iter().zip(answers) {
                    asker.send(Ok(answer)).ok();
                }
            }
            Err(error) => askers.into_iter().for_each(|asker| drop(asker.send(Err(error.clone())))),
        }
    }
}

/// Gathers requests into batches until every handle of the link has gone.
async fn gather(wire: Wire, mut requests: mpsc::UnboundedReceiver<Queued>) {
    let mut pending: Vec<Queued> = Vec::new();
    let mut batches = FuturesUnordered::new();
    let mut open = true;
    while open || !pending.is_empty() || !batches.is_empty() {
        tokio::select! {
            biased;
            Some(()) = batches.next() => {}
            count = requests.recv_many(&mut pending, BATCH), if open && pending.len() < BATCH => {
                open = count > 0;
            }
        }
        while !pending.is_empty()
            && batches.len() < IN_FLIGHT
            && (batches.is_empty() || pending.len() >= EAGER)
        {
            let kind = pending[0].0.kind;
            let (batch, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut pending)
                .into_iter()
                .partition(|(request, _)| request.kind == kind);
            pending = rest;
            wire.under_way.fetch_add(1, Ordering::AcqRel);
            batches.push(wire.answer_batch(kind, batch));
        }
    }
}
