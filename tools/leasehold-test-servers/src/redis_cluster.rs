//! A cluster of three masters with a replica each, whose slots can be moved.

use std::io;
use std::ops::Range;

use crate::redis_server::{PASSWORD, USER};
use crate::{Links, RedisServer, RedisSettings, Value, wait};

/// Six nodes: the masters first, then a replica of each, in the same order.
#[derive(Debug)]
pub struct RedisCluster {
    /// The nodes.
    pub nodes: Vec<RedisServer>,
    /// The ways between them, of those that [`start_linked`](Self::start_linked) has started.
    pub links: Links,
}

const MASTERS: usize = 3;
const SLOTS: usize = 16384;

/// As a node of a cluster is to be.
fn node(settings: RedisSettings) -> RedisSettings {
    let timeout_ms = if settings.patient { 15_000 } else { 2_000 };
    settings.cluster().line(format!("cluster-node-timeout {timeout_ms}"))
}

impl RedisCluster {
    /// Starts the nodes, and returns when each of them says that the cluster is well and whole.
    ///
    /// # Errors
    /// As [`RedisServer::start`]; `TimedOut` when they do not find each other.
    pub fn start(settings: RedisSettings) -> io::Result<Self> {
        let settings = node(settings);
        let start = |_| RedisServer::start(settings.clone());
        let nodes: Vec<_> = (0..2 * MASTERS).map(start).collect::<io::Result<_>>()?;
        Self::of(nodes, Links::default())
    }

