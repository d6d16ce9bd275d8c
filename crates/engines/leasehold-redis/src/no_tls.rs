//! In place of `tls.rs` in a build without TLS: refuses URLs that need it.

use std::convert::Infallible;

use leasehold_core::{Result, StoreUrl};
use redis::{Client, ConnectionInfo, RedisResult};

use crate::scheme::is_tls;

/// This build never has certificates.
#[derive(Clone)]
pub(crate) struct Certificates(Infallible);

impl Certificates {
    /// Refuses a scheme over TLS, and certificates.
    pub(crate) fn take(url: &mut StoreUrl) -> Result<Option<Self>> {
        if is_tls(url.scheme()) {
            let what = format!("scheme {:?}", url.scheme());
            return Err(StoreUrl::needs_feature(what, "tls"));
        }
        match url.take_tls()?.is_empty() {
            true => Ok(None),
            false => Err(StoreUrl::needs_feature("TLS", "tls")),
        }
    }

    /// Creates the client of a server.
    pub(crate) fn client(&self, _: ConnectionInfo) -> RedisResult<Client> {
        match self.0 {}
    }
}
