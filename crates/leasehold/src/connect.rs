//! Creates a client from a store URL. Only this module knows the list of backends.

pub(crate) mod also;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use leasehold_core::backend::Backend;
use leasehold_core::memory::MemoryStore;
use leasehold_core::{Client, ClientSettings, Error, ErrorKind, Result, StoreUrl};
#[cfg(feature = "redis")]
use leasehold_quorum::QuorumBackend;

use crate::store_url::{self, with_cache};

/// The features of this crate on which schemes depend, as far as this build has them.
const ENABLED: &[&str] = &[
    #[cfg(feature = "etcd")]
    "etcd",
    #[cfg(feature = "file")]
    "file",
    #[cfg(feature = "mysql")]
    "mysql",
    #[cfg(feature = "postgres")]
    "postgres",
    #[cfg(feature = "redis")]
    "redis",
    #[cfg(feature = "sqlite")]
    "sqlite",
    #[cfg(feature = "tls")]
    "tls",
    #[cfg(feature = "zookeeper")]
    "zookeeper",
];

/// All schemes, in alphabetical order, with the features that each needs.
const SCHEMES: &[(&str, &[&str])] = &[
    ("etcd", &["etcd"]),
    ("etcds", &["etcd", "tls"]),
    ("file", &["file"]),
    ("mariadb", &["mysql"]),
    ("memory", &[]),
    ("mysql", &["mysql"]),
    ("postgres", &["postgres"]),
    ("postgresql", &["postgres"]),
    ("redis", &["redis"]),
    ("redis+cluster", &["redis"]),
    ("redis+sentinel", &["redis"]),
    ("redis+unix", &["redis"]),
    ("rediss", &["redis", "tls"]),
    ("rediss+cluster", &["redis", "tls"]),
    ("rediss+sentinel", &["redis", "tls"]),
    ("redlock", &["redis"]),
    ("redlocks", &["redis", "tls"]),
    ("sqlite", &["sqlite"]),
    ("zookeeper", &["zookeeper"]),
    ("zookeepers", &["tls", "zookeeper"]),
];

static KNOWN: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let known = SCHEMES.iter().filter(|(_, needs)| needs.iter().all(|one| ENABLED.contains(one)));
    known.map(|(scheme, _)| *scheme).collect()
});

/// Returns the URL schemes that this build supports, in alphabetical order.
pub fn schemes() -> &'static [&'static str] {
    &KNOWN
}

/// Returns the features of this crate that the store of a URL needs and this build does not have.
/// Empty if the build supports the URL's scheme, and for an unknown scheme.
pub fn missing_features(url: &str) -> Vec<&'static str> {
    match StoreUrl::parse(url) {
        Ok(url) => missing(url.scheme()),
        Err(_) => Vec::new(),
    }
}

fn missing(scheme: &str) -> Vec<&'static str> {
    let needs =
        SCHEMES.iter().find(|(known, _)| *known == scheme).map_or(&[][..], |(_, needs)| needs);
    needs.iter().copied().filter(|feature| !ENABLED.contains(feature)).collect()
}

/// Connects to the store of a URL and returns a client with default settings.
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
/// | `etcd://one,two,three/prefix`, `etcds://...` | an etcd cluster |
/// | `zookeeper://one:2181,two:2181,three:2181/locks`, `zookeepers://...` | a ZooKeeper ensemble |
/// | `memory:` | this client's memory; `memory:NAME` is shared by the whole process |
///
/// # Errors
/// [`ErrorKind::Invalid`] for an invalid URL; the message names the schemes or options that are
/// allowed. [`ErrorKind::Unavailable`] if the store cannot be reached, [`ErrorKind::Refused`] if it
/// refuses the user or its settings are not safe for locks, and [`ErrorKind::Foreign`] if it holds
/// data of another program under the names that this crate uses.
pub async fn connect(url: &str) -> Result<Client> {
    connect_with(url, ClientSettings::new()).await
}

/// Connects as [`connect`] does, with other settings of the client.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
/// use leasehold::ClientSettings;
/// use std::time::Duration;
///
/// let settings = ClientSettings::new().patience(Duration::from_secs(3));
/// let client = leasehold::connect_with("memory:", settings).await?;
/// # client.close().await;
/// # Ok(()) }
/// ```
///
/// # Errors
/// As [`connect`].
pub async fn connect_with(url: &str, mut settings: ClientSettings) -> Result<Client> {
    let (place, cache) = with_cache(url).map_err(|error| error.during("connect", None))?;
    settings = cached(settings, cache);
    let backend = open_either(place).await.map_err(|error| error.during("connect", None))?;
    if outlives_its_process(&*backend) && !settings.reopens() {
        let url = url.to_owned();
        settings = settings.reopen(move || {
            let url = url.clone();
            Box::pin(async move { open(&url).await })
        });
    }
    Client::with_settings(backend, settings).map_err(|error| error.during("connect", None))
}

