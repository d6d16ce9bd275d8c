//! Where the locks of a benchmark are: memory, a temporary directory, a server of our own, or a
//! store by its URL.

use std::fmt;
#[cfg(feature = "servers")]
use std::str::FromStr;
#[cfg(feature = "servers")]
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold::Client;
#[cfg(feature = "servers")]
use leasehold_test_servers::{
    EtcdServer, EtcdSettings, MariaDb, Postgres, RedisServer, RedisSettings, ZooKeeperServer,
    ZooKeeperSettings,
};

use crate::Result;

/// A kind of store, or a store by its URL.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Store {
    #[cfg(feature = "servers")]
    Memory,
    #[cfg(feature = "servers")]
    File,
    /// A Redis server that is started for it.
    #[cfg(feature = "servers")]
    Redis,
    /// So many independent Redis servers that are started for it, and a majority decides.
    #[cfg(feature = "servers")]
    Redlock(usize),
    #[cfg(feature = "servers")]
    Postgres,
    #[cfg(feature = "servers")]
    MySql,
    #[cfg(feature = "servers")]
    Sqlite,
    #[cfg(feature = "servers")]
    ZooKeeper,
    #[cfg(feature = "servers")]
    Etcd,
    /// A user's store, and the prefix of our names in it.
    Url(String, String),
}

/// A store that is there; a temporary directory or server goes when this is dropped.
#[derive(Debug)]
pub(crate) struct StoreAddress {
    pub(crate) url: String,
    /// What the names of locks begin with.
    pub(crate) prefix: String,
    /// The servers' processes, if they are ours.
    pids: Vec<u32>,
    #[cfg(feature = "servers")]
    _directory: Option<tempfile::TempDir>,
    /// Before the server, so that it goes first.
    #[cfg(feature = "servers")]
    _network: Option<crate::delay::Delay>,
    #[cfg(feature = "servers")]
    servers: Vec<RedisServer>,
    /// A server of another engine.
    #[cfg(feature = "servers")]
    _other: Option<Box<dyn Server>>,
}

/// A server that ends when it is dropped.
#[cfg(feature = "servers")]
pub(crate) trait Server: fmt::Debug + Send + Sync {}

#[cfg(feature = "servers")]
impl<T: fmt::Debug + Send + Sync> Server for T {}

impl Store {
    /// One of each engine, on servers of our own.
    #[cfg(feature = "servers")]
    pub(crate) const ENGINES: &[Self] = &[
        Self::Memory,
        Self::File,
        Self::Redis,
        Self::Redlock(3),
        Self::ZooKeeper,
        Self::Etcd,
        Self::Postgres,
        Self::MySql,
        Self::Sqlite,
    ];

