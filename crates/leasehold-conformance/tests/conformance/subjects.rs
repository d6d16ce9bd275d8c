//! The engines under test, each set up in its own temporary place.

use std::sync::Arc;

use leasehold::Backend;
use leasehold::memory::MemoryStore;
use leasehold_conformance::Subject;
use leasehold_conformance::kit::{self, Certificates, RedisServer, Settings};
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
    setup.subjects.extend([memory, file]);
    setup._directories.push(directory);
    redis(&mut setup);
    setup
}

/// A Redis server of our own, plain; and one with TLS, client certificates and a user whose rights
/// are those that the documents name.
fn redis(setup: &mut Setup) {
    if !RedisServer::is_present() && !kit::required("redis") {
        setup.missing.extend(["redis", "redis-tls"]);
        return;
    }
    let server = RedisServer::start(Settings::new()).unwrap();
    setup.subjects.push(by_url("redis", server.url()));
    setup._servers.push(server);
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