    /// The same, and each connects to the others, and to their buses, through proxies. Clients connect to the first ones
    /// too.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_linked(settings: RedisSettings) -> io::Result<Self> {
        let settings = node(settings);
        let (mut nodes, mut proxies) = (Vec::new(), Vec::new());
        for number in 0..2 * MASTERS {
            let (server, of_server) = RedisServer::start_in_cluster(number, settings.clone())?;
            nodes.push(server);
            proxies.push(of_server.into());
        }
        Self::of(nodes, Links::by_source(proxies))
    }

    /// Makes a cluster of nodes that are alone.
    fn of(nodes: Vec<RedisServer>, links: Links) -> io::Result<Self> {
        let cluster = Self { nodes, links };
        for number in 0..MASTERS {
            let Range { start, end } = Self::range(number);
            let (first, last) = (start.to_string(), (end - 1).to_string());
            cluster.nodes[number].admin(&["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
        }
        for (number, node) in cluster.nodes.iter().enumerate() {
            // Epochs that collide are put right in time; setting them is faster.
            let epoch = (number + 1).to_string();
            node.admin(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
        }
        for node in &cluster.nodes[1..] {
            cluster.nodes[0].meet(node)?;
        }
        let ids: Vec<String> = (0..MASTERS).map(|n| cluster.id(n)).collect::<io::Result<_>>()?;
        for (master, id) in ids.iter().enumerate() {
            let replica = &cluster.nodes[MASTERS + master];
            wait("the replica knows its master", || {
                replica.admin(&["CLUSTER", "REPLICATE", id.as_str()]).is_ok()
            })?;
        }
        cluster.settled()?;
        Ok(cluster)
    }

    /// The slots that a master has at the start.
    pub fn range(master: usize) -> Range<usize> {
        master * SLOTS / MASTERS..(master + 1) * SLOTS / MASTERS
    }

    /// `HOST:PORT,HOST:PORT,...`: the first masters, as a URL has them.
    pub fn place(&self) -> String {
        let place = |node: &RedisServer| format!("127.0.0.1:{}", node.port_between());
        self.nodes[..MASTERS].iter().map(place).collect::<Vec<_>>().join(",")
    }

    /// `redis+cluster://...`
    pub fn url(&self) -> String {
        format!("redis+cluster://{}", self.place())
    }

    /// Waits until every node that is alive says that all slots are served, every replica follows,
    /// and all of them take each other for what they are.
    ///
    /// # Errors
    /// `TimedOut` when that does not happen.
    pub fn settled(&self) -> io::Result<()> {
        wait("the cluster is well", || {
            self.nodes.iter().filter(|node| node.pid() != 0).all(|node| {
                let Ok(info) = node.admin(&["CLUSTER", "INFO"]) else { return false };
                let info = info.text();
                let says = |line: &str| info.lines().any(|said| said.trim() == line);
                let follows = node.info("role").is_ok_and(|role| role == "master")
                    || node.info("master_link_status").is_ok_and(|link| link == "up");
                says("cluster_state:ok")
                    && says(&format!("cluster_slots_ok:{SLOTS}"))
                    && says(&format!("cluster_known_nodes:{}", self.nodes.len()))
                    && follows
            }) && self.agree()
        })
    }

    /// Whether every node that is alive knows of each of the others whether it is a replica: news of that
    /// goes round slowly where nodes are patient.
    fn agree(&self) -> bool {
        let alive = self.nodes.iter().filter(|node| node.pid() != 0);
        let views: io::Result<Vec<String>> =
            alive.map(|node| Ok(node.admin(&["CLUSTER", "NODES"])?.text())).collect();
        let Ok(views) = views else { return false };
        let seen = |view: &str| -> Vec<(String, bool, bool)> {
            let fields = view.lines().map(|line| line.split(' ').collect::<Vec<_>>());
            let known = fields.filter_map(|fields| {
                let (id, flags) = (fields.first()?, fields.get(2)?);
                Some(((*id).to_owned(), flags.contains("slave"), flags.contains("myself")))
            });
            known.collect()
        };
        let all: Vec<_> = views.iter().map(|view| seen(view)).collect();
        let own = all.iter().flatten().filter(|(.., is_own)| *is_own);
        own.clone().count() == views.len()
            && own.into_iter().all(|(id, is_replica, _)| {
                let said = all.iter().flatten().filter(|(of, ..)| of == id);
                said.clone().count() == views.len()
                    && said.into_iter().all(|one| one.1 == *is_replica)
            })
    }

    /// Adds a master without slots, the last of the nodes.
    ///
    /// # Errors
    /// Those of starting it; `TimedOut` when the others do not take it up.
    pub fn join(&mut self, settings: RedisSettings) -> io::Result<()> {
        let node = RedisServer::start(node(settings))?;
        self.nodes[0].meet(&node)?;
        self.nodes.push(node);
        self.settled()
    }

    /// The id of a node.
    ///
    /// # Errors
    /// As [`RedisServer::admin`].
    pub fn id(&self, node: usize) -> io::Result<String> {
        Ok(self.nodes[node].admin(&["CLUSTER", "MYID"])?.text())
    }

    /// The slot of a key.
    ///
    /// # Errors
    /// As [`RedisServer::admin`].
    pub fn slot(&self, key: &str) -> io::Result<u16> {
        let alive = self.nodes.iter().find(|node| node.pid() != 0);
        let node = alive.ok_or_else(|| io::Error::other("no node is alive"))?;
        let slot = node.admin(&["CLUSTER", "KEYSLOT", key])?.integer().unwrap_or_default();
        Ok(slot as u16)
    }

    /// Begins to move a slot: what is not there any more is to be asked for at `to`.
    ///
    /// # Errors
    /// As [`RedisServer::admin`].
    pub fn begin(&self, slot: u16, from: usize, to: usize) -> io::Result<()> {
        let slot = slot.to_string();
        let (old, new) = (self.id(from)?, self.id(to)?);
        self.nodes[to].admin(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &old])?;
        self.nodes[from].admin(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &new])?;
        Ok(())
    }

    /// Moves one key of a slot that is being moved; it need not be there.
    ///
    /// # Errors
    /// As [`RedisServer::admin`].
    pub fn move_key(&self, key: &str, from: usize, to: usize) -> io::Result<Value> {
        let port = self.nodes[to].port_between().to_string();
        self.nodes[from].admin(&[
            "MIGRATE",
            "127.0.0.1",
            &port,
            "",
            "0",
            "5000",
            "AUTH2",
            USER,
            PASSWORD,
            "KEYS",
            key,
        ])
    }

    /// Moves what is left in a slot, key by key, ends its move, and waits until all nodes know of it.
    ///
    /// The next move depends on that: a node that does not know the latest epoch serves the slot with an older one.
    /// A late message of the node before it then takes the slot away, and each of the two refers to the other for ever.
    ///
    /// # Errors
    /// As [`RedisServer::admin`]; `TimedOut` when they do not agree.
    pub fn finish(&self, slot: u16, from: usize, to: usize) -> io::Result<()> {
        let text = slot.to_string();
        loop {
            let keys = self.nodes[from].admin(&["CLUSTER", "GETKEYSINSLOT", &text, "10"])?;
            if keys.items().is_empty() {
                break;
            }
            for key in keys.items() {
                self.move_key(&key.text(), from, to)?;
            }
        }
        let new = self.id(to)?;
        let others = (0..self.nodes.len()).filter(|node| *node != to);
        for node in [to].into_iter().chain(others) {
            let is_master = self.nodes[node].info("role").is_ok_and(|role| role == "master");
            if self.nodes[node].pid() != 0 && is_master {
                self.nodes[node].admin(&["CLUSTER", "SETSLOT", &text, "NODE", &new])?;
            }
        }
        wait("all nodes know which node serves the slot", || self.all_know(slot, &new))
    }

    /// Returns whether each node that is alive knows that this one serves the slot, and has the same view of the
    /// epochs of all masters.
    fn all_know(&self, slot: u16, owner: &str) -> bool {
        let mut epochs = Vec::new();
        for node in self.nodes.iter().filter(|node| node.pid() != 0) {
            let Ok(view) = node.admin(&["CLUSTER", "NODES"]) else { return false };
            let text = view.text();
            let fields: Vec<Vec<&str>> =
                text.lines().map(|line| line.split(' ').collect()).collect();
            let serves = |fields: &&Vec<&str>| {
                fields.iter().skip(8).any(|range| {
                    let (first, last) = range.split_once('-').unwrap_or((*range, *range));
                    let ends = (first.parse::<u16>(), last.parse::<u16>());
                    matches!(ends, (Ok(first), Ok(last)) if (first..=last).contains(&slot))
                })
            };
            if fields.iter().find(serves).is_none_or(|fields| fields[0] != owner) {
                return false;
            }
            let masters =
                fields.iter().filter(|fields| fields.get(2).is_some_and(|f| f.contains("master")));
            let mut seen: Vec<_> = masters
                .map(|fields| (fields[0].to_owned(), fields.get(6).map(|e| (*e).to_owned())))
                .collect();
            seen.sort();
            epochs.push(seen);
        }
        epochs.windows(2).all(|pair| pair[0] == pair[1])
    }

    /// Moves a slot with all that is in it, as an operator would.
    ///
    /// # Errors
    /// As [`RedisServer::admin`].
    pub fn move_slot(&self, slot: u16, from: usize, to: usize) -> io::Result<()> {
        self.begin(slot, from, to)?;
        self.finish(slot, from, to)
    }

    /// Waits until the replica of a master has taken its place.
    ///
    /// # Errors
    /// `TimedOut` when it does not.
    pub fn promoted(&self, master: usize) -> io::Result<()> {
        let replica = &self.nodes[MASTERS + master];
        wait("the replica is promoted", || replica.info("role").is_ok_and(|role| role == "master"))
    }
}
