//! The engines under test, each set up in its own temporary place.

use std::sync::Arc;

use leasehold::Backend;
use leasehold::memory::MemoryStore;
use leasehold_conformance::Subject;
use leasehold_conformance::kit::{self, Certificates, RedisServer, Settings};
use leasehold_core::clock::Clock;
use leasehold_core::quorum::{Founding, MAX_TTL, MemoryNode, QuorumBackend, QuorumNode, found};
use tempfile::TempDir;

/// The engines, and what must stay alive while they are used.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) subjects: Vec<Subject>,
    /// Engines whose server is not installed, and may be missing.
    pub(crate) missing: Vec<&'static str>,
    _directories: Vec<TempDir>,
    _servers: Vec<RedisServer>,
    _certificates: Option<Certificates>,
}

pub(crate) fn all() -> Setup {
    let store = MemoryStore::new();
    let memory = Subject::new("memory", move || {
        let backend: Arc<dyn Backend> = Arc::new(store.connect());
        std::future::ready(backend)
    });
    let directory = tempfile::tempdir().unwrap();
    let file = by_url("file", format!("file:{}", directory.path().join("locks").display()));
    let mut setup = Setup::default();
    setup.subjects.extend([memory, file, quorum(3), quorum(5)]);
    setup._directories.push(directory);
    redis(&mut setup);
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
    if !RedisServer::is_present() && !kit::required("redis") {
        setup.missing.extend(["redis", "redlock-3", "redlock-5", "redis-tls"]);
        return;
    }
    let server = RedisServer::start(Settings::new()).unwrap();
    setup.subjects.push(by_url("redis", server.url()));
    setup._servers.push(server);
    redlock(setup, 3, Settings::new().user("app", &node_rights()));
    redlock(setup, 5, Settings::new());
    if !Certificates::is_present() && !kit::required("openssl") {
        setup.missing.push("redis-tls");
        return;
    }
    let certificates = Certificates::make().unwrap();
    let settings = Settings::new().tls(&certificates).user("app", RIGHTS);
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
fn redlock(setup: &mut Setup, size: usize, settings: Settings) {
    let servers: Vec<RedisServer> =
        (0..size).map(|_| RedisServer::start(settings.clone()).unwrap()).collect();
    let places: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    let login = if size == 3 { "app:s3cret@" } else { "" };
    // A busy machine is slower than the default allows.
    let url = format!("redlock://{login}{}?node-limit=500ms", places.join(","));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let founding = leasehold::quorum::found(&url, None, Founding::Vouched, |_| {});
    runtime.block_on(founding).unwrap();
    setup.subjects.push(by_url(&format!("redlock-{size}"), url));
    setup._servers.extend(servers);
}

/// Those that `docs/quorum.md` names beside them.
fn node_rights() -> String {
    format!("{RIGHTS} +getrange +info +zcard +zpopmin")
}

/// The rights that `docs/redis.md` names.
const RIGHTS: &str = "on >s3cret ~leasehold:* &leasehold:* -@all +evalsha +script|load +get +set \
    +mget +setrange +time +publish +subscribe +unsubscribe +exists +pexpire +zadd +zrem +zrange \
    +zrank +zscore +zremrangebyscore +scan +ping +hello +auth +select";

/// An engine that is reached by its URL alone.
fn by_url(name: &str, url: String) -> Subject {
    let reached = url.clone();
    let connect = move || {
        let url = url.clone();
        async move { leasehold::open(&url).await.unwrap() }
    };
    Subject::new(name, connect).with_url(reached)
}
