//! In place of `tls.rs` in a build without TLS: refuses URLs that need it.

use std::convert::Infallible;
use std::net::TcpStream;

use leasehold_core::{Result, StoreUrl};
use zookeeper_client::Connector;

/// This build never connects over TLS.
#[derive(Clone)]
pub(crate) struct Tls(Infallible);

impl Tls {
    /// Refuses the scheme `zookeepers:`, and certificates.
    pub(crate) fn take(url: &mut StoreUrl) -> Result<Option<Self>> {
        if url.scheme() == "zookeepers" {
            return Err(StoreUrl::needs_feature("scheme \"zookeepers\"", "tls"));
        }
        match url.take_tls()?.is_empty() {
            true => Ok(None),
            false => {
                Err(StoreUrl::invalid("tls-ca, tls-cert and tls-key need the scheme zookeepers:"))
            }
        }
    }

    /// Checks that certificates can be issued for this host name.
    pub(crate) fn check_host(&self, _: &str) -> Result<()> {
        match self.0 {}
    }

    /// Adds TLS to the connections of a session.
    pub(crate) fn secure(&self, _: Connector) -> Connector {
        match self.0 {}
    }

    /// Diagnoses a server.
    pub(crate) fn greet(&self, _: TcpStream, _: &str) -> (bool, String) {
        match self.0 {}
    }
}
