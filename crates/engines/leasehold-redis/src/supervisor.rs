//! Keeps the one connection: connects, watches, reconnects with back-off, and subscribes to the
//! channel of the client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::proto::Backoff;
use leasehold_core::{Error, ErrorKind, Result};
use redis::aio::MultiplexedConnection;
use redis::{Client, PushInfo, PushKind, Value};
use tokio::sync::{mpsc, watch};

use crate::command::{send, within};
use crate::connection::connect_with_any_protocol;
use crate::error::no_connection;
use crate::push_support::{self, Info};
use crate::script::{Script, Scripts};
use crate::source::Source;

/// How long making a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long a command of the supervisor may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(5);
/// The first and the longest pause between two attempts to connect. After a connection has lasted
/// as long as the longest pause, the pauses start again from the first.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// A connection that can be used now.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) connection: MultiplexedConnection,
    /// The number of the connection, which grows with each connection.
    pub(crate) epoch: u64,
    /// The channel of the client is subscribed on it.
    pub(crate) subscribed: bool,
    /// It cannot subscribe.
    pub(crate) cannot_push: bool,
}

/// The state of the connection.
#[derive(Clone, Debug)]
pub(crate) enum ConnectionState {
    /// There is a connection.
    Up(Live),
    /// There is no connection at the moment, with the reason if a reconnect has failed.
    Down(Option<Error>),
}

impl ConnectionState {
    /// Returns the connection, or an error that explains why there is none.
    pub(crate) fn live(&self) -> Result<Live> {
        match self {
            Self::Up(live) => Ok(live.clone()),
            Self::Down(cause) => Err(no_connection(cause.as_ref())),
        }
    }

    pub(crate) fn is_subscribed(&self) -> bool {
        matches!(self, Self::Up(live) if live.subscribed || live.cannot_push)
    }

    pub(crate) fn cannot_push(&self) -> bool {
        matches!(self, Self::Up(live) if live.cannot_push)
    }
}

/// Receives what a connection brings without a request.
pub(crate) trait Listener: fmt::Debug + Send + Sync {
    /// Handles the payload of one message on the channel of the client.
    fn message(&self, payload: &[u8]);
    /// Records that the channel is subscribed, for the first time or again: messages may have been
    /// missed.
    fn subscribed(&self);
    /// Records that the connection has ended.
    fn broken(&self);
    /// Handles a report about keys that were read with `CLIENT CACHING`.
    fn changed(&self, _report: &[Value]) {}
    /// Records that another server, with another clock, may push from now on.
    fn moved(&self) {}
}

/// An order to the supervisor.
#[derive(Debug)]
pub(crate) enum Order {
    /// Where pushes go: the channel and the listener. Sent once.
    Subscribe(String, Arc<dyn Listener>),
    /// The connection of this epoch does not answer.
    Broken(u64),
}

/// Makes connections and keeps one alive.
pub(crate) struct Supervisor {
    source: Source,
    /// The scripts to load on each connection.
    scripts: Option<Arc<Scripts>>,
    clock: Clock,
    state: watch::Sender<ConnectionState>,
    orders: mpsc::UnboundedReceiver<Order>,
    epoch: u64,
    subscription: Option<(String, Arc<dyn Listener>)>,
    pauses: Backoff,
}

/// A connection with its pushes.
struct Fresh {
    connection: MultiplexedConnection,
    pushed: mpsc::UnboundedReceiver<PushInfo>,
    /// It speaks RESP2. No push arrives, but the end of pushes is not the end of the connection.
    never_pushes: Option<mpsc::UnboundedSender<PushInfo>>,
}

/// Why a connection is not used any more.
enum Over {
    Broken,
    /// No handle needs it.
    Closed,
}