/// Returns true if an unreleased lease stays taken until it expires when its process ends.
fn outlives_its_process(backend: &dyn Backend) -> bool {
    !matches!(backend.capability().engine, "memory" | "file")
}

/// Connects as [`connect_with`] does, and runs the backend and the renewal on a separate thread with its
/// own runtime. For programs whose tasks block their runtime for seconds, or whose runtime ends
/// before the client does.
///
/// # Errors
/// As [`connect`].
pub async fn connect_on_own_thread(url: &str, settings: ClientSettings) -> Result<Client> {
    let (place, cache) = with_cache(url).map_err(|error| error.during("connect", None))?;
    let open = move || async move {
        open_either(place).await.map_err(|error| error.during("connect", None))
    };
    Client::on_own_thread(open, cached(settings, cache)).await
}

/// Opens the backend of a URL without a client, for a backend that wraps it
/// ([`Client::with_settings`](crate::Client::with_settings)). The option `cache` of the URL is that of a client,
/// and has no effect: use [`ClientSettings::cache`].
///
/// # Errors
/// As [`connect`].
pub async fn open(url: &str) -> Result<Arc<dyn Backend>> {
    let opened = async { open_either(store_url::parse(url)?).await };
    opened.await.map_err(|error| error.during("connect", None))
}

/// Opens the backend of a URL, which may have the option `also`.
async fn open_either(url: StoreUrl) -> Result<Arc<dyn Backend>> {
    match also::split(&url)? {
        Some(urls) => also::open(urls).await,
        None => open_url(url).await,
    }
}

/// Adds the cache time of a URL to the settings.
fn cached(settings: ClientSettings, cache: Option<Duration>) -> ClientSettings {
    match cache {
        Some(cache) => settings.cache(cache),
        None => settings,
    }
}

/// Removes the records of the free locks whose names start with `names`, and returns their number.
/// For names that are never used again, such as those of a benchmark or a test.
///
/// A record holds the last token of its lock. Without it, only the clock ensures that later tokens
/// are larger. So Redis, SQL databases and `file:` keep a record until that clock has passed its last
/// token. The nodes of a quorum remember their largest token, and keep a record until a minute after
/// the time until which its last lease was granted. `memory:` and `etcd:` keep no records that this
/// removes, and 0 is returned.
///
/// # Errors
/// [`ErrorKind::Invalid`] if `names` is empty; others as [`connect`]. Records that were removed
/// before an error are not restored.
pub async fn forget(url: &str, names: &str) -> Result<u64> {
    if names.is_empty() {
        return Err(Error::new(
            ErrorKind::Invalid,
            "forget: the prefix must not be empty: it would match every lock",
        ));
    }
    let url = also::native(store_url::parse(url)?)?;
    match url.scheme() {
        "memory" => Ok(0),
        // etcd keeps no record of a free lock: tokens are the cluster's revisions.
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

/// Opens the backend of a URL without the option `also`.
pub(crate) async fn open_url(url: StoreUrl) -> Result<Arc<dyn Backend>> {
    match url.scheme() {
        "memory" => Ok(Arc::new(MemoryStore::from_url(&url)?.connect())),
        #[cfg(feature = "etcd")]
        "etcd" | "etcds" if leasehold_etcd::names_a_wire(&url) => {
            Ok(Arc::new(leasehold_etcd::connect_with_wire(url).await?))
        }
        #[cfg(feature = "etcd")]
        "etcd" | "etcds" => Ok(Arc::new(leasehold_etcd::connect(url).await?)),
        #[cfg(feature = "file")]
        "file" if leasehold_file::names_a_wire(&url) => {
            Ok(Arc::new(leasehold_file::connect_with_wire(&url)?))
        }
        #[cfg(feature = "file")]
        "file" => Ok(Arc::new(leasehold_file::connect(&url)?)),
        #[cfg(feature = "redis")]
        scheme if is_redis(scheme) => open_redis(url).await,
        #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
        scheme if is_sql(scheme) && scheme != "sqlite" && leasehold_sql::names_a_wire(&url) => {
            Ok(Arc::new(leasehold_sql::connect_with_wire(url).await?))
        }
        #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
        scheme if is_sql(scheme) => Ok(Arc::new(leasehold_sql::connect(url).await?)),
        #[cfg(feature = "zookeeper")]
        "zookeeper" | "zookeepers" if leasehold_zookeeper::names_a_wire(&url) => {
            Ok(Arc::new(leasehold_zookeeper::connect_with_wire(url).await?))
        }
        #[cfg(feature = "zookeeper")]
        "zookeeper" | "zookeepers" => Ok(Arc::new(leasehold_zookeeper::connect(url).await?)),
        scheme => Err(unknown(scheme)),
    }
}

#[cfg(feature = "redis")]
pub(crate) fn is_redis(scheme: &str) -> bool {
    SCHEMES.iter().any(|(known, needs)| *known == scheme && needs.contains(&"redis"))
}

/// Opens a single Redis server, or the nodes of a quorum.
#[cfg(feature = "redis")]
async fn open_redis(mut url: StoreUrl) -> Result<Arc<dyn Backend>> {
    if leasehold_redis::names_a_wire(&url) && url.scheme().starts_with("redlock") {
        return Ok(Arc::new(leasehold_redis::quorum_with_wire(url).await?));
    }
    if leasehold_redis::names_a_wire(&url) {
        return Ok(Arc::new(leasehold_redis::connect_with_wire(url).await?));
    }
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

/// Returns true for a scheme of the SQL engines in this build.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) fn is_sql(scheme: &str) -> bool {
    let sql = matches!(scheme, "mariadb" | "mysql" | "postgres" | "postgresql" | "sqlite");
    sql && KNOWN.contains(&scheme)
}

/// Refuses a scheme that this build does not support.
pub(crate) fn known(scheme: &str) -> Result<()> {
    if KNOWN.contains(&scheme) { Ok(()) } else { Err(unknown(scheme)) }
}

pub(crate) fn unknown(scheme: &str) -> Error {
    // Since version 3.0 it has locks, so people try it.
    if scheme == "nacos" {
        return StoreUrl::invalid(
            "Nacos is not supported; use etcd://, zookeeper:// or redis:// instead",
        );
    }
    let known = KNOWN.join(", ");
    let what = format!("scheme {scheme:?}");
    let message = match &*missing(scheme) {
        [] => format!("unknown {what}{}", StoreUrl::meant(scheme, KNOWN.iter().copied())),
        [feature] => format!("{what} needs the feature {feature:?} of the crate leasehold"),
        several => format!("{what} needs the features {several:?} of the crate leasehold"),
    };
    StoreUrl::invalid(format!("{message}; this build supports {known}"))
}

#[cfg(test)]
mod unknown_schemes {
    use leasehold_core::ErrorKind;

    use super::connect;

    #[tokio::test]
    async fn nacos_is_refused_with_the_engines_to_use_instead() {
        for url in ["nacos://127.0.0.1:8848", "nacos:locks"] {
            let error = connect(url).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            for word in ["Nacos is not supported", "etcd://", "zookeeper://", "redis://"] {
                assert!(error.message().contains(word), "{error}");
            }
        }
    }
}

#[cfg(all(
    test,
    feature = "etcd",
    feature = "file",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "sqlite",
    feature = "zookeeper"
))]
mod tests {
    use std::path::Path;

