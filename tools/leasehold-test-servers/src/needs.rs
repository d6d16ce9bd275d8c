//! What a test needs on this machine beside itself.

use crate::{
    Certificates, Chromium, EtcdServer, Galera, MariaDb, NatsServer, PgBouncer, Postgres,
    RedisServer, ZooKeeperServer, find, required,
};

/// A server or program that has to be installed for a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing that the system does not have.
    Nothing,
    /// `redis-server` or `valkey-server`.
    Redis,
    /// `openssl`, which makes certificates.
    OpenSsl,
    /// `etcd`.
    Etcd,
    /// `etcdctl`, of Debian's package `etcd-client`.
    Etcdctl,
    /// ZooKeeper and Java.
    ZooKeeper,
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    MySql,
    /// MariaDB with Galera, which Debian installs with it.
    Galera,
    /// PostgreSQL, and `openssl`.
    PostgresTls,
    /// MariaDB, and `openssl`.
    MySqlTls,
    /// `pgbouncer`, and PostgreSQL behind it.
    Pooler,
    /// `nats-server`.
    Nats,
    /// Debian's package `python3-redis`: redis-py, for the Python of the system.
    RedisPy,
    /// Debian's package `python3-kazoo`: the ZooKeeper client, for the Python of the system.
    Kazoo,
    /// Chromium, a browser.
    Browser,
}

/// Where Debian puts the locks of redis-py.
const REDIS_PY: &str = "/usr/lib/python3/dist-packages/redis/lock.py";

/// Where Debian puts the locks of kazoo.
const KAZOO: &str = "/usr/lib/python3/dist-packages/kazoo/recipe/lock.py";

impl Needs {
    /// Whether tests that need it are left out here: it is not installed, and `LEASEHOLD_REQUIRE`
    /// does not name it ([`required`]); or it is a server, and `LEASEHOLD_SERVERS` is `none`, as
    /// `cargo xtask test --quick` sets it.
    pub fn is_missing(self) -> bool {
        let is_server = !matches!(self, Self::Nothing | Self::OpenSsl);
        if is_server && std::env::var("LEASEHOLD_SERVERS").is_ok_and(|servers| servers == "none") {
            return true;
        }
        let is_present = match self {
            Self::Nothing => true,
            Self::Redis => RedisServer::is_present(),
            Self::OpenSsl => Certificates::is_present(),
            Self::Etcd => EtcdServer::is_present(),
            Self::Etcdctl => find("etcdctl").is_some(),
            Self::ZooKeeper => ZooKeeperServer::is_present(),
            Self::Postgres => Postgres::is_present(),
            Self::MySql => MariaDb::is_present(),
            Self::Galera => Galera::is_present(),
            Self::PostgresTls => return Self::OpenSsl.is_missing() || Self::Postgres.is_missing(),
            Self::MySqlTls => return Self::OpenSsl.is_missing() || Self::MySql.is_missing(),
            Self::Pooler => PgBouncer::is_present(),
            Self::Nats => NatsServer::is_present(),
            Self::RedisPy => std::path::Path::new(REDIS_PY).exists(),
            Self::Kazoo => std::path::Path::new(KAZOO).exists(),
            Self::Browser => Chromium::is_present(),
        };
        !is_present && !required(self.name())
    }

    /// As [`is_missing`](Self::is_missing), and says so: for tests that cannot be ignored any more
    /// when they ask, and return.
    pub fn is_skipped(self) -> bool {
        let is_missing = self.is_missing();
        if is_missing {
            eprintln!("SKIPPED: {} is not installed, or not wanted", self.name());
        }
        is_missing
    }

    /// What `LEASEHOLD_REQUIRE` calls it.
    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Redis => "redis",
            Self::OpenSsl => "openssl",
            Self::Etcd => "etcd",
            Self::Etcdctl => "etcdctl",
            Self::ZooKeeper => "zookeeper",
            Self::Postgres => "postgres",
            Self::MySql | Self::Galera => "mysql",
            Self::PostgresTls => "postgres or openssl",
            Self::MySqlTls => "mysql or openssl",
            Self::Pooler => "pgbouncer",
            Self::Nats => "nats",
            Self::RedisPy => "redis-py",
            Self::Kazoo => "kazoo",
            Self::Browser => "chromium",
        }
    }
}
