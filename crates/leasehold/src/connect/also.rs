//! The stores of a URL with the option `also`: clients hold each lock in two formats.

use std::sync::Arc;

use leasehold_core::backend::{AlsoBackend, Backend, Mark};
use leasehold_core::{AlsoUrls, Result, StoreUrl};

#[cfg(feature = "redis")]
use super::is_redis;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use super::is_sql;

/// A connection to the locks of another library, and the mark of its clients if the engine has one.
type Foreign = (Arc<dyn Backend>, Option<Arc<dyn Mark>>);

/// Splits a URL with the option, if its store can have it. On other stores the option is unknown.
pub(crate) fn split(url: &StoreUrl) -> Result<Option<AlsoUrls>> {
    match has_formats(url.scheme()) {
        true => url.split_also(),
        false => Ok(None),
    }
}

/// Returns the URL of the native store, for what is about that alone.
pub(crate) fn native(url: StoreUrl) -> Result<StoreUrl> {
    Ok(split(&url)?.map_or(url, |urls| urls.native))
}

fn has_formats(scheme: &str) -> bool {
    match scheme {
        #[cfg(feature = "redis")]
        scheme if is_redis(scheme) => !scheme.starts_with("redlock"),
        #[cfg(any(feature = "mysql", feature = "postgres"))]
        scheme if is_sql(scheme) => scheme != "sqlite",
        #[cfg(feature = "file")]
        "file" => true,
        #[cfg(feature = "etcd")]
        "etcd" | "etcds" => true,
        #[cfg(feature = "zookeeper")]
        "zookeeper" | "zookeepers" => true,
        _ => false,
    }
}

/// Connects to both stores.
pub(crate) async fn open(urls: AlsoUrls) -> Result<Arc<dyn Backend>> {
    let (foreign, mark) = foreign(urls.foreign).await?;
    let native = super::open_url(urls.native).await?;
    Ok(Arc::new(AlsoBackend::new(foreign, native, mark)))
}

async fn foreign(url: StoreUrl) -> Result<Foreign> {
    match url.scheme() {
        #[cfg(feature = "redis")]
        scheme if is_redis(scheme) => {
            let backend = leasehold_redis::connect_with_wire(url).await?.beside_native();
            let backend = Arc::new(backend);
            Ok((backend.clone(), Some(backend)))
        }
        #[cfg(any(feature = "mysql", feature = "postgres"))]
        scheme if is_sql(scheme) => {
            // Clients without the option use other tables, which have no place for a mark.
            Ok((Arc::new(leasehold_sql::connect_with_wire(url).await?), None))
        }
        // The two directories differ, so neither store notices the clients of the other.
        #[cfg(feature = "file")]
        "file" => Ok((Arc::new(leasehold_file::connect_with_wire(&url)?), None)),
        #[cfg(feature = "etcd")]
        "etcd" | "etcds" => {
            let backend = leasehold_etcd::connect_with_wire(url).await?.beside_native();
            let backend = Arc::new(backend);
            Ok((backend.clone(), Some(backend)))
        }
        #[cfg(feature = "zookeeper")]
        "zookeeper" | "zookeepers" => {
            let backend = leasehold_zookeeper::connect_with_wire(url).await?.beside_native();
            let backend = Arc::new(backend);
            Ok((backend.clone(), Some(backend)))
        }
        scheme => Err(super::unknown(scheme)),
    }
}
