//! From a store URL to a client: the one place that knows the list of backends.

use std::sync::Arc;

use leasehold_core::backend::Backend;
use leasehold_core::memory::MemoryStore;
#[cfg(feature = "redis")]
use leasehold_core::quorum::QuorumBackend;
use leasehold_core::{Client, ClientBuilder, Error, ErrorKind, Result, StoreUrl};

/// Schemes that this build understands.
const SCHEMES: &[&str] = &[
    #[cfg(feature = "etcd")]
    "etcd",
    #[cfg(feature = "etcd")]
    "etcds",
    #[cfg(feature = "file")]
    "file",
    #[cfg(feature = "mysql")]
    "mariadb",
    "memory",
    #[cfg(feature = "mysql")]
    "mysql",
    #[cfg(feature = "postgres")]
    "postgres",
    #[cfg(feature = "postgres")]
    "postgresql",
    #[cfg(feature = "redis")]
    "redis",
    #[cfg(feature = "redis")]
    "redis+cluster",
    #[cfg(feature = "redis")]
    "redis+sentinel",
    #[cfg(feature = "redis")]
    "redis+unix",
    #[cfg(feature = "redis")]
    "rediss",
    #[cfg(feature = "redis")]
    "rediss+cluster",
    #[cfg(feature = "redis")]
    "rediss+sentinel",
    #[cfg(feature = "redis")]
    "redlock",
    #[cfg(feature = "redis")]
    "redlocks",
    #[cfg(feature = "sqlite")]
    "sqlite",
    #[cfg(feature = "zookeeper")]
    "zookeeper",
    #[cfg(feature = "zookeeper")]
    "zookeepers",
];

/// Schemes of engines that are features of this crate: (scheme, feature).
const FEATURES: &[(&str, &str)] = &[
    ("etcd", "etcd"),
    ("etcds", "etcd"),
    ("file", "file"),
    ("mariadb", "mysql"),
    ("mysql", "mysql"),
    ("postgres", "postgres"),
    ("postgresql", "postgres"),
    ("redis", "redis"),
    ("redis+cluster", "redis"),
    ("redis+sentinel", "redis"),
    ("redis+unix", "redis"),
    ("rediss", "redis"),
    ("rediss+cluster", "redis"),
    ("rediss+sentinel", "redis"),
    ("redlock", "redis"),
    ("redlocks", "redis"),
    ("sqlite", "sqlite"),
    ("zookeeper", "zookeeper"),
    ("zookeepers", "zookeeper"),
];

/// The URL schemes that this build understands, in alphabetical order.
pub fn schemes() -> &'static [&'static str] {
    SCHEMES
}

/// Connects to the store that a URL names, with default settings.
///
/// | URL | store |
/// |---|---|
/// | `file:/var/lib/my-service/locks` | a directory on this machine |
/// | `redis://host:6379`, `rediss://host:6379`, `redis+unix:/run/redis.sock` | a Redis server |
/// | `redis+cluster://one:6379,two,three`, `rediss+cluster://...` | a Redis Cluster, by some of its nodes |
/// | `redis+sentinel://one:26379,two,three/NAME`, `rediss+sentinel://...` | the master that Redis Sentinel names |
/// | `redlock://one:6379,two:6379,three:6379`, `redlocks://...` | a majority of independent Redis servers |
/// | `postgres://host/database`, `mysql://host/database` (`mariadb:`) | tables in a database |
/// | `sqlite:/var/lib/my-service/locks.db` | tables in a file on this machine |
/// | `etcd://one,two,three/prefix`, `etcds://...` | an ensemble of etcd |
/// | `zookeeper://one:2181,two:2181,three:2181/locks`, `zookeepers://...` | a ZooKeeper ensemble |
/// | `memory:` | this client's memory; `memory:NAME` is shared by the whole process |
///
/// # Errors
/// [`ErrorKind::Invalid`] for a URL that is not understood; it names the schemes or options that
/// are. [`ErrorKind::Unavailable`], [`ErrorKind::Refused`] or [`ErrorKind::Foreign`] when the
/// store cannot be used.
pub async fn connect(url: &str) -> Result<Client> {
    let backend = open(url).await?;
    let lasts = outlives_its_process(&*backend);
    let mut builder = ClientBuilder::new(backend);
    if lasts {
        let url = url.to_owned();
        builder = builder.reopen(move || {
            let url = url.clone();
            Box::pin(async move { open(&url).await })
        });
    }
    builder.build().map_err(|error| error.during("connect", None))
}

/// True where a lease that nobody releases stays taken when its process ends.
fn outlives_its_process(backend: &dyn Backend) -> bool {
    !matches!(backend.capability().engine, "memory" | "file")
}

