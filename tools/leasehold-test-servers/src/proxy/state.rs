//! The proxy's settings and observations, and the notification of tasks that wait for a change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::{Direction, Pattern, Target};

/// What happens to a request that matches.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Its reply, and all that follows it on the connection, is lost.
    LoseReply,
    /// The connection is reset in the place of its reply.
    ResetAtReply,
    /// It arrives twice, and is answered once.
    Duplicate,
    /// It waits until the flag is set.
    Hold(Arc<AtomicBool>),
    /// It waits so long.
    Delay(Duration),
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) pattern: Pattern,
    pub(super) action: Action,
    /// Set when it has been applied.
    pub(super) happened: Arc<AtomicBool>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) requests: u64,
    pub(super) replies: u64,
    pub(super) pushes: u64,
    pub(super) bytes: [u64; 2],
    pub(super) commands: BTreeMap<String, u64>,
    pub(super) connections: u64,
}

/// A connection as the state knows it.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) requests: u64,
    pub(super) killed: bool,
    /// Where its client connects from; `None` on a unix socket.
    pub(super) source: Option<IpAddr>,
    /// Counts the servers that it has been moved to.
    pub(super) moves: u64,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) target: Target,
    /// Wanted: the proxy does not listen.
    pub(super) refuse: bool,
    /// Seen: the proxy listens.
    pub(super) listening: bool,
    pub(super) cut: [bool; 2],
    /// Cut for connections from one address.
    pub(super) cut_from: BTreeSet<(IpAddr, usize)>,
    /// In what clients send, the first is replaced by the second, of the same length.
    pub(super) rewrite: Option<(Vec<u8>, Vec<u8>)>,
    /// In what servers say, each first port is replaced by the second; both have five digits.
    pub(super) ports: Vec<(String, String)>,
    pub(super) swallow_pushes: bool,
    pub(super) latency: Duration,
    /// Of what comes from one address.
    pub(super) latency_from: BTreeMap<IpAddr, Duration>,
    pub(super) rules: VecDeque<Rule>,
    pub(super) counts: Counts,
    pub(super) links: BTreeMap<u64, Link>,
    /// Frames are not looked for.
    pub(super) opaque: bool,
    /// But on connections from this address.
    pub(super) framed_from: Option<IpAddr>,
    pub(super) closed: bool,
}

/// The state, shared by the proxy's owner, its listener and its connections.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

impl Shared {
    pub(super) fn new(target: Target, opaque: bool) -> Self {
        let state = State {
            target,
            refuse: false,
            listening: true,
            cut: [false; 2],
            cut_from: BTreeSet::new(),
            rewrite: None,
            ports: Vec::new(),
            swallow_pushes: false,
            latency: Duration::ZERO,
            latency_from: BTreeMap::new(),
            rules: VecDeque::new(),
            counts: Counts::default(),
            links: BTreeMap::new(),
            opaque,
            framed_from: None,
            closed: false,
        };
        Self { state: Mutex::new(state), changed: watch::Sender::new(()) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes all who wait.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.send_replace(());
        result
    }

    /// Returns when a condition holds.
    pub(super) async fn until(&self, condition: impl Fn(&State) -> bool) {
        let mut changed = self.changed.subscribe();
        while !condition(&self.lock()) {
            // The sender lives as long as `self`.
            let _ = changed.changed().await;
        }
    }
}

impl State {
    /// Counts a request that goes to the server, and takes the first rule that it matches.
    pub(super) fn request(&mut self, link: u64, args: &[&[u8]]) -> Option<Action> {
        self.counts.requests += 1;
        if let Some(link) = self.links.get_mut(&link) {
            link.requests += 1;
        }
        if let Some(command) = args.first() {
            let command = String::from_utf8_lossy(command).to_ascii_uppercase();
            *self.counts.commands.entry(command).or_default() += 1;
        }
        let at = self.rules.iter().position(|rule| rule.pattern.matches(args))?;
        let rule = self.rules.remove(at)?;
        rule.happened.store(true, Ordering::SeqCst);
        Some(rule.action)
    }

    /// Whether nothing gets through on a connection.
    pub(super) fn is_cut(&self, link: u64, direction: Direction) -> bool {
        let of_source = |source| self.cut_from.contains(&(source, direction as usize));
        self.cut[direction as usize] || self.source(link).is_some_and(of_source)
    }

    /// How long what a client sends on a connection waits.
    pub(super) fn latency(&self, link: u64) -> Duration {
        let source = self.source(link);
        let of_source = source.and_then(|source| self.latency_from.get(&source)).copied();
        self.latency.max(of_source.unwrap_or_default())
    }

    /// Whether frames are looked for on a connection.
    pub(super) fn is_framed(&self, link: u64) -> bool {
        !self.opaque || (self.framed_from.is_some() && self.framed_from == self.source(link))
    }

    fn source(&self, link: u64) -> Option<IpAddr> {
        self.links.get(&link)?.source
    }

    /// What goes to the server instead of what a client has sent; `None` for the same.
    pub(super) fn rewritten(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (from, to) = self.rewrite.as_ref()?;
        let at = bytes.windows(from.len()).position(|part| part == from)?;
        Some([&bytes[..at], to, &bytes[at + from.len()..]].concat())
    }

    /// Replaces ports in what a server says, where their digits stand alone.
    pub(super) fn name_ports(&self, bytes: &mut [u8]) {
        if self.ports.is_empty() {
            return;
        }
        let mut at = 0;
        while let Some(begin) = bytes[at..].iter().position(u8::is_ascii_digit) {
            let begin = at + begin;
            let digits = bytes[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            at = begin + digits;
            let number = &mut bytes[begin..at];
            if let Some((_, to)) = self.ports.iter().find(|(from, _)| from.as_bytes() == number) {
                number.copy_from_slice(to.as_bytes());
            }
        }
    }
}
