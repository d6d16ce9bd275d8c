//! Creates what a store needs before it can be used: tables, on the SQL engines.

use leasehold_core::Result;

use crate::store_url;

/// Creates the tables that the store of this URL needs, if they are missing. Repeated calls are
/// safe. Returns true if this kind of store needs tables, false if it needs nothing.
///
/// The SQL engines need tables. The first use creates them too, if the database user has the right
/// to. Call this function as another user if the user that acquires locks has no such right. To set
/// up the nodes of a quorum, use [`quorum::found`](crate::quorum::found).
///
/// # Errors
/// As [`connect`](crate::connect()).
pub async fn init(url: &str) -> Result<bool> {
    make(url).await.map_err(|error| error.during("init", None))
}

/// Returns the statements that [`init`] executes for the store of this URL, in order; empty for
/// stores that need nothing. Does not connect.
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid URL.
pub fn init_statements(url: &str) -> Result<Vec<String>> {
    let url = crate::connect::also::native(store_url::parse(url)?)?;
    match url.scheme() {
        #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
        scheme if crate::connect::is_sql(scheme) => leasehold_sql::statements(url),
        scheme => crate::connect::known(scheme).map(|()| Vec::new()),
    }
}

async fn make(url: &str) -> Result<bool> {
    let url = crate::connect::also::native(store_url::parse(url)?)?;
    match url.scheme() {
        #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
        scheme if crate::connect::is_sql(scheme) => leasehold_sql::init(url).await.map(|()| true),
        scheme => crate::connect::known(scheme).map(|()| false),
    }
}
