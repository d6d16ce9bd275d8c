//! Checks a store for everything that can harm locks, as the command `leasehold doctor` does.

use leasehold_core::{Result, StoreUrl};

pub use leasehold_core::doctor::{Diagnosis, Finding, Severity, Unseen};

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
/// let diagnosis = leasehold::doctor::diagnose("memory:").await?;
/// for finding in &diagnosis.findings {
///     println!("{:?}: {}; {}", finding.severity, finding.what, finding.change);
/// }
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid URL;
/// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if no server answers there.
pub async fn diagnose(url: &str) -> Result<Diagnosis> {
    let diagnosis = diagnose_url(url).await.map_err(|error| error.during("doctor", None))?;
    Ok(diagnosis.sorted())
}

async fn diagnose_url(url: &str) -> Result<Diagnosis> {
    let url = StoreUrl::parse(url)?;
    match url.scheme() {
        "memory" => leasehold_core::memory::diagnose(&url),
        #[cfg(feature = "etcd")]
        "etcd" | "etcds" => leasehold_etcd::diagnose(url).await,
        #[cfg(feature = "file")]
        "file" => leasehold_file::diagnose(&url),
        #[cfg(feature = "redis")]
        scheme if is_redis(scheme) => leasehold_redis::diagnose(url).await,
        #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
        scheme if is_sql(scheme) => leasehold_sql::diagnose(url).await,
        #[cfg(feature = "zookeeper")]
        "zookeeper" | "zookeepers" => leasehold_zookeeper::diagnose(url).await,
        scheme => Err(unknown(scheme)),
    }
}
