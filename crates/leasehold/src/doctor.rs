//! Checks a store for everything that can harm locks, as the command `leasehold doctor` does.

mod formats;

use leasehold_core::{Result, StoreUrl};

pub use leasehold_core::doctor::{Diagnosis, Finding, Severity, Unseen};

use crate::connect::also;
#[cfg(feature = "redis")]
use crate::connect::is_redis;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
use crate::connect::is_sql;
use crate::connect::unknown;
use crate::store_url;

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

/// Looks for locks of other libraries whose names begin with `prefix`, and says which option `wire` fits. Reads a bounded
/// number of keys, and changes nothing. Only Redis can tell such locks from other data; on other stores the result says that
/// it was not seen.
///
/// # Errors
/// As [`diagnose`].
pub async fn foreign_locks(url: &str, prefix: &str) -> Result<Diagnosis> {
    let url = store_url::parse(url)?;
    match url.scheme() {
        #[cfg(feature = "redis")]
        scheme if is_redis(scheme) && !scheme.starts_with("redlock") => {
            // With `also`, on the same server: what it says of the format is needed.
            let url = also::split(&url)?.map_or(url, |urls| urls.foreign);
            let found = leasehold_redis::foreign_locks(url, prefix).await;
            found.map_err(|error| error.during("doctor", None))
        }
        scheme => {
            crate::connect::known(scheme)?;
            let _ = prefix;
            let mut diagnosis = Diagnosis::at(url.to_string());
            diagnosis.unseen(
                "locks of other libraries",
                "this store cannot tell them from other data; docs/interop.md has their formats",
            );
            Ok(diagnosis)
        }
    }
}

async fn diagnose_url(url: &str) -> Result<Diagnosis> {
    let url = store_url::parse(url)?;
    let Some(urls) = also::split(&url)? else {
        let (place, format) = (url.to_string(), url.clone().take("wire"));
        let mut diagnosis = diagnose_store(url).await?;
        if let Some(format) = format {
            formats::note(&mut diagnosis, &place, &format, false);
        }
        return Ok(diagnosis);
    };
    let (place, format) = (urls.foreign.to_string(), urls.foreign.clone().take("wire"));
    // On the same server, most findings are the same.
    let mut diagnosis = diagnose_store(urls.foreign).await?;
    let mut native = diagnose_store(urls.native).await?;
    let is_known = |finding: &Finding| diagnosis.findings.contains(finding);
    native.findings.retain(|finding| !is_known(finding));
    native.unseen.retain(|unseen| !diagnosis.unseen.contains(unseen));
    diagnosis.join(native);
    formats::note(&mut diagnosis, &place, &format.unwrap_or_default(), true);
    Ok(diagnosis)
}

async fn diagnose_store(url: StoreUrl) -> Result<Diagnosis> {
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
