//! A network between a client and a server that fails on command.

mod connection;
mod listen;
mod pattern;
mod shot;
mod sockets;
mod state;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use self::sockets::Listener;
use self::state::{Action, Link, Rule, Shared};
use crate::ports::Ports;
use crate::wait;

pub use self::pattern::Pattern;
pub use self::shot::{Held, Shot};
pub use self::sockets::Target;

/// One way through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// What the client sends.
    ClientToServer,
    /// What the server sends.
    ServerToClient,
}

/// A proxy on loopback, in a thread with a runtime of its own, so that it goes on while the
/// test's runtime does not. It knows where requests and replies of Redis end (both versions of
/// the protocol); what is not that protocol, TLS among it, goes through unseen, and can be cut,
/// killed and delayed all the same.
///
/// TCP loses nothing from the middle of a connection, and so neither does the proxy: what a cut
/// withholds arrives when it is healed, and a connection that has lost a reply stays silent.
///
/// Rules (`swallow_reply_to`, `duplicate`, ...) are for one request each, the next that matches;
/// they are looked at in the order in which they were given. `MONITOR` and `CLIENT REPLY` are not
/// understood; duplicates of `SUBSCRIBE` and the like are confirmed twice.
#[derive(Debug)]
pub struct Proxy {
    address: Target,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Its own port.
    _ports: Ports,
}

/// A living connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The first of a proxy is 1.
    pub id: u64,
    /// Requests that its client has sent.
    pub requests: u64,
}

impl Proxy {
    /// Listens on a free port and passes on to a server of Redis.
    ///
    /// # Errors
    /// When there is no port.
    pub fn start(target: impl Into<Target>) -> io::Result<Self> {
        Self::tcp(target.into(), false)
    }

    /// Listens on a free port and passes on to any server; no frames are looked for, so that only
    /// cuts, kills, refusals and latency do something.
    ///
    /// # Errors
    /// When there is no port.
    pub fn opaque(target: impl Into<Target>) -> io::Result<Self> {
        Self::tcp(target.into(), true)
    }

    /// Listens on a unix socket, which must not be there yet.
    ///
    /// # Errors
    /// What the system says.
    pub fn on_socket(path: &std::path::Path, target: impl Into<Target>) -> io::Result<Self> {
        let listener = std::os::unix::net::UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let adopt = || Ok(Listener::Unix(tokio::net::UnixListener::from_std(listener)?));
        Self::run(Target::Unix(path.into()), target.into(), false, adopt)
    }

    fn tcp(target: Target, opaque: bool) -> io::Result<Self> {
        let (address, listener, ports) = sockets::bind_any()?;
        let adopt = || Ok(Listener::Tcp(tokio::net::TcpListener::from_std(listener)?));
        let mut proxy = Self::run(Target::Tcp(address), target, opaque, adopt)?;
        proxy._ports = ports;
        Ok(proxy)
    }

