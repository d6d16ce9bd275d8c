//! The connection to one node: commands with short time limits, and the meaning of each failure.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::proto::quorum::{NodeReply, Refusal};
use leasehold_core::{Deadline, Error, ErrorKind, Now};
use redis::{Client, Cmd, RedisError, RedisResult, Value};
use tokio::sync::{mpsc, watch};

use crate::command::send;
use crate::error::from_redis;
use crate::supervisor::{ConnectionState, Live, Order, Supervisor};

/// If an answer takes longer than this, the connection is closed.
const BROKEN_AFTER: Duration = Duration::from_secs(1);
/// A task that wakes this much later than planned was kept from running. Answers that arrived
/// meanwhile get this many extra moments to be read.
const STALL: Duration = Duration::from_millis(10);
const MOMENT: Duration = Duration::from_millis(5);
const MOMENTS: u32 = 3;
/// Errors that a server returns before it begins: nothing was done.
const REFUSALS: &[&str] = &[
    "BUSY",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "NOAUTH",
    "NOPERM",
    "NOREPLICAS",
    "NOSCRIPT",
    "OOM",
    "READONLY",
];

/// Why a command has no proper answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// Another process answers than the one that was addressed. Nothing was done.
    Stranger,
    /// The settings of the server do not allow it to vote; with the reason and what to do. Nothing
    /// was done.
    Unfit(Error),
    /// There is no connection. Nothing was sent.
    Down(Error),
    /// The server answered why it did nothing.
    Answer(RedisError),
    /// It is not known whether it was done.
    Unknown(Error),
}

impl Failure {
    /// Returns true if the server has no memory left.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Answer(error) if error.code() == Some("OOM"))
    }

    /// Returns the reply to each step.
    pub(super) fn reply(&self) -> NodeReply {
        match self {
            Self::Stranger => NodeReply::Refused(Refusal::Stranger),
            Self::Unfit(_) | Self::Down(_) | Self::Answer(_) => NodeReply::Refused(Refusal::Unfit),
            Self::Unknown(_) => NodeReply::Unknown,
        }
    }

    /// Returns why the server did nothing, as the rest of a sentence about it.
    pub(super) fn refusal(&self) -> Option<String> {
        match self {
            Self::Answer(error) => {
                Some(format!("refused: {}", from_redis(error.clone()).message()))
            }
            Self::Unfit(error) => Some(format!("cannot vote: {}", error.message())),
            _ => None,
        }
    }

    pub(super) fn error(self) -> Error {
        match self {
            Self::Stranger => Error::new(ErrorKind::Unavailable, Refusal::Stranger.to_string()),
            Self::Unfit(error) | Self::Down(error) | Self::Unknown(error) => error,
            Self::Answer(error) => from_redis(error),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Unknown(error)
    }
}

/// One connection, which is re-established when it breaks.
#[derive(Debug)]
pub(super) struct NodeConnection {
    state: watch::Receiver<ConnectionState>,
    orders: mpsc::UnboundedSender<Order>,
    clock: Clock,
}

impl NodeConnection {
    /// Begins to connect.
    pub(super) fn start(client: Client, clock: Clock) -> Self {
        let (orders, receiver) = mpsc::unbounded_channel();
        let state = Supervisor::start_lazily(client, clock.clone(), receiver);
        Self { state, orders, clock }
    }

    pub(super) fn now(&self) -> Now {
        self.clock.now()
    }

    pub(super) fn order(&self, order: Order) {
        self.orders.send(order).ok();
    }

    /// Returns the connection, if there is one.
    pub(super) fn live(&self) -> Result<Live, Failure> {
        self.state.borrow().live().map_err(Failure::Down)
    }

    /// Returns that there is no connection, with the reason, as the rest of a sentence about the
    /// node.
    pub(super) fn down(&self) -> Option<String> {
        match &*self.state.borrow() {
            ConnectionState::Up(_) => None,
            ConnectionState::Down(None) => Some("is not connected at the moment".to_owned()),
            ConnectionState::Down(Some(cause)) => {
                Some(format!("is not connected: {}", cause.message()))
            }
        }
    }

    /// Returns the connection; waits while it is being made.
    pub(super) async fn up(&self, limit: Duration) -> Result<Live, Failure> {
        self.settled(limit).await.live().map_err(Failure::Down)
    }

    /// Returns the state, as soon as it is known whether a connection can be made.
    pub(super) async fn settled(&self, limit: Duration) -> ConnectionState {
        let mut state = self.state.clone();
        let known = state.wait_for(|state| !matches!(state, ConnectionState::Down(None)));
        match tokio::time::timeout(limit, known).await {
            Ok(Ok(state)) => state.clone(),
            _ => self.state.borrow().clone(),
        }
    }

    /// Sends one command on this connection.
    pub(super) async fn send(
        &self,
        live: &Live,
        command: Arc<Cmd>,
        until: Deadline,
    ) -> Result<Value, Failure> {
        let mut connection = live.connection.clone();
        let mut calling = Box::pin(async move { send(&mut connection, &command).await });
        let limit = until.remaining(self.now());
        let (mut due, mut moments) = (until, 0);
        loop {
            let left = due.remaining(self.now());
            if let Ok(answer) = tokio::time::timeout(left, &mut calling).await {
                return answer.map_err(|error| self.sort(error, live.epoch));
            }
            let now = self.now();
            let late = Duration::from_nanos(now.steady_ns.saturating_sub(due.steady_ns()));
            if late <= STALL || moments == MOMENTS {
                break;
            }
            // This process was kept from running: the answer may be here unread.
            due = Deadline::after(now, MOMENT);
            moments += 1;
        }
        // A server may be slower than this limit; one that is silent for long is down.
        tokio::spawn(late(calling, self.orders.clone(), live.epoch));
        let what = format!("the server did not answer in {limit:?}");
        Err(Failure::Unknown(Error::new(ErrorKind::Unavailable, what)))
    }

    fn sort(&self, error: RedisError, epoch: u64) -> Failure {
        let code = error.code().unwrap_or_default();
        if code == "READONLY" {
            // It was demoted: its name may lead to another server by now.
            self.order(Order::Broken(epoch));
        }
        match REFUSALS.contains(&code) {
            true => Failure::Answer(error),
            false => Failure::Unknown(from_redis(error)),
        }
    }
}

async fn late(
    calling: impl Future<Output = RedisResult<Value>> + Unpin,
    orders: mpsc::UnboundedSender<Order>,
    epoch: u64,
) {
    if tokio::time::timeout(BROKEN_AFTER, calling).await.is_err() {
        orders.send(Order::Broken(epoch)).ok();
    }
}
