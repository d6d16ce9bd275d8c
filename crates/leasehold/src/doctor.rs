//! Checks a store for everything that can harm locks, as the command `leasehold doctor` does.

use leasehold_core::{Result, StoreUrl};

pub use leasehold_core::doctor::{Examined, Finding, Severity, Unseen};

#[cfg(feature = "redis")]
use crate::connect::is_redis;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
use crate::connect::is_sql;
use crate::connect::unknown;

/// Checks the store of a URL, as far as the user's rights allow, and returns what can harm locks
/// there, most severe first. Acquires no lock and changes nothing.
///
/// A store that [`connect`](crate::connect) refuses is checked too; the refusal is a finding.
///
/// ```
/// # #[tokio::main] async fn main() -> leasehold::Result<()> {
/// let examined = leasehold::doctor::examine("memory:").await?;
/// for finding in &examined.findings {
///     println!("{:?}: {}; {}", finding.severity, finding.what, finding.change);
/// }
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid URL;
/// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if no server answers there.
pub async fn examine(url: &str) -> Result<Examined> {
    let examined = examine_url(url).await.map_err(|error| error.during("doctor", None))?;
    Ok(examined.sorted())
}

async fn examine_url(url: &str) -> Result<Examined> {
    let url = StoreUrl::parse(url)?;
    match url.scheme() {
        "memory" => leasehold_core::memory::examine(&url),
        #[cfg(feature = "etcd")]
        "etcd" | "etcds" => leasehold_etcd::examine(url).await,
        #[cfg(feature = "file")]
        "file" => leasehold_file::examine(&url),
        #[cfg(feature = "redis")]
        scheme if is_redis(scheme) => leasehold_redis::examine(url).await,
        #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
        scheme if is_sql(scheme) => leasehold_sql::examine(url).await,
        #[cfg(feature = "zookeeper")]
        "zookeeper" | "zookeepers" => leasehold_zookeeper::examine(url).await,
        scheme => Err(unknown(scheme)),
    }
}
