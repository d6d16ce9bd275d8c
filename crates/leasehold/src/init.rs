//! Making ready what a store needs before locks can be had: tables, on the SQL engines.

use leasehold_core::{Result, StoreUrl};

/// Makes what the store of this URL needs and is missing; it may be done again at any time. True when
/// there is something to be made on such stores, false when they need nothing.
///
/// The SQL engines need tables. Their first use makes them too, if its user may; this is for when
/// the one who locks may not. The nodes of a quorum are set up by [`quorum::found`](crate::quorum::found).
///
/// # Errors
/// As [`connect`](crate::connect()).
pub async fn init(url: &str) -> Result<bool> {
    make(url).await.map_err(|error| error.during("init", None))
}

/// The statements by which [`init`] makes ready the store of this URL, in their order; none for
/// stores that need nothing. Nothing is connected to.
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a URL that is not understood.
pub fn init_statements(url: &str) -> Result<Vec<String>> {
    let url = StoreUrl::parse(url)?;
    match url.scheme() {
        #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
        scheme if crate::connect::is_sql(scheme) => leasehold_sql::statements(url),
        scheme => crate::connect::known(scheme).map(|()| Vec::new()),
    }
}

async fn make(url: &str) -> Result<bool> {
    let url = StoreUrl::parse(url)?;
    match url.scheme() {
        #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
        scheme if crate::connect::is_sql(scheme) => leasehold_sql::init(url).await.map(|()| true),
        scheme => crate::connect::known(scheme).map(|()| false),
    }
}
