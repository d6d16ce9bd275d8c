//! The servers of a run, each behind a proxy where it is reached over a network.

mod certificate;
mod clocks;
mod files;
mod full;
mod links;
mod masters;
mod newer;
mod node;
mod password;
mod remains;
mod replicated;
mod server;
mod tables;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use leasehold::quorum::{Founding, found};
use leasehold_test_servers::{
    DiskShim, EtcdServer, EtcdSettings, Links, MariaDb, PgBouncer, Postgres, RedisServer,
    RedisSettings, Shot, together,
};
use tempfile::TempDir;

use crate::Result;
use crate::fault::Fault;
use crate::plan::Planned;
use crate::setup::SetUp;

use self::certificate::Files;
use self::clocks::Clocks;
pub(crate) use self::masters::{Change, Masters};
pub(crate) use self::node::{Mark, Node};
pub(crate) use self::remains::Remains;

/// Forty clients have up to eight connections each.
const CONNECTIONS: &[&str] = &["max_connections=400"];

/// The servers.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) setup: SetUp,
    /// Where clients connect to.
    url: String,
    /// Those that watch the first nodes.
    sentinels: Vec<RedisServer>,
    /// The ways between the servers, and the sentinels after them.
    links: Links,
    /// Those of the servers, or that of the programs that use a store in files.
    clocks: Clocks,
    /// That of all servers, or of the programs that use a store in files; one directory at a time is full.
    disk: Option<DiskShim>,
    /// Servers whose disk was full, and has space again.
    were_full: BTreeSet<usize>,
    /// What clients did at servers, and may not.
    pub(crate) wrong: Vec<String>,
}

impl Cluster {
    /// Starts the servers of a set-up, with what faults of these kinds need.
    pub(crate) fn start(setup: SetUp, kinds: &[Fault]) -> Result<Self> {
        if setup.needs().is_missing() {
            return Err(format!(
                "a server of `{setup}` is not installed; `cargo xtask test` installs all of them"
            )
            .into());
        }
        let clocks = Clocks::build(setup, kinds)?;
        // The members of etcd call the system themselves.
        let has_disk = kinds.contains(&Fault::Full) && setup != SetUp::Etcd;
        let disk = has_disk.then(DiskShim::build).transpose()?;
        let env = |server| together(disk.iter().flat_map(DiskShim::env).chain(clocks.env(server)));
        let mut cluster = match setup {
            SetUp::Sentinel => Self::with_sentinels(env(0))?,
            SetUp::Cluster => Self::of_slots(env(0))?,
            SetUp::Zookeeper => Self::of_zookeeper(env)?,
            _ => Self::of(setup, nodes(setup, env)?),
        };
        (cluster.disk, cluster.clocks) = (disk, clocks);
        cluster.prepare()?;
        if kinds.contains(&Fault::Older) {
            cluster.nodes.iter_mut().try_for_each(Node::save)?;
        }
        Ok(cluster)
    }

    fn of(setup: SetUp, nodes: Vec<Node>) -> Self {
        let mut cluster = Self {
            nodes,
            setup,
            url: String::new(),
            sentinels: Vec::new(),
            links: Links::default(),
            clocks: Clocks::default(),
            disk: None,
            were_full: BTreeSet::new(),
            wrong: Vec::new(),
        };
        cluster.url = cluster.place();
        cluster
    }

