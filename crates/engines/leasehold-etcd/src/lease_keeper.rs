//! The streams that keep all leases of a client alive: one, or a few under load.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::{Deadline, Error, ErrorKind, Result};
use leasehold_etcd_api::{Client, KeepAliveResponses, KeepAliveSender, LeaseKeepAliveResponse};
use tokio::sync::{mpsc, oneshot};

use crate::error::{Cause, no_answer, sort};
use crate::members::Members;

/// How long opening the stream may take.
const OPEN: Duration = Duration::from_secs(2);

/// A follower forwards keep-alives to the leader one by one for each stream. If a stream has this
/// many unanswered keep-alives, the next stream is used.
const CROWD: usize = 64;
const STREAMS: usize = 8;

/// The result of a keep-alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The leader of `term` extended the lease to `secs` seconds from when the request was sent.
    Alive { secs: i64, term: u64 },
    /// The lease has expired.
    Gone,
}

type Answer = oneshot::Sender<Result<Kept>>;

struct KeepOrder {
    lease: i64,
    answer: Answer,
}

/// Keeps leases alive. A stream is opened for its first lease, and again after it breaks. Cheap to
/// clone.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    streams: Arc<[KeepStream]>,
}

#[derive(Debug)]
struct KeepStream {
    orders: mpsc::UnboundedSender<KeepOrder>,
    under_way: AtomicUsize,
}

/// Counts a keep-alive as unanswered on a stream until it is dropped.
struct UnderWay<'a>(&'a KeepStream);

impl<'a> UnderWay<'a> {
    fn on(stream: &'a KeepStream) -> Self {
        stream.under_way.fetch_add(1, Ordering::Relaxed);
        Self(stream)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Keeper {
    /// Starts the tasks in the current runtime; they end when the last clone is dropped.
    pub(crate) fn start(members: &Members, clock: &Clock) -> Self {
        let stream = |_| {
            let (orders, receiver) = mpsc::unbounded_channel();
            let (members, clock) = (members.clone(), clock.clone());
            let task = KeepTask { members, clock, orders: receiver, waiting: Waiting::default() };
            tokio::spawn(task.run());
            KeepStream { orders, under_way: AtomicUsize::new(0) }
        };
        Self { streams: (0..STREAMS).map(stream).collect() }
    }

    /// Returns the first stream below its limit, or the one with the fewest keep-alives.
    fn stream(&self) -> Option<&KeepStream> {
        let load = |stream: &&KeepStream| stream.under_way.load(Ordering::Relaxed);
        let quiet = self.streams.iter().find(|stream| load(stream) < CROWD);
        quiet.or_else(|| self.streams.iter().min_by_key(load))
    }

    /// Keeps a lease alive. A silent server gives no answer, so limit the time of this call.
    pub(crate) async fn keep(&self, lease: i64) -> Result<Kept> {
        let (answer, answered) = oneshot::channel();
        let gone = || Error::new(ErrorKind::Closed, "the runtime of the connection has shut down");
        let stream = self.stream().ok_or_else(gone)?;
        let _under_way = UnderWay::on(stream);
        stream.orders.send(KeepOrder { lease, answer }).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

struct KeepTask {
    members: Members,
    clock: Clock,
    orders: mpsc::UnboundedReceiver<KeepOrder>,
    waiting: Waiting,
}

/// The callers that wait for the answer about a lease, in the order of their requests.
#[derive(Default)]
struct Waiting(Mutex<HashMap<i64, VecDeque<Answer>>>);

impl Waiting {
    fn add(&self, order: KeepOrder) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(order.lease).or_default().push_back(order.answer);
    }

    fn answer(&self, lease: i64, kept: Kept) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(answers) = all.get_mut(&lease) else { return };
        if let Some(answer) = answers.pop_front() {
            answer.send(Ok(kept)).ok();
        }
        if answers.is_empty() {
            all.remove(&lease);
        }
    }

    fn fail(&self, error: &Error) {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for answer in all.into_values().flatten() {
            answer.send(Err(error.clone())).ok();
        }
    }
}

impl KeepTask {
    async fn run(mut self) {
        while let Some(order) = self.orders.recv().await {
            if order.answer.is_closed() {
                continue; // No caller waits for it now.
            }
            match self.open(order.lease).await {
                Ok((index, sender, responses)) => {
                    let error = self.serve(index, order, sender, responses).await;
                    self.waiting.fail(&error);
                }
                Err((Cause::NoLease, _)) => drop(order.answer.send(Ok(Kept::Gone))),
                Err((_, error)) => drop(order.answer.send(Err(error))),
            }
        }
    }

    /// Opens the stream; the first message must name a lease.
    async fn open(
        &self,
        lease: i64,
    ) -> Result<(usize, KeepAliveSender, KeepAliveResponses), (Cause, Error)> {
        let limit = Deadline::after(self.clock.now(), OPEN);
        let mut at = None;
        let opening = async {
            let open = |client: Client| async move { client.lease_keep_alive(lease).await };
            self.members.open(&mut at, open).await
        };
        let opened = self.clock.within(Some(limit), opening).await;
        let failed = match opened {
            Some(Ok((sender, responses))) => {
                return Ok((at.unwrap_or_default(), sender, responses));
            }
            Some(Err(error)) => sort(error),
            None => (Cause::Unsure, no_answer()),
        };
        if let Some(index) = at.filter(|_| failed.0 != Cause::NoLease) {
            self.members.move_on(index);
        }
        Err(failed)
    }

    /// Processes orders until the stream ends or the client switches to another member.
    async fn serve(
        &mut self,
        index: usize,
        first: KeepOrder,
        sender: KeepAliveSender,
        mut responses: KeepAliveResponses,
    ) -> Error {
        let Self { orders, waiting, members, .. } = self;
        let up = async {
            let mut next = Some(first);
            while let Some(order) = next.take() {
                if !order.answer.is_closed() {
                    let lease = order.lease;
                    waiting.add(order);
                    if let Err(error) = sender.keep_alive(lease).await {
                        return sort(error).1;
                    }
                }
                next = orders.recv().await;
            }
            Error::new(ErrorKind::Closed, "the connection was closed")
        };
        let down = async {
            loop {
                match responses.message().await {
                    Ok(Some(response)) => waiting.answer(response.id, kept(&response)),
                    Ok(None) => {
                        let what = "the server closed the stream of keep-alives";
                        return Error::new(ErrorKind::Unavailable, what);
                    }
                    Err(error) => return sort(error).1,
                }
            }
        };
        tokio::select! {
            error = up => error,
            error = down => {
                members.move_on(index);
                error
            }
            () = members.moved(index) => {
                Error::new(ErrorKind::Unavailable, "the client has switched to another member")
            }
        }
    }
}

fn kept(response: &LeaseKeepAliveResponse) -> Kept {
    match response.ttl {
        secs if secs > 0 => {
            Kept::Alive { secs, term: response.header.map_or(0, |header| header.raft_term) }
        }
        _ => Kept::Gone,
    }
}
