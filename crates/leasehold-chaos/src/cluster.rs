//! The servers of a run, each behind a proxy, and what is done to one of them.

use std::time::Duration;

use leasehold_conformance::kit::{
    ClockShim, Direction, Pattern, Proxy, RedisServer, Settings, Shot,
};

use leasehold::quorum::{Founding, found};

use crate::fault::Fault;
use crate::plan::Planned;
use crate::{Result, TTL};

/// Where a node of a quorum keeps its marker.
const MARKER: &str = "leasehold:node";
/// Bytes of the marker before the high-water mark of tokens.
const SAID: usize = 67;

/// What the marker of a node says, but for the tokens, which grow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    text: String,
    process: String,
}

impl Mark {
    /// Whether the node has a vote: its marker names the running process, and says so.
    fn votes(&self) -> bool {
        self.text.starts_with("N2A") && self.text.get(3..43) == Some(&self.process)
    }
}

/// How servers and clients are to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// One is a single server, more are a quorum.
    pub(crate) nodes: usize,
    /// Whether servers that may have forgotten have to wait.
    pub(crate) admission: bool,
}

impl Shape {
    /// The longest ttl that nodes grant, and the time for which one has no vote that may have forgotten. Of
    /// a quorum it is longer than it takes to find that another node does not answer, so that commands of
    /// an operator meet nodes that wait beside nodes that are silent.
    pub(crate) fn max_ttl(self) -> Duration {
        if self.nodes == 1 { TTL } else { TTL * 4 }
    }
}

/// The servers.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) shape: Shape,
}

/// One server. What depends on another comes first, so that it goes first.
#[derive(Debug)]
pub(crate) struct Node {
    proxy: Proxy,
    server: RedisServer,
    clock: Option<ClockShim>,
    /// How far its clock is ahead, in seconds.
    ahead: f64,
}

impl Cluster {
    /// Starts the servers; the first one has a clock of its own if `clock`.
    pub(crate) fn start(shape: Shape, clock: bool) -> Result<Self> {
        if !RedisServer::is_present() {
            return Err("redis-server is not installed; apt-get install redis-server".into());
        }
        let nodes = (0..shape.nodes).map(|at| Node::start(clock && at == 0));
        let cluster = Self { nodes: nodes.collect::<Result<_>>()?, shape };
        if shape.admission {
            cluster.found()?;
        }
        Ok(cluster)
    }

    /// Sets the nodes up: nobody holds a lock yet.
    fn found(&self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(found(&self.url(), None, Founding::Vouched, |_| ()))?;
        Ok(())
    }

    /// Where clients connect to.
    pub(crate) fn url(&self) -> String {
        let addresses: Vec<String> =
            self.nodes.iter().map(|node| node.proxy.address().to_string()).collect();
        match (self.shape.nodes, self.shape.admission) {
            (1, false) => format!("redis://{}", addresses[0]),
            (1, true) => format!("redis://{}?admission=strict&{}", addresses[0], self.options()),
            _ => format!("redlock://{}?{}", addresses.join(","), self.options()),
        }
    }

    /// The machine has more to do than it can, so that nodes are waited for longer than usual.
    fn options(&self) -> String {
        format!("max-ttl={}ms&node-limit=100ms", self.shape.max_ttl().as_millis())
    }

    /// Whether this one may be started again, so that a majority keeps its vote: one that is stopped
    /// counts as without.
    pub(crate) fn may_restart(&self, at: usize, stopped: impl Fn(usize) -> bool) -> bool {
        let others = self.nodes.iter().enumerate().filter(|(other, _)| *other != at);
        let vote = others.filter(|(other, node)| !stopped(*other) && node.votes());
        let vote = vote.count();
        !self.shape.admission || self.nodes.len() == 1 || vote > self.nodes.len() / 2
    }