    fn run(
        address: Target,
        target: Target,
        opaque: bool,
        adopt: impl FnOnce() -> io::Result<Listener> + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(target, opaque));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (at, state) = (address.clone(), shared.clone());
        let thread = thread::Builder::new().name("proxy".into()).spawn(move || {
            runtime.block_on(async {
                // Only the system can fail here; then no client gets an answer.
                if let Ok(listener) = adopt() {
                    listen::listen(at, listener, state).await;
                }
            });
        })?;
        Ok(Self { address, shared, thread: Some(thread), _ports: Ports::default() })
    }

    /// Its TCP address.
    ///
    /// # Panics
    /// When it listens on a unix socket.
    pub fn address(&self) -> SocketAddr {
        match &self.address {
            Target::Tcp(address) => *address,
            Target::Unix(path) => panic!("the proxy listens on {}", path.display()),
        }
    }

    /// `redis://...` or `redis+unix://...`
    pub fn url(&self) -> String {
        match &self.address {
            Target::Tcp(address) => format!("redis://{address}"),
            Target::Unix(path) => format!("redis+unix://{}", path.display()),
        }
    }

    /// The request is executed; its reply is lost, and the connection silent from then on.
    pub fn swallow_reply_to(&self, pattern: impl Into<Pattern>) -> Shot {
        self.rule(pattern, Action::LoseReply)
    }

    /// The request is executed; instead of its reply the connection is reset.
    pub fn reset_at_reply_to(&self, pattern: impl Into<Pattern>) -> Shot {
        self.rule(pattern, Action::ResetAtReply)
    }

    /// The request arrives twice; the second reply is lost, so that the client stays in step.
    pub fn duplicate(&self, pattern: impl Into<Pattern>) -> Shot {
        self.rule(pattern, Action::Duplicate)
    }

    /// The request, and what follows it on its connection, waits until it is released.
    pub fn hold(&self, pattern: impl Into<Pattern>) -> Held {
        let released = Arc::new(AtomicBool::new(false));
        let caught = self.rule(pattern, Action::Hold(released.clone()));
        Held::new(caught, released, self.shared.clone())
    }

    /// The request, and what follows it on its connection, waits for some time.
    pub fn delay(&self, pattern: impl Into<Pattern>, time: Duration) -> Shot {
        self.rule(pattern, Action::Delay(time))
    }

    fn rule(&self, pattern: impl Into<Pattern>, action: Action) -> Shot {
        let happened = Arc::new(AtomicBool::new(false));
        let rule = Rule { pattern: pattern.into(), action, happened: happened.clone() };
        self.shared.change(|state| state.rules.push_back(rule));
        Shot::new(happened)
    }

    /// Takes back the rules that have not been applied.
    pub fn forget_rules(&self) {
        self.shared.change(|state| state.rules.clear());
    }

    /// All that clients send waits so long before it goes on; zero by default.
    pub fn set_latency(&self, latency: Duration) {
        self.shared.change(|state| state.latency = latency);
    }

    /// From now on nothing gets through in this direction on any connection, not even its end.
    /// Clients still connect, since a proxy cannot keep the kernel from answering. While nothing gets to the server, it
    /// does not see such a connection; nor later, if its client has gone.
    pub fn cut(&self, direction: Direction) {
        self.shared.change(|state| state.cut[direction as usize] = true);
    }

    /// The same for the connections that come from one address. Servers of an ensemble may each have their own.
    pub fn cut_from(&self, source: IpAddr, direction: Direction) {
        self.shared.change(|state| state.cut_from.insert((source, direction as usize)));
    }

    /// Cuts in both directions.
    pub fn cut_all(&self) {
        self.shared.change(|state| state.cut = [true; 2]);
    }

    /// Ends cuts of connections that come from one address.
    pub fn heal_from(&self, source: IpAddr) {
        self.shared.change(|state| state.cut_from.retain(|(cut, _)| *cut != source));
    }

    /// What comes from one address waits so long before it goes on; zero by default. The longer one of this and
    /// [`set_latency`](Self::set_latency) counts.
    pub fn set_latency_from(&self, source: IpAddr, latency: Duration) {
        self.shared.change(|state| state.latency_from.insert(source, latency));
    }

    /// Looks for frames on connections that come from one address and are made from now on, whatever is done with others.
    pub fn frame_from(&self, source: IpAddr) {
        self.shared.change(|state| state.framed_from = Some(source));
    }

    /// Resets every connection that comes from one address, as [`kill_connections`](Self::kill_connections) does.
    pub fn kill_connections_from(&self, source: IpAddr) {
        let comes = |link: &&mut Link| link.source == Some(source);
        self.shared.change(|state| {
            state.links.values_mut().filter(comes).for_each(|link| link.killed = true);
        });
    }

    /// The number of living connections that come from one address.
    pub fn connections_from(&self, source: IpAddr) -> usize {
        self.shared.lock().links.values().filter(|link| link.source == Some(source)).count()
    }

    /// Ends all cuts: what was withheld arrives, unless the connection was killed.
    pub fn heal(&self) {
        self.shared.change(|state| {
            state.cut = [false; 2];
            state.cut_from.clear();
        });
    }

    /// In what clients send from now on, the first bytes are replaced by the second ones, of the same length, once in
    /// each piece: for servers that tell each other where they are.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn rewrite(&self, from: &str, to: &str) {
        assert_eq!(from.len(), to.len(), "a piece keeps its length");
        let rewrite = (from.as_bytes().to_vec(), to.as_bytes().to_vec());
        self.shared.change(|state| state.rewrite = Some(rewrite));
    }

    /// Replaces a port in what servers say from now on, where its digits stand alone, so that a client that a server
    /// names another one to goes by way of another proxy.
    ///
    /// # Panics
    /// Unless both have five digits.
    pub fn name_port(&self, from: u16, to: u16) {
        assert!(from >= 10_000 && to >= 10_000, "both have five digits");
        let ports = (from.to_string(), to.to_string());
        self.shared.change(|state| state.ports.push(ports));
    }

    /// Sets whether unsolicited pushes are lost from now on; confirmations of subscriptions
    /// get through.
    pub fn swallow_pushes(&self, swallow: bool) {
        self.shared.change(|state| state.swallow_pushes = swallow);
    }

    /// Resets every connection, on both sides; what was held on it is lost.
    pub fn kill_connections(&self) {
        self.shared.change(|state| state.links.values_mut().for_each(|link| link.killed = true));
    }

    /// Resets one connection.
    pub fn kill(&self, connection: Connection) {
        self.shared.change(|state| {
            state.links.get_mut(&connection.id).into_iter().for_each(|link| link.killed = true);
        });
    }

    /// Whether new connections are refused from now on; returns when it is so.
    ///
    /// # Errors
    /// When the port could not be taken again.
    pub fn refuse_connections(&self, refuse: bool) -> io::Result<()> {
        self.shared.change(|state| state.refuse = refuse);
        wait("the proxy listens or not", || self.shared.lock().listening != refuse)
    }

    /// New connections go to another server.
    pub fn point_to(&self, target: impl Into<Target>) {
        let target = target.into();
        self.shared.change(|state| state.target = target);
    }

    /// New connections go to another server, and so do the living ones, without their clients'
    /// knowing, as behind a load balancer that re-connects. `HELLO`, `AUTH`, `SELECT` and
    /// `CLIENT` are repeated there; subscriptions are gone. One that waits for a reply is reset.
    pub fn move_to(&self, target: impl Into<Target>) {
        let target = target.into();
        self.shared.change(|state| {
            state.target = target;
            state.links.values_mut().for_each(|link| link.moves += 1);
        });
    }

    /// Requests that have come so far; a duplicate counts once.
    pub fn requests(&self) -> u64 {
        self.shared.lock().counts.requests
    }

    /// Requests by command, in upper case.
    pub fn commands(&self) -> BTreeMap<String, u64> {
        self.shared.lock().counts.commands.clone()
    }

    /// Replies of the server, swallowed ones among them.
    pub fn replies(&self) -> u64 {
        self.shared.lock().counts.replies
    }

    /// Returns the number of the server's unsolicited pushes, including lost ones.
    pub fn pushes(&self) -> u64 {
        self.shared.lock().counts.pushes
    }

    /// Bytes that the server got, or sent.
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.shared.lock().counts.bytes[direction as usize]
    }

    /// Connections that clients have made so far.
    pub fn connections_made(&self) -> u64 {
        self.shared.lock().counts.connections
    }

    /// The living connections.
    pub fn connections(&self) -> Vec<Connection> {
        let state = self.shared.lock();
        let living = state.links.iter().filter(|(_, link)| !link.killed);
        living.map(|(id, link)| Connection { id: *id, requests: link.requests }).collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.change(|state| state.closed = true);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
        if let Target::Unix(path) = &self.address {
            std::fs::remove_file(path).ok();
        }
    }
}
