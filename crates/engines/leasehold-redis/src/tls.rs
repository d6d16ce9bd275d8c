//! The certificates that a URL names for connections over TLS.

use leasehold_core::{Result, StoreUrl};
use redis::{Client, ClientTlsConfig, ConnectionInfo, RedisResult, TlsCertificates};

use crate::scheme::is_tls;

/// The authority to trust and the client's own certificate.
#[derive(Clone)]
pub(crate) struct Certificates(TlsCertificates);

impl Certificates {
    /// Takes `tls-ca`, `tls-cert` and `tls-key`, and reads their files; `None` if the URL names none.
    pub(crate) fn take(url: &mut StoreUrl) -> Result<Option<Self>> {
        let files = url.take_tls()?;
        let is_tls = is_tls(url.scheme());
        if is_tls {
            // If other engines add a second provider to the build, neither is the default.
            rustls::crypto::ring::default_provider().install_default().ok();
        }
        if files.is_empty() {
            return Ok(None);
        }
        let root_cert = files.authority.map(|ca| StoreUrl::read("tls-ca", &ca)).transpose()?;
        let client_tls = match files.client {
            None => None,
            Some((cert, key)) => Some(ClientTlsConfig {
                client_cert: StoreUrl::read("tls-cert", &cert)?,
                client_key: StoreUrl::read("tls-key", &key)?,
            }),
        };
        if !is_tls {
            return Err(StoreUrl::invalid(
                "tls-ca, tls-cert and tls-key need the scheme rediss: or redlocks:",
            ));
        }
        Ok(Some(Self(TlsCertificates { client_tls, root_cert })))
    }

    /// Creates the client of a server.
    pub(crate) fn client(&self, info: ConnectionInfo) -> RedisResult<Client> {
        Client::build_with_tls(info, self.0.clone())
    }
}
