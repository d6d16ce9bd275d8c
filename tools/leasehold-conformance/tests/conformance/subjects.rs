//! The engines under test, each set up in its own temporary place.

use std::sync::Arc;

use leasehold::backend::{AlsoBackend, Backend};
use leasehold::memory::MemoryStore;
use leasehold_conformance::{Subject, until_answered};
use leasehold_core::clock::Clock;
use leasehold_quorum::{Founding, MAX_TTL, MemoryNode, QuorumBackend, QuorumNode, found};
use leasehold_test_servers::{
    Certificates, EtcdServer, EtcdSettings, Needs, RedisCluster, RedisSentinels, RedisServer,
    RedisSettings, ZooKeeperEnsemble, ZooKeeperServer, ZooKeeperSettings,
};
use tempfile::TempDir;

use crate::bounds;
use crate::sql::{self, Databases};

/// The engines, and what must stay alive while they are used.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) subjects: Vec<Subject>,
    /// Engines whose server is not installed, and may be missing.
    pub(crate) missing: Vec<&'static str>,
    pub(crate) directories: Vec<TempDir>,
    pub(crate) databases: Databases,
    _servers: Vec<RedisServer>,
    _ensembles: Vec<Vec<EtcdServer>>,
    _sentinels: Vec<RedisSentinels>,
    _clusters: Vec<RedisCluster>,
    _certificates: Option<Certificates>,
    _zookeeper: Option<(ZooKeeperServer, ZooKeeperEnsemble)>,
}

pub(crate) fn all() -> Setup {
    let store = MemoryStore::new();
    let memory = Subject::new("memory", move || {
        let backend: Arc<dyn Backend> = Arc::new(store.connect());
        std::future::ready(backend)
    });
    let pair = [MemoryStore::new(), MemoryStore::new()];
    let memory_also = Subject::new("memory-also", move || {
        let [foreign, native] = [0, 1].map(|at| Arc::new(pair[at].connect()) as Arc<dyn Backend>);
        let backend: Arc<dyn Backend> = Arc::new(AlsoBackend::new(foreign, native, None));
        std::future::ready(backend)
    });
    let directory = tempfile::tempdir().unwrap();
    let file = by_url("file", format!("file:{}", directory.path().join("locks").display()));
    let flocked = tempfile::tempdir().unwrap();
    let url = format!("file:{}?wire=flock&suffix=.lock", flocked.path().display());
    let flock = by_url("file-flock", url);
    let [both, beside] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let url = format!(
        "file:{}?also=flock&suffix=.lock&directory={}",
        both.path().join("locks").display(),
        beside.path().display()
    );
    let file_also = by_url("file-also", url);
    let mut setup = Setup::default();
    setup.subjects.extend([memory, memory_also, file, flock, file_also, quorum(3), quorum(5)]);
    setup.directories.extend([directory, flocked, both, beside]);
    redis(&mut setup);
    sql::add(&mut setup);
    etcd(&mut setup);
    zookeeper(&mut setup);
    let bounded = |subject: Subject| {
        let bounds = bounds::of(&subject.name);
        subject.with_bounds(bounds)
    };
    setup.subjects = setup.subjects.into_iter().map(bounded).collect();
    setup
}