    /// Does what an operator does before the first client: makes tables, and sets a quorum up.
    fn prepare(&self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            leasehold::init(&self.url).await?;
            if self.setup.has_admission() {
                found(&self.url, None, Founding::Vouched, |_| ()).await?;
            }
            Ok(())
        })
    }

    /// Where clients connect to.
    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// The environment of the programs that use a store in files.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        if !self.setup.is_in_files() {
            return Variables::new();
        }
        together(self.disk.iter().flat_map(DiskShim::env).chain(self.clocks.env(0)))
    }

    /// Whether servers name other servers to clients, which connect to these then.
    pub(crate) fn names_servers(&self) -> bool {
        matches!(self.setup, SetUp::Sentinel | SetUp::Cluster)
    }

    /// All addresses that clients connect to: those in the URL, and those that servers name.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let mut all: Vec<SocketAddr> = self.nodes.iter().filter_map(Node::address).collect();
        if self.names_servers() {
            let places = self.url.split(['@', '/', ',']);
            all.extend(places.filter_map(|place| place.parse::<SocketAddr>().ok()));
            all.extend(self.nodes.iter().filter_map(Node::front));
            all.sort_unstable();
            all.dedup();
        }
        all
    }

    fn place(&self) -> String {
        let places: Vec<&str> = self.nodes.iter().filter_map(Node::place).collect();
        let all = places.join(",");
        // The machine has more to do than it can, so that nodes are waited for longer than usual.
        let options = format!("max-ttl={}ms&node-limit=100ms", self.setup.max_ttl().as_millis());
        let user = password::LOGIN;
        match self.setup {
            SetUp::Redis => format!("redis://{user}{all}"),
            SetUp::RedisStrict => format!("redis://{user}{all}?admission=strict&{options}"),
            SetUp::Redlock3 | SetUp::Redlock5 | SetUp::Redlock7 => {
                format!("redlock://{user}{all}?{options}")
            }
            SetUp::Postgres | SetUp::Pgbouncer => format!("postgres://{user}{all}/leasehold"),
            SetUp::Mariadb => format!("mysql://{user}{all}/leasehold"),
            SetUp::Sqlite | SetUp::File | SetUp::Sentinel | SetUp::Cluster => all,
            SetUp::RedisTls | SetUp::PostgresTls | SetUp::MariadbTls | SetUp::EtcdTls => {
                let files = self.nodes.iter().find_map(Node::files);
                files.map_or(String::new(), |files| certificate::url(self.setup, &all, files))
            }
            SetUp::Etcd => format!("etcd://{user}{all}"),
            SetUp::Zookeeper => format!("zookeeper://{all}?session=3s"),
        }
    }

    /// Whether a fault may happen to a node now. `stopped` says which nodes are stopped.
    pub(crate) fn may(&self, fault: Fault, at: usize, stopped: impl Fn(usize) -> bool) -> bool {
        if !self.nodes[at].bears(fault) || !self.clocks.may(fault, at) {
            return false;
        }
        let others = || self.nodes.iter().enumerate().filter(|(other, _)| *other != at);
        match self.setup {
            // Without a majority that votes, no client gets the lock until an operator comes.
            SetUp::Redlock3 | SetUp::Redlock5 | SetUp::Redlock7 if fault.restarts() => {
                let votes = others().filter(|(other, node)| !stopped(*other) && node.votes());
                votes.count() > self.nodes.len() / 2
            }
            // Servers elect another master while most of them answer.
            SetUp::Sentinel | SetUp::Cluster => {
                let all_run = others().all(|(other, _)| !stopped(other));
                all_run && (fault != Fault::Failover || !stopped(at))
            }
            // No write may be left to the one that loses it.
            SetUp::Zookeeper if matches!(fault, Fault::Older | Fault::Replace) => {
                // One that is stopped would not answer.
                let all_run = !stopped(at) && others().all(|(other, _)| !stopped(other));
                all_run && self.nodes.iter().any(|node| node.followers() == self.nodes.len() - 1)
            }
            // One that starts waits for a majority, and users are changed by one.
            SetUp::Etcd | SetUp::Zookeeper
                if fault.restarts()
                    || matches!(fault, Fault::CutPeers | Fault::Full | Fault::Password) =>
            {
                others().all(|(other, _)| !stopped(other))
            }
            _ => true,
        }
    }

    /// Does it; what is meant for one request happens with the next one, which the shot tells.
    pub(crate) fn inject(&mut self, at: usize, planned: Planned) -> Result<Option<Shot>> {
        if planned.fault == Fault::Replace {
            let (before, rest) = self.nodes.split_at_mut(at);
            let Some((node, after)) = rest.split_first_mut() else { return Ok(None) };
            node.replace(before.iter().chain(after.iter()))?;
        }
        if planned.fault == Fault::Full {
            self.fill(at, planned.target)?;
        }
        if planned.fault.sets_clock() {
            self.clocks.set(at, planned)?;
        }
        if planned.fault == Fault::CutPeers {
            self.cut_peers(at, planned.target);
        }
        let shot = self.nodes[at].inject(planned)?;
        match (planned.fault, self.setup) {
            (Fault::Failover, SetUp::Sentinel) => self.promote_by_sentinel(planned.target),
            (Fault::Failover, _) => self.promote(at, planned.target.is_multiple_of(2)),
            (fault, SetUp::Sentinel) if fault.restarts() => self.follow_master(at)?,
            _ => {}
        }
        Ok(shot)
    }

    /// The log of each server that has one.
    pub(crate) fn logs(&mut self) -> Vec<(usize, String)> {
        let nodes = self.nodes.iter_mut().enumerate();
        let log = |(at, node): (usize, &mut Node)| Some((at, node.server().daemon().ok()?.log()));
        nodes.filter_map(log).collect()
    }

    /// What is there once all clients have ended.
    pub(crate) fn left(&self) -> Result<Remains> {
        let mut all = Remains::default();
        for (at, node) in self.nodes.iter().enumerate() {
            all.append(node.left()?.at(&format!("at server {at}")));
        }
        for (at, sentinel) in self.sentinels.iter().enumerate() {
            let connections = remains::of_clients(sentinel)?;
            let left = Remains::of_left(&[(connections, remains::CONNECTIONS)]);
            all.append(left.at(&format!("at sentinel {at}")));
        }
        Ok(all)
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
            let (before, now) = (before.as_ref()?, now?);
            let text = before.changed_to(&now)?;
            Some(format!("the marker of node {at} was {text}"))
        };
        { pairs }.find_map(changed)
    }
}