impl Supervisor {
    /// Connects for the first time, so that the caller gets an error at once.
    pub(crate) async fn start(
        source: Source,
        scripts: Arc<Scripts>,
        clock: Clock,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> Result<watch::Receiver<ConnectionState>> {
        let fresh = connect(&source, Some(&scripts)).await?;
        let (supervisor, state) = Self::new(source, Some(scripts), clock, orders);
        supervisor.publish(&fresh.connection, false, false);
        tokio::spawn(supervisor.run(Some(fresh)));
        Ok(state)
    }

    /// Begins to connect.
    pub(crate) fn start_later(
        source: Source,
        scripts: Arc<Scripts>,
        clock: Clock,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> watch::Receiver<ConnectionState> {
        let (supervisor, state) = Self::new(source, Some(scripts), clock, orders);
        tokio::spawn(supervisor.run(None));
        state
    }

    /// Begins to connect, and loads no scripts.
    pub(crate) fn start_lazily(
        client: Client,
        clock: Clock,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> watch::Receiver<ConnectionState> {
        let (supervisor, state) = Self::new(Source::Server(client), None, clock, orders);
        tokio::spawn(supervisor.run(None));
        state
    }

    fn new(
        source: Source,
        scripts: Option<Arc<Scripts>>,
        clock: Clock,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> (Self, watch::Receiver<ConnectionState>) {
        let (state, receiver) = watch::channel(ConnectionState::Down(None));
        let pauses = Backoff::new(PAUSES.0, PAUSES.1);
        let (epoch, subscription) = (0, None);
        let supervisor =
            Self { source, scripts, clock, state, orders, epoch, subscription, pauses };
        (supervisor, receiver)
    }

    async fn run(mut self, first: Option<Fresh>) {
        let mut fresh = first;
        loop {
            let mut pause = Duration::ZERO;
            if let Some(fresh) = fresh.take() {
                let since = self.clock.now();
                match self.look_after(fresh).await {
                    Over::Closed => return,
                    Over::Broken => {}
                }
                let lasted = self.clock.now().steady_ns.saturating_sub(since.steady_ns);
                let lasted = Duration::from_nanos(lasted);
                self.pauses.lasted(lasted);
                if lasted < PAUSES.1 {
                    pause = self.next_pause();
                }
                self.state.send_replace(ConnectionState::Down(None));
                self.epoch += 1;
                if let Some((_, listener)) = &self.subscription {
                    listener.broken();
                }
            }
            fresh = self.reconnect(pause).await;
            if fresh.is_none() {
                return;
            }
        }
    }

    fn publish(&self, connection: &MultiplexedConnection, subscribed: bool, cannot_push: bool) {
        let (connection, epoch) = (connection.clone(), self.epoch);
        let live = Live { connection, epoch, subscribed, cannot_push };
        self.state.send_replace(ConnectionState::Up(live));
    }

    /// Subscribes, publishes the connection, and follows it until it breaks.
    async fn look_after(&mut self, fresh: Fresh) -> Over {
        let Fresh { connection, mut pushed, never_pushes: _kept } = fresh;
        if !self.subscribe(&connection).await {
            return Over::Broken;
        }
        loop {
            tokio::select! {
                push = pushed.recv() => match push {
                    Some(push) if push.kind == PushKind::Disconnection => return Over::Broken,
                    Some(push) => self.handle_push(&push),
                    None => return Over::Broken,
                },
                () = self.source.moved() => {
                    tracing::info!("another server is the master now");
                    return Over::Broken;
                }
                order = self.orders.recv() => match order {
                    None => return Over::Closed,
                    Some(Order::Broken(epoch)) if epoch == self.epoch => return Over::Broken,
                    Some(Order::Broken(_)) => {}
                    Some(Order::Subscribe(channel, listener)) => {
                        self.subscription = Some((channel, listener));
                        if !self.subscribe(&connection).await {
                            return Over::Broken;
                        }
                    }
                },
            }
        }
    }

    /// Subscribes if there is a channel, and publishes the connection. Waiters then ask again,
    /// since pushes may have been missed.
    async fn subscribe(&self, connection: &MultiplexedConnection) -> bool {
        let Some((channel, listener)) = &self.subscription else {
            self.publish(connection, false, false);
            return true;
        };
        let mut subscriber = connection.clone();
        let limit = tokio::time::timeout(COMMAND_LIMIT, subscriber.subscribe(channel)).await;
        match limit {
            Ok(Ok(())) => {
                self.publish(connection, true, false);
                listener.subscribed();
                true
            }
            // The log got it at connect.
            Ok(Err(error)) if push_support::is_refusal(&error) => {
                tracing::debug!(%error, "this server cannot send pushes");
                self.publish(connection, false, true);
                listener.subscribed();
                true
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot subscribe to {channel}");
                false
            }
            Err(_elapsed) => false,
        }
    }

    fn handle_push(&self, push: &PushInfo) {
        let Some((_, listener)) = &self.subscription else { return };
        match (&push.kind, push.data.as_slice()) {
            (PushKind::Message, [_, Value::BulkString(payload)]) => listener.message(payload),
            (PushKind::Invalidate, report) => listener.changed(report),
            _ => {}
        }
    }

    /// Reconnects after a pause, for as long as it takes; returns `None` when no handle needs a
    /// connection any more.
    async fn reconnect(&mut self, mut pause: Duration) -> Option<Fresh> {
        let mut said = String::new();
        loop {
            if !pause.is_zero() {
                let (clock, source) = (self.clock.clone(), self.source.clone());
                tokio::select! {
                    () = clock.sleep(pause) => {}
                    () = source.moved() => {}
                    () = self.closed() => return None,
                }
            }
            match connect(&self.source, self.scripts.as_deref()).await {
                Ok(fresh) => {
                    tracing::info!(epoch = self.epoch, "reconnected");
                    return Some(fresh);
                }
                Err(error) => {
                    let cause = error.to_string();
                    if cause != said {
                        tracing::warn!(%error, "cannot reconnect; retrying");
                        said = cause;
                    }
                    self.state.send_replace(ConnectionState::Down(Some(error)));
                }
            }
            pause = self.next_pause();
        }
    }

    fn next_pause(&mut self) -> Duration {
        self.pauses.next(fastrand::u64(..)).max(PAUSES.0)
    }

    /// Takes orders while there is no connection; returns when no handle is left.
    async fn closed(&mut self) {
        while let Some(order) = self.orders.recv().await {
            if let Order::Subscribe(channel, listener) = order {
                self.subscription = Some((channel, listener));
            }
        }
    }
}

/// Makes one connection, with the most important scripts loaded.
async fn connect(source: &Source, scripts: Option<&Scripts>) -> Result<Fresh> {
    let client = source.client().await?;
    let (sender, pushed) = mpsc::unbounded_channel();
    let (mut connection, cannot_push) =
        connect_with_any_protocol(&client, CONNECT_LIMIT, sender.clone()).await?;
    match cannot_push {
        false => check_server(&mut connection, source).await?,
        true => {
            let info = Info::of(&mut connection).await;
            check_version(info.version.as_deref().unwrap_or_default())?;
            source.check(info.mode.as_deref(), info.role.as_deref())?;
        }
    }
    if let Some(scripts) = scripts {
        load(&mut connection, scripts.at_first()).await?;
    }
    let never_pushes = cannot_push.then_some(sender);
    Ok(Fresh { connection, pushed, never_pushes })
}

/// Refuses a server that cannot keep locks: too old, a replica, or a part of a larger system.
async fn check_server(connection: &mut MultiplexedConnection, source: &Source) -> Result<()> {
    let hello = within(COMMAND_LIMIT, send(connection, &redis::cmd("HELLO"))).await?;
    let said = |field: &str| {
        let fields = hello.as_map_iter()?;
        let text = |value: &Value| redis::from_redis_value_ref::<String>(value).ok();
        fields.filter(|(key, _)| text(key).as_deref() == Some(field)).find_map(|(_, v)| text(v))
    };
    check_version(&said("version").unwrap_or_default())?;
    source.check(said("mode").as_deref(), said("role").as_deref())
}

fn check_version(version: &str) -> Result<()> {
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_some_and(|major| major < 7) {
        let what = format!("the server is Redis {version}; 7.0 or newer is needed");
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    Ok(())
}

/// Loads the scripts on the server.
pub(crate) async fn load(
    connection: &mut MultiplexedConnection,
    scripts: impl IntoIterator<Item = &Script>,
) -> Result<()> {
    for script in scripts {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(script.code());
        within(COMMAND_LIMIT, send(connection, &command)).await?;
    }
    Ok(())
}
