//! The queue of a lock with its record, as of one moment, and whose turn it is.

use futures_util::future::try_join_all;
use leasehold_core::proto::fifo::Turn;
use leasehold_core::{Result, Token};
use zookeeper_client::{Error as ZkError, Stat};

use crate::error::from_zk;
use crate::format::{Format, Ordered};
use crate::kind;
use crate::path::QueueNode;
use crate::record::{Places, Record};
use crate::session::{Listed, Session};

/// The number of nodes that are read concurrently.
const TOGETHER: usize = 32;

/// The queue of a lock.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The nodes in the order of the queue.
    pub(crate) nodes: Vec<QueueNode>,
    /// The nodes that belong to no lock, and that clients of this format wait for.
    pub(crate) strays: Vec<String>,
    /// The nodes that are of another kind of lock if they are ephemeral.
    suspects: Vec<String>,
    pub(crate) format: Format,
    /// The stat of the lock's node; `None` if the lock has none.
    pub(crate) stat: Option<Stat>,
}

impl Queue {
    /// Sorts the nodes of the lock at `lock`.
    pub(crate) fn new(listed: Option<Listed>, lock: &str, format: Format) -> Result<Self> {
        let (nodes, stat) = match listed {
            Some((nodes, stat)) => (nodes, Some(stat)),
            None => (Vec::new(), None),
        };
        let ordered = format.order(nodes);
        let Ordered { nodes, strays, suspects } =
            ordered.map_err(|node| kind::no_lock(lock, &node, format))?;
        Ok(Self { nodes, strays, suspects, format, stat })
    }

    /// Sorts the nodes of the lock at `lock`, and refuses those of another kind of lock also where only the node itself
    /// tells: the one of a lock below this one, `lock/NAME`, may have such a name too.
    pub(crate) async fn alone(
        session: &Session,
        listed: Option<Listed>,
        lock: &str,
        format: Format,
    ) -> Result<Self> {
        let queue = Self::new(listed, lock, format)?;
        for suspects in queue.suspects.chunks(TOGETHER) {
            let stats = suspects.iter().map(async |node| {
                let path = format!("{lock}/{node}");
                session.stat(&path).await.map_err(|error| from_zk(error, &path))
            });
            let stats = try_join_all(stats).await?;
            let is_lease = |stat: &Option<Stat>| stat.is_some_and(|stat| stat.ephemeral_owner != 0);
            if let Some(at) = stats.iter().position(is_lease) {
                return Err(kind::no_lock(lock, &suspects[at], format));
            }
        }
        Ok(queue)
    }

    /// Lists the queue of a lock in the engine's own format, no older than this call.
    pub(crate) async fn now(session: &Session, lock: &str) -> Result<Self> {
        let listed = session.queue_now(lock).await.map_err(|error| from_zk(error, lock))?;
        Self::new(listed, lock, Format::Own)
    }

    /// Returns true if nothing is in the queue that a writer would wait for.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.strays.is_empty()
    }

    /// Returns the place of a node, and the node that it waits for.
    pub(crate) fn place(&self, node: &str) -> Option<(usize, Option<&str>)> {
        let place = self.nodes.iter().position(|other| other.node == node)?;
        let before = self.nodes.get(..place)?;
        let blocks = match self.nodes.get(place)?.reads {
            true => before.iter().rfind(|other| !other.reads).map(|other| &*other.node),
            false => self.format.before(&self.nodes, &self.strays, place),
        };
        Some((place, blocks))
    }

    /// Returns true if a client waits to write behind this place, or for any lease of a writer.
    pub(crate) fn is_wanted(&self, place: usize) -> bool {
        let reads = self.nodes.get(place).is_some_and(|node| node.reads);
        self.nodes.iter().skip(place + 1).any(|node| !reads || !node.reads)
    }

    /// Returns true if an entry is there to write.
    pub(crate) fn has_writer(&self) -> bool {
        self.nodes.iter().any(|node| !node.reads)
    }

    /// Returns true if one of these nodes is there to write.
    pub(crate) fn has_writer_among(nodes: Vec<String>) -> bool {
        nodes.iter().filter_map(|node| QueueNode::parse(node)).any(|node| !node.reads)
    }

    /// Returns the turn of the node at this place, for which no other is waited.
    pub(crate) fn turn(&self, place: usize, created: Token) -> Option<(Places, Turn<i64>)> {
        let own = self.nodes.get(place)?;
        let places = Places(own.number);
        let first = self.nodes.first().map_or(0, |first| places.of(first.number));
        let run = self.nodes.iter().take_while(|node| node.reads).last();
        let run = run.map_or(0, |last| places.of(last.number)).max(0);
        Some((places, Turn { place: 0, created, first, run: own.reads.then_some(run) }))
    }

    /// Reads the record. `None` if it has changed since the queue was listed.
    pub(crate) async fn record(
        &self,
        session: &Session,
        lock: &str,
    ) -> Result<Option<Option<Record>>> {
        let Some(listed) = self.stat.filter(|stat| stat.version != 0) else {
            return Ok(Some(None));
        };
        match session.record(lock).await {
            Ok((data, stat)) if (stat.czxid, stat.version) == (listed.czxid, listed.version) => {
                match Record::read(&data, &stat, lock) {
                    // Others may write what they like.
                    Err(_) if self.format != Format::Own => Ok(Some(None)),
                    record => record.map(Some),
                }
            }
            Ok(_) | Err(ZkError::NoNode) => Ok(None),
            Err(error) => Err(from_zk(error, lock)),
        }
    }
}