    /// Returns a user's store, in which our names must differ from existing ones.
    pub(crate) fn url(url: &str) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_micros());
        Self::Url(url.to_owned(), format!("leasehold-bench/{:x}-{now:x}", std::process::id()))
    }

    /// Removes what our locks have left in a user's store.
    pub(crate) fn clean(&self) -> Result<()> {
        match self {
            Self::Url(url, prefix) => {
                let (url, names) = (url.clone(), format!("{prefix}/"));
                let forget = async move { Ok(leasehold::forget(&url, &names).await?) };
                crate::runtime::Flavour::Current.run(forget).map(drop)
            }
            #[cfg(feature = "servers")]
            _ => Ok(()),
        }
    }

    /// The engine's name, as the JSON has it.
    pub(crate) fn backend(&self) -> &str {
        match self {
            #[cfg(feature = "servers")]
            Self::Memory => "memory",
            #[cfg(feature = "servers")]
            Self::File => "file",
            #[cfg(feature = "servers")]
            Self::Redis => "redis",
            #[cfg(feature = "servers")]
            Self::Redlock(_) => "redlock",
            #[cfg(feature = "servers")]
            Self::Postgres => "postgres",
            #[cfg(feature = "servers")]
            Self::MySql => "mysql",
            #[cfg(feature = "servers")]
            Self::Sqlite => "sqlite",
            #[cfg(feature = "servers")]
            Self::ZooKeeper => "zookeeper",
            #[cfg(feature = "servers")]
            Self::Etcd => "etcd",
            Self::Url(url, _) => url.split([':', '+']).next().unwrap_or_default(),
        }
    }

    /// Makes what has to be made.
    pub(crate) fn place(&self) -> Result<StoreAddress> {
        match self {
            #[cfg(feature = "servers")]
            Self::Memory => {
                // Clients share a store that has a name; each other place has another one.
                static PLACES: AtomicUsize = AtomicUsize::new(0);
                let number = PLACES.fetch_add(1, Ordering::Relaxed);
                Ok(StoreAddress::own(format!("memory:bench-{number}"), None, Vec::new()))
            }
            #[cfg(feature = "servers")]
            Self::File => {
                let directory = directory()?;
                let url = format!("file:{}", directory.path().join("store").display());
                Ok(StoreAddress::own(url, Some(directory), Vec::new()))
            }
            #[cfg(feature = "servers")]
            Self::Redis => {
                let server = redis()?;
                Ok(StoreAddress::own(server.url(), None, vec![server]))
            }
            #[cfg(feature = "servers")]
            Self::Redlock(nodes) => {
                let servers: Vec<RedisServer> =
                    (0..*nodes).map(|_| redis()).collect::<Result<_>>()?;
                let nodes: Vec<String> =
                    servers.iter().map(|server| server.address().to_string()).collect();
                let url = format!("redlock://{}", nodes.join(","));
                // Longer than any benchmark runs: no lease of it is renewed that need not be.
                found(format!("{url}?max-ttl=2h"))?;
                Ok(StoreAddress::own(url, None, servers))
            }
            #[cfg(feature = "servers")]
            Self::Sqlite => {
                let directory = directory()?;
                let url = format!("sqlite:{}", directory.path().join("locks.db").display());
                Ok(StoreAddress::own(url, Some(directory), Vec::new()))
            }
            // A process for each connection: their CPU time is not counted here.
            #[cfg(feature = "servers")]
            Self::Postgres => {
                let server = Postgres::start(&["max_connections=200"])?;
                Ok(StoreAddress::other(server.url(), None, server))
            }
            #[cfg(feature = "servers")]
            Self::MySql => {
                let server = MariaDb::start(&["--max-connections=200"])?;
                Ok(StoreAddress::other(server.url(), Some(server.pid()), server))
            }
            #[cfg(feature = "servers")]
            Self::ZooKeeper => {
                let server = ZooKeeperServer::start(ZooKeeperSettings::new())?;
                Ok(StoreAddress::other(server.url(), Some(server.pid()), server))
            }
            #[cfg(feature = "servers")]
            Self::Etcd => {
                let server = EtcdServer::start(EtcdSettings::new())?;
                Ok(StoreAddress::other(server.url(), Some(server.pid()), server))
            }
            Self::Url(url, prefix) => Ok(StoreAddress::of(url.clone(), prefix.clone())),
        }
    }
}

/// Cleans up after a benchmark, also when it has failed; then its own error is the one to show.
pub(crate) fn cleaned(stores: &[Store], done: Result<()>) -> Result<()> {
    let cleaned = stores.iter().try_for_each(Store::clean);
    done.and(cleaned)
}

impl StoreAddress {
    fn of(url: String, prefix: String) -> Self {
        Self {
            url,
            prefix,
            pids: Vec::new(),
            #[cfg(feature = "servers")]
            _directory: None,
            #[cfg(feature = "servers")]
            _network: None,
            #[cfg(feature = "servers")]
            servers: Vec::new(),
            #[cfg(feature = "servers")]
            _other: None,
        }
    }

    #[cfg(feature = "servers")]
    fn own(url: String, directory: Option<tempfile::TempDir>, servers: Vec<RedisServer>) -> Self {
        let prefix = "orders".to_owned();
        let pids = servers.iter().map(|server| server.pid()).collect();
        Self { url, prefix, pids, _directory: directory, _network: None, servers, _other: None }
    }

    /// On a server of another engine than Redis, with its process, if that is all of it.
    #[cfg(feature = "servers")]
    pub(crate) fn other(url: String, pid: Option<u32>, server: impl Server + 'static) -> Self {
        let mut place = Self::own(url, None, Vec::new());
        place.pids.extend(pid);
        place._other = Some(Box::new(server));
        place
    }