/// Connects as [`connect`] does, with backend and renewal on a thread and runtime of their own:
/// for programs whose tasks block their runtime for seconds, or whose runtime comes and goes.
///
/// # Errors
/// As [`connect`].
pub async fn connect_on_own_thread(url: &str) -> Result<Client> {
    let url = url.to_owned();
    Client::on_own_thread(move || async move { open(&url).await }).await
}

/// Opens the backend that a URL names, for a client with settings of its own
/// ([`ClientBuilder`](crate::ClientBuilder)).
///
/// # Errors
/// As [`connect`].
pub async fn open(url: &str) -> Result<Arc<dyn Backend>> {
    open_url(url).await.map_err(|error| error.during("connect", None))
}

/// Removes what a store remembers of the free locks whose names start with `names`, and says of how
/// many: what a benchmark or a test leaves behind.
///
/// That is their last tokens above all; without them only a clock keeps later tokens above those that
/// were given. On files and in SQL tables a lock stays until that clock has passed its last token. For
/// names that are never used again. In memory nothing needs to be removed.
///
/// # Errors
/// [`ErrorKind::Invalid`] when `names` is empty; others as [`connect`]. What was removed before an
/// error stays so.
pub async fn forget(url: &str, names: &str) -> Result<u64> {
    if names.is_empty() {
        return Err(Error::new(ErrorKind::Invalid, "forget: an empty start would mean all locks"));
    }
    let url = StoreUrl::parse(url)?;
    match url.scheme() {
        "memory" => Ok(0),
        // It keeps nothing of a free lock: tokens are the ensemble's revisions.
        #[cfg(feature = "etcd")]
        "etcd" | "etcds" => Ok(0),
        #[cfg(feature = "file")]
        "file" => leasehold_file::connect(&url)?.forget(names),
        #[cfg(feature = "redis")]
        scheme if is_redis(scheme) => leasehold_redis::forget(url, names).await,
        #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
        scheme if is_sql(scheme) => leasehold_sql::forget(url, names).await,
        #[cfg(feature = "zookeeper")]
        "zookeeper" | "zookeepers" => leasehold_zookeeper::forget(url, names).await,
        scheme => Err(unknown(scheme)),
    }
}

async fn open_url(url: &str) -> Result<Arc<dyn Backend>> {
    let url = StoreUrl::parse(url)?;
    match url.scheme() {
        "memory" => Ok(Arc::new(MemoryStore::from_url(&url)?.connect())),
        #[cfg(feature = "etcd")]
        "etcd" | "etcds" => Ok(Arc::new(leasehold_etcd::connect(url).await?)),
        #[cfg(feature = "file")]
        "file" => Ok(Arc::new(leasehold_file::connect(&url)?)),
        #[cfg(feature = "redis")]
        scheme if is_redis(scheme) => open_redis(url).await,
        #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
        scheme if is_sql(scheme) => Ok(Arc::new(leasehold_sql::connect(url).await?)),
        #[cfg(feature = "zookeeper")]
        "zookeeper" | "zookeepers" => Ok(Arc::new(leasehold_zookeeper::connect(url).await?)),
        scheme => Err(unknown(scheme)),
    }
}

#[cfg(feature = "redis")]
pub(crate) fn is_redis(scheme: &str) -> bool {
    FEATURES.iter().any(|(known, feature)| *known == scheme && *feature == "redis")
}

/// One server, or the nodes of a quorum.
#[cfg(feature = "redis")]
async fn open_redis(mut url: StoreUrl) -> Result<Arc<dyn Backend>> {
    let Some(quorum) = leasehold_redis::quorum(&mut url)? else {
        return Ok(Arc::new(leasehold_redis::connect(url).await?));
    };
    let mut builder = QuorumBackend::builder(quorum.nodes);
    if let Some(max_ttl) = quorum.named_max_ttl {
        builder = builder.max_ttl(max_ttl);
    }
    if let Some(limit) = quorum.node_limit {
        builder = builder.node_limit(limit);
    }
    Ok(Arc::new(builder.connect().await?))
}

/// True for a scheme of the SQL engines that are built in.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) fn is_sql(scheme: &str) -> bool {
    let sql = matches!(scheme, "mariadb" | "mysql" | "postgres" | "postgresql" | "sqlite");
    sql && SCHEMES.contains(&scheme)
}

/// Refuses a scheme that this build does not know.
pub(crate) fn known(scheme: &str) -> Result<()> {
    if SCHEMES.contains(&scheme) { Ok(()) } else { Err(unknown(scheme)) }
}

pub(crate) fn unknown(scheme: &str) -> Error {
    let known = SCHEMES.join(", ");
    let message = match FEATURES.iter().find(|(known, _)| *known == scheme) {
        Some((_, feature)) => format!(
            "store URL: scheme {scheme:?} needs the feature {feature:?} of crate leasehold; \
             this build knows {known}"
        ),
        None => format!("store URL: unknown scheme {scheme:?}; this build knows {known}"),
    };
    Error::new(ErrorKind::Invalid, message)
}