/// Redlock over this many nodes in memory.
fn quorum(size: usize) -> Subject {
    let nodes: Vec<MemoryNode> =
        (1..=size).map(|number| MemoryNode::new(format!("memory {number}"))).collect();
    let connected =
        move || -> Vec<Arc<dyn QuorumNode>> { nodes.iter().map(MemoryNode::connect).collect() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let founding = found(connected(), MAX_TTL, Founding::Vouched, Clock::system(), |_| {});
    runtime.block_on(founding).unwrap();
    Subject::new(format!("quorum-{size}"), move || {
        let nodes = connected();
        async move {
            let backend: Arc<dyn Backend> =
                Arc::new(QuorumBackend::builder(nodes).connect().await.unwrap());
            backend
        }
    })
}

/// A Redis server of our own, plain; and one with TLS, client certificates and a user whose rights
/// are those that the documents name.
fn redis(setup: &mut Setup) {
    if Needs::Redis.is_missing() {
        setup.missing.extend([
            "redis",
            "redis-set-nx",
            "redis-redisson",
            "redis-rueidis",
            "redis-also-set-nx",
            "redis-also-redisson",
            "redis-also-rueidis",
            "redis+sentinel",
            "redis+cluster",
            "redlock-3",
            "redlock-5",
            "redlock-set-nx",
            "redis-tls",
        ]);
        return;
    }
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    setup.subjects.push(by_url("redis", server.url()));
    // In databases of their own: the cases use the same names.
    let formats = [("set-nx", ""), ("redisson", ""), ("rueidis", "&majority=2")];
    for (database, (wire, options)) in (1..).zip(formats) {
        let url = format!("{}/{database}?wire={wire}{options}", server.url());
        setup.subjects.push(by_url(&format!("redis-{wire}"), url));
    }
    for (database, (also, options)) in (4..).zip(formats) {
        let url = format!("{}/{database}?also={also}{options}", server.url());
        setup.subjects.push(by_url(&format!("redis-also-{also}"), url));
    }
    setup._servers.push(server);
    let sentinels =
        RedisSentinels::start(RedisSettings::new(), RedisSettings::new().patient()).unwrap();
    setup.subjects.push(by_url("redis+sentinel", sentinels.url()));
    setup._sentinels.push(sentinels);
    let cluster = RedisCluster::start(RedisSettings::new().patient()).unwrap();
    setup.subjects.push(by_url("redis+cluster", cluster.url()));
    setup._clusters.push(cluster);
    redlock(setup, 3, RedisSettings::new().user("app", &node_rights()));
    redlock(setup, 5, RedisSettings::new());
    let servers: Vec<RedisServer> =
        (0..3).map(|_| RedisServer::start(RedisSettings::new()).unwrap()).collect();
    let places: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    // A busy machine is slower than the default allows.
    let url = format!("redlock://{}?wire=set-nx&node-limit=5s", places.join(","));
    setup.subjects.push(by_url("redlock-set-nx", url));
    setup._servers.extend(servers);
    if Needs::OpenSsl.is_missing() {
        setup.missing.push("redis-tls");
        return;
    }
    let certificates = Certificates::make().unwrap();
    let settings = RedisSettings::new().tls(&certificates).user("app", RIGHTS);
    let server = RedisServer::start(settings).unwrap();
    let (authority, key) = (certificates.authority(), certificates.client_key());
    let url = format!(
        "rediss://app:s3cret@{}?tls-ca={}&tls-cert={}&tls-key={}",
        server.tls_address().unwrap().to_string().replace("127.0.0.1", "localhost"),
        authority.display(),
        certificates.client().display(),
        key.display(),
    );
    setup.subjects.push(by_url("redis-tls", url));
    setup._servers.push(server);
    setup._certificates = Some(certificates);
}

/// Redlock over this many servers of our own, as the default user, and as one with the rights that
/// the documents name.
fn redlock(setup: &mut Setup, size: usize, settings: RedisSettings) {
    let servers: Vec<RedisServer> =
        (0..size).map(|_| RedisServer::start(settings.clone()).unwrap()).collect();
    let places: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    let login = if size == 3 { "app:s3cret@" } else { "" };
    // A busy machine is slower than the default allows.
    let url = format!("redlock://{login}{}?node-limit=5s", places.join(","));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let founding = leasehold::quorum::found(&url, None, Founding::Vouched, |_| {});
    runtime.block_on(founding).unwrap();
    setup.subjects.push(by_url(&format!("redlock-{size}"), url));
    setup._servers.extend(servers);
}

/// Those that `docs/quorum.md` names beside them.
fn node_rights() -> String {
    format!("{RIGHTS} +info +zpopmin")
}

/// The rights that `docs/redis.md` names.
const RIGHTS: &str = "on >s3cret ~leasehold:* &leasehold:* -@all +evalsha +script|load +get +getrange +set \
    +mget +setrange +time +publish +pubsub|numsub +subscribe +unsubscribe +exists +pexpire +pttl +zadd \
    +zrem +zrange +zrank +zscore +zremrangebyscore +zcard +unlink +scan +ping +hello +auth +select \
    +client|tracking +client|caching";

/// One etcd server, with a user whose rights are those that `docs/etcd.md` names; and three members.
fn etcd(setup: &mut Setup) {
    if Needs::Etcd.is_missing() {
        setup.missing.extend(["etcd", "etcd-3", "etcd-concurrency", "etcd-also"]);
        return;
    }
    let alone = EtcdServer::start_all(1, &EtcdSettings::new()).unwrap();
    alone[0].enable_users("app", "s3cret", "leasehold/").unwrap();
    setup.subjects.push(by_url("etcd", format!("etcd://app:s3cret@{}", alone[0].place())));
    let three = EtcdServer::start_all(3, &EtcdSettings::new()).unwrap();
    let places: Vec<String> = three.iter().map(EtcdServer::place).collect();
    setup.subjects.push(by_url("etcd-3", format!("etcd://{}/locks", places.join(","))));
    // Its marks have a prefix of their own, and so do its locks: the cases use the same names.
    let url = format!("etcd://{}/marks?wire=concurrency&key-prefix=wire/", places.join(","));
    setup.subjects.push(by_url("etcd-concurrency", url));
    let url = format!("etcd://{}/both?also=concurrency&key-prefix=also/", places.join(","));
    setup.subjects.push(by_url("etcd-also", url));
    setup._ensembles.extend([alone, three]);
}

/// One ZooKeeper server, and an ensemble of three. Their containers are looked for often, so that
/// locks lose their nodes while the suite runs.
fn zookeeper(setup: &mut Setup) {
    if Needs::ZooKeeper.is_missing() {
        setup.missing.extend([
            "zookeeper",
            "zookeeper-3",
            "zookeeper-curator",
            "zookeeper-kazoo",
            "zookeeper-also",
            "zookeeper-also-kazoo",
        ]);
        return;
    }
    // On a machine with much to do, a server that is slow for some seconds must not end the leader's majority.
    let settings = ZooKeeperSettings::new().line("syncLimit=40").line("initLimit=80");
    let settings = settings.containers_every_ms(200);
    let server = ZooKeeperServer::start(settings.clone()).unwrap();
    let ensemble = ZooKeeperEnsemble::start(3, &settings).unwrap();
    let session = format!("?session={}s", bounds::SESSION.as_secs());
    setup.subjects.push(by_url("zookeeper", server.url() + &session));
    setup.subjects.push(by_url("zookeeper-3", format!("{}/three{session}", ensemble.url())));
    // Below nodes of their own: the cases use the same names.
    for wire in ["curator", "kazoo"] {
        let url = format!("{}/{wire}{session}&wire={wire}", server.url());
        setup.subjects.push(by_url(&format!("zookeeper-{wire}"), url));
    }
    // Names without a slash are the same nodes in both formats.
    let url = format!("{}/both{session}&also=curator", server.url());
    setup.subjects.push(by_url("zookeeper-also", url));
    // Those of kazoo must not be, so there is no chroot.
    let url = format!("{}{session}&also=kazoo", ensemble.url());
    setup.subjects.push(by_url("zookeeper-also-kazoo", url));
    setup._zookeeper = Some((server, ensemble));
}

/// An engine that is reached by its URL alone.
pub(crate) fn by_url(name: &str, url: String) -> Subject {
    let reached = url.clone();
    let connect = move || {
        let url = url.clone();
        async move { until_answered(|| leasehold::open(&url)).await.unwrap() }
    };
    Subject::new(name, connect).with_url(reached)
}

/// The subject for one case. A SQLite database has one writer at a time, so cases that run side by side
/// have a file each; what a busy file does to clients is tested beside the engine.
pub(crate) fn for_case(subject: &Subject, case: &str) -> Subject {
    match &subject.url {
        Some(url) if subject.name == "sqlite" => {
            let url = url.replace("locks.db", &format!("{case}.db"));
            by_url(&subject.name, url).with_bounds(bounds::of(&subject.name))
        }
        _ => subject.clone(),
    }
}