    /// The same with a network between clients and server that takes its time.
    #[cfg(feature = "servers")]
    pub(crate) fn behind(mut self, delay: std::time::Duration) -> Result<Self> {
        if !delay.is_zero() {
            let server = self.server().ok_or("--delay: only before a server of our own")?;
            let network = crate::delay::Delay::start(server.address(), delay)?;
            self.url = format!("redis://{}", network.address);
            self._network = Some(network);
        }
        Ok(self)
    }

    /// The same for clients that wait so long for one node of a quorum.
    pub(crate) fn with_node_limit(mut self, limit: Option<std::time::Duration>) -> Self {
        if let Some(limit) = limit {
            self.url += &format!("?node-limit={}ms", limit.as_millis());
        }
        self
    }

    /// A new client of it.
    pub(crate) async fn connect(&self) -> Result<Client> {
        Ok(leasehold::connect(&self.url).await?)
    }

    /// The name of a lock.
    pub(crate) fn name(&self, number: usize) -> String {
        format!("{}/{number:08}", self.prefix)
    }

    /// The servers' processes, if they are ours.
    pub(crate) fn server_pids(&self) -> &[u32] {
        &self.pids
    }

    /// The server, if it is ours and the only one.
    #[cfg(feature = "servers")]
    pub(crate) fn server(&self) -> Option<&RedisServer> {
        match &self.servers[..] {
            [server] => Some(server),
            _ => None,
        }
    }

    /// The URLs of all servers, for programs that know nothing of ours.
    #[cfg(feature = "servers")]
    pub(crate) fn urls(&self) -> String {
        match &self.servers[..] {
            [] | [_] => self.url.clone(),
            several => several.iter().map(RedisServer::url).collect::<Vec<_>>().join(" "),
        }
    }
}

/// A temporary directory.
#[cfg(feature = "servers")]
pub(crate) fn directory() -> Result<tempfile::TempDir> {
    Ok(tempfile::Builder::new().prefix("leasehold-bench-").tempdir()?)
}

/// A Redis server of our own, without persistence.
#[cfg(feature = "servers")]
pub(crate) fn redis() -> Result<RedisServer> {
    match RedisServer::is_present() {
        true => Ok(RedisServer::start(RedisSettings::new())?),
        false => Err("redis-server is not installed; apt-get install redis-server".into()),
    }
}

/// Sets up servers that have just been started, so that they may vote.
#[cfg(feature = "servers")]
pub(crate) fn found(url: String) -> Result<()> {
    use leasehold::quorum::{Founding, found};
    let founding = async move { Ok(found(&url, None, Founding::Vouched, |_| ()).await?) };
    crate::runtime::Flavour::Current.run(founding).map(drop)
}

#[cfg(feature = "servers")]
impl FromStr for Store {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let known = leasehold::schemes();
        match text.split_once(':') {
            None if text == "memory" => Ok(Self::Memory),
            None if text == "file" => Ok(Self::File),
            None if text == "redis" => Ok(Self::Redis),
            None if text == "postgres" => Ok(Self::Postgres),
            None if text == "mysql" => Ok(Self::MySql),
            None if text == "sqlite" => Ok(Self::Sqlite),
            None if text == "zookeeper" => Ok(Self::ZooKeeper),
            None if text == "etcd" => Ok(Self::Etcd),
            None if text == "redlock" => Ok(Self::Redlock(3)),
            Some((scheme, _)) if known.contains(&scheme) => Ok(Self::url(text)),
            _ => {
                let known: Vec<String> = known.iter().map(|scheme| format!("{scheme}:")).collect();
                let engines: Vec<&str> = Self::ENGINES.iter().map(Self::backend).collect();
                let (engines, known) = (engines.join(", "), known.join(", "));
                Err(format!("{engines}, or a URL with {known}, are allowed"))
            }
        }
    }
}

/// Without what may be secret.
impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "servers")]
            Self::Redlock(nodes) => write!(f, "redlock, {nodes} nodes"),
            _ => f.write_str(self.backend()),
        }
    }
}
