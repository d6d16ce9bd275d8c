//! What happens to nodes of a quorum, and how it is done.

use std::time::Duration;

use leasehold_test_servers::{Proxy, RedisServer};

use crate::Result;
use crate::store::{found, redis};

/// How much later than sent a request arrives at a slow node.
const SLOW: Duration = Duration::from_millis(200);

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    None,
    /// One node's process does not run, its connections stay.
    Stopped,
    /// Nothing gets through to one node or from it.
    Silent,
    /// One node receives all requests late.
    Slow,
    /// As many nodes as there may be are killed.
    MinorityKilled,
    /// One more.
    MajorityKilled,
}

/// The servers of a quorum.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) url: String,
    /// Before the first server; it goes first.
    proxy: Option<Proxy>,
    servers: Vec<RedisServer>,
}

impl Fault {
    /// While all is well comes first: the others are held against it.
    pub(super) const ALL: [Self; 6] = [
        Self::None,
        Self::Stopped,
        Self::Silent,
        Self::Slow,
        Self::MinorityKilled,
        Self::MajorityKilled,
    ];

    /// As the table has it.
    pub(super) fn told(self, nodes: usize) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Stopped => "1 stopped".to_owned(),
            Self::Silent => "1 silent".to_owned(),
            Self::Slow => format!("1 slow ({SLOW:?})"),
            Self::MinorityKilled | Self::MajorityKilled => format!("{} killed", self.killed(nodes)),
        }
    }

    pub(super) fn leaves_a_majority(self) -> bool {
        self != Self::MajorityKilled
    }

    fn killed(self, nodes: usize) -> usize {
        match self {
            Self::MinorityKilled => (nodes - 1) / 2,
            Self::MajorityKilled => nodes.div_ceil(2),
            _ => 0,
        }
    }
}

impl Nodes {
    /// Starts so many, set up; the one that this fault needs a proxy for is behind it.
    pub(super) fn start(count: usize, fault: Fault, node_limit: Duration) -> Result<Self> {
        let servers: Vec<RedisServer> = (0..count).map(|_| redis()).collect::<Result<_>>()?;
        let mut places: Vec<String> =
            servers.iter().map(|server| server.address().to_string()).collect();
        let mut proxy = None;
        if matches!(fault, Fault::Silent | Fault::Slow) {
            let before_it = Proxy::start(servers[0].address())?;
            places[0] = before_it.address().to_string();
            proxy = Some(before_it);
        }
        let limit = node_limit.as_millis();
        let url = format!("redlock://{}?node-limit={limit}ms", places.join(","));
        found(url.clone())?;
        Ok(Self { url, proxy, servers })
    }

    /// Has it happen.
    pub(super) fn suffer(&mut self, fault: Fault) -> Result<()> {
        match (fault, &self.proxy) {
            (Fault::Stopped, _) => self.servers[0].stop()?,
            (Fault::Silent, Some(proxy)) => proxy.cut_all(),
            (Fault::Slow, Some(proxy)) => proxy.set_latency(SLOW),
            _ => {}
        }
        let killed = fault.killed(self.servers.len());
        self.servers[..killed].iter_mut().for_each(RedisServer::kill);
        Ok(())
    }
}