    /// What each node says of itself; `None` for those that are stopped.
    pub(crate) fn marks(&self, stopped: impl Fn(usize) -> bool) -> Vec<Option<Mark>> {
        let mark = |(at, node): (usize, &Node)| (!stopped(at)).then(|| node.mark().ok()).flatten();
        self.nodes.iter().enumerate().map(mark).collect()
    }

    /// A node that had a vote and now says something else, although it is the same process.
    pub(crate) fn changed(
        &self,
        before: &[Option<Mark>],
        stopped: impl Fn(usize) -> bool,
    ) -> Option<String> {
        let pairs = before.iter().zip(self.marks(stopped)).enumerate();
        let changed = |(at, (before, now)): (usize, (&Option<Mark>, Option<Mark>))| {
            let before = before.as_ref().filter(|before| before.votes())?;
            let now = now.filter(|now| now.process == before.process)?;
            let (before, now) = (&before.text, now.text);
            (*before != now).then(|| format!("the marker of node {at} was {before}, and is {now}"))
        };
        { pairs }.find_map(changed)
    }
}

impl Node {
    fn start(clock: bool) -> Result<Self> {
        let clock = clock.then(ClockShim::build).transpose()?;
        // Written before it is answered, though not to the disk: a killed server loses nothing.
        let settings = Settings::new().append_only().line("appendfsync no");
        let settings = match &clock {
            Some(clock) => clock.on(settings),
            None => settings,
        };
        let server = RedisServer::start(settings)?;
        let proxy = Proxy::start(&server)?;
        Ok(Self { proxy, server, clock, ahead: 0.0 })
    }

    /// Does it; what is meant for one request happens with the next one, which the shot tells.
    pub(crate) fn inject(&mut self, planned: Planned) -> Result<Option<Shot>> {
        let scripts = || Pattern::command("EVALSHA");
        let time = std::time::Duration::from_nanos(planned.time);
        match planned.fault {
            Fault::Stop => self.server.stop()?,
            Fault::Restart => self.server.restart()?,
            Fault::Truncate => {
                self.server.kill();
                self.server.truncate_aof(1 + planned.target % 4096)?;
                self.server.start_again()?;
            }
            Fault::Empty => self.server.restart_empty()?,
            Fault::LoseReply => return Ok(Some(self.proxy.swallow_reply_to(scripts()))),
            Fault::Duplicate => return Ok(Some(self.proxy.duplicate(scripts()))),
            Fault::Delay => return Ok(Some(self.proxy.delay(scripts(), time))),
            Fault::Cut => self.proxy.cut(match planned.target % 2 {
                0 => Direction::ClientToServer,
                _ => Direction::ServerToClient,
            }),
            Fault::Slow => {
                self.proxy.set_latency(std::time::Duration::from_millis(20 + planned.target % 180));
            }
            Fault::Clock => {
                if let Some(clock) = &self.clock {
                    // Only ever ahead: what was lost while it was ahead must not come below.
                    self.ahead += time.as_secs_f64();
                    clock.set_offset(self.ahead)?;
                }
            }
            Fault::Pause | Fault::Kill => {}
        }
        Ok(None)
    }

    /// Ends what lasts.
    pub(crate) fn heal(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Stop => self.server.go_on()?,
            Fault::Cut => self.proxy.heal(),
            Fault::Slow => self.proxy.set_latency(std::time::Duration::ZERO),
            _ => {}
        }
        Ok(())
    }

    fn mark(&self) -> Result<Mark> {
        let marker = self.server.admin(&["GET", MARKER])?.text();
        let process = self.server.info("run_id")?;
        Ok(Mark { text: marker.get(..SAID).unwrap_or_default().to_owned(), process })
    }

    pub(crate) fn votes(&self) -> bool {
        self.mark().is_ok_and(|mark| mark.votes())
    }

    /// Takes back what waits for a request.
    pub(crate) fn forget_rules(&self) {
        self.proxy.forget_rules();
    }
}