    use super::connect;

    /// Each URL has a raw & in a password, so that the rest of the password looks like an option.
    #[tokio::test]
    async fn no_engine_shows_a_part_of_a_password_as_an_unknown_option() {
        for store in [
            "memory:",
            "file:/dev/null/nowhere/locks",
            "sqlite:/dev/null/nowhere/locks.db",
            "postgres://u:p@h/app",
            "mysql://u:p@h/app",
            "redis://u:p@h",
            "redis+cluster://u:p@h",
            "redis+sentinel://u:p@h/main",
            "redlock://u:p@h",
            "etcd://u:p@h",
            "zookeeper://u:p@h",
        ] {
            for options in ["sentinel-password=a&s3cret=1", "password=a&s3cret=1&s3cret=2"] {
                let connected = connect(&format!("{store}?{options}")).await;
                let Err(error) = connected else { panic!("{store} takes {options}") };
                assert!(!format!("{error} {error:?}").contains("s3cret"), "{store}: {error}");
            }
        }
    }

    #[tokio::test]
    async fn each_option_is_in_the_page_of_its_engine() {
        let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for (store, page) in [
            ("sqlite:/dev/null/nowhere/locks.db", "sql.md"),
            ("postgres://u:p@h/app", "sql.md"),
            ("mysql://u:p@h/app", "sql.md"),
            ("redis://h", "redis.md"),
            ("redis+cluster://h", "redis.md"),
            ("redis+sentinel://h/main", "redis.md"),
            ("redlock://h,i,j", "quorum.md"),
            ("etcd://h", "etcd.md"),
            ("zookeeper://h", "zookeeper.md"),
        ] {
            let text = std::fs::read_to_string(pages.join(page)).unwrap();
            let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
            let error = connect(&format!("{store}?no-such-option=1")).await.unwrap_err();
            let (_, options) = error.message().rsplit_once("the options are ").unwrap();
            for option in options.split(", ") {
                let forms = [format!("`{option}`"), format!("`{option}="), format!("?{option}=")];
                let is_named = rows.iter().any(|row| forms.iter().any(|form| row.contains(form)));
                assert!(is_named, "no table of docs/{page} names `{option}`, an option of {store}");
            }
        }
    }
}
