//! One store of each engine, with the servers that it lies on.

use std::any::Any;
use std::fmt;

use leasehold::quorum::Founding;
use leasehold_test_servers::{
    EtcdServer, EtcdSettings, MariaDb, Postgres, RedisCluster, RedisSentinels, RedisServer,
    RedisSettings, ZooKeeperServer, ZooKeeperSettings,
};

/// A store, which ends with this.
pub(crate) struct Store {
    /// Where it is.
    pub(crate) url: String,
    servers: Box<dyn Any>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Store {
    fn of(url: impl Into<String>, servers: impl Any) -> Self {
        Self { url: url.into(), servers: Box::new(servers) }
    }

    /// The servers of a store of several Redis servers.
    pub(crate) fn redis(&self) -> &[RedisServer] {
        self.servers.downcast_ref::<Vec<RedisServer>>().unwrap()
    }

    pub(crate) fn file() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::of(format!("file:{}", directory.path().display()), directory)
    }

    pub(crate) fn sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::of(format!("sqlite:{}/locks.db", directory.path().display()), directory)
    }

    pub(crate) fn single() -> Self {
        let server = RedisServer::start(RedisSettings::new()).unwrap();
        Self::of(server.url(), server)
    }

    pub(crate) fn postgres() -> Self {
        let server = Postgres::start(&[]).unwrap();
        Self::of(server.url(), server)
    }

    pub(crate) fn mysql() -> Self {
        let server = MariaDb::start(&[]).unwrap();
        Self::of(server.url(), server)
    }

    pub(crate) fn etcd() -> Self {
        let server = EtcdServer::start(EtcdSettings::new()).unwrap();
        Self::of(server.url(), server)
    }

    pub(crate) fn zookeeper() -> Self {
        let server = ZooKeeperServer::start(ZooKeeperSettings::new()).unwrap();
        Self::of(server.url(), server)
    }

    pub(crate) fn sentinel() -> Self {
        let all =
            RedisSentinels::start(RedisSettings::new(), RedisSettings::new().patient()).unwrap();
        Self::of(all.url(), all)
    }

    pub(crate) fn cluster() -> Self {
        let all = RedisCluster::start(RedisSettings::new().patient()).unwrap();
        Self::of(all.url(), all)
    }

    /// A quorum of three servers.
    pub(crate) async fn quorum() -> Self {
        let servers: Vec<_> =
            (0..3).map(|_| RedisServer::start(RedisSettings::new()).unwrap()).collect();
        let places: Vec<_> = servers.iter().map(|server| server.address().to_string()).collect();
        Self::found(format!("redlock://{}?node-limit=5s", places.join(",")), servers).await
    }

    /// One server that keeps out while it may have forgotten leases.
    pub(crate) async fn strict() -> Self {
        let server = RedisServer::start(RedisSettings::new()).unwrap();
        let url = format!("{}?admission=strict&node-limit=5s", server.url());
        Self::found(url, vec![server]).await
    }

    async fn found(url: String, servers: Vec<RedisServer>) -> Self {
        leasehold::quorum::found(&url, None, Founding::Vouched, |_| {}).await.unwrap();
        Self::of(url, servers)
    }
}