/// A directory in memory, where there is one.
pub(crate) fn temporary(name: &str) -> Result<TempDir> {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    Ok(tempfile::Builder::new().prefix(&format!("leasehold-{name}-")).tempdir_in(place)?)
}

/// What is in a program's environment.
type Variables = Vec<(String, String)>;

/// Starts the servers of a set-up; `env` is the environment of each.
fn nodes(setup: SetUp, env: impl Fn(usize) -> Variables) -> Result<Vec<Node>> {
    let mut nodes = Vec::new();
    match setup {
        // They are started together.
        SetUp::Sentinel | SetUp::Cluster | SetUp::Zookeeper => {}
        SetUp::Redis | SetUp::RedisStrict | SetUp::Redlock3 | SetUp::Redlock5 | SetUp::Redlock7 => {
            for at in 0..setup.quorum().max(1) {
                nodes.push(Node::framed(RedisServer::start(settings(env(at)))?)?);
            }
        }
        SetUp::Postgres => nodes.push(Node::opaque(Postgres::start_in(CONNECTIONS, env(0))?)?),
        SetUp::Pgbouncer => {
            let postgres = Postgres::start_in(&[], env(1))?;
            let pooler = PgBouncer::start(&postgres, 20)?;
            nodes.extend([Node::opaque(pooler)?, Node::hidden(postgres)]);
        }
        SetUp::Mariadb => {
            // Its own asynchronous writes would go past the C library.
            let options = ["--innodb-use-native-aio=OFF"];
            nodes.push(Node::opaque(MariaDb::start_in(&options, env(0))?)?);
        }
        SetUp::Sqlite => {
            let store = files::Sqlite::new(temporary("chaos-store")?);
            nodes.push(Node::in_files(store.url(), store));
        }
        SetUp::File => {
            let store = files::Directory::new(temporary("chaos-store")?);
            nodes.push(Node::in_files(store.url(), store));
        }
        SetUp::RedisTls | SetUp::PostgresTls | SetUp::MariadbTls | SetUp::EtcdTls => {
            nodes.push(over_tls(setup)?);
        }
        SetUp::Etcd => {
            let settings = EtcdSettings::new().peers_behind_proxies();
            let mut members = EtcdServer::start_all(3, &settings)?;
            password::enable_etcd(&mut members)?;
            for member in members {
                nodes.push(Node::opaque(member)?);
            }
        }
    }
    Ok(nodes)
}

/// Starts the server of a set-up over TLS, with its certificates.
fn over_tls(setup: SetUp) -> Result<Node> {
    let files = Files::make()?;
    let own = &files.own;
    let node = match setup {
        SetUp::PostgresTls => Node::opaque(Postgres::start_tls(CONNECTIONS, own)?)?,
        SetUp::MariadbTls => Node::opaque(MariaDb::start_tls(&[], own)?)?,
        SetUp::EtcdTls => Node::opaque(EtcdServer::start(EtcdSettings::new().tls(own))?)?,
        _ => Node::opaque(RedisServer::start(settings(Vec::new()).tls(own))?)?,
    };
    Ok(node.with_files(files))
}

/// How the Redis servers of all set-ups are: what they answer is written before, though not to the disk. A
/// killed server loses nothing.
fn settings(variables: Variables) -> RedisSettings {
    let settings = RedisSettings::new().append_only().line("appendfsync no");
    let settings = settings.user(password::USER, password::RULES);
    variables.into_iter().fold(settings, |settings, (name, value)| settings.env(name, value))
}
