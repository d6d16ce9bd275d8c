//! The certificates that a URL names: reads them, and uses them for connections.

use std::net::TcpStream;
use std::sync::Arc;

use leasehold_core::{Result, StoreUrl, certificate_fault};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use zookeeper_client::{Connector, TlsOptions};

use crate::error::is_silence;

/// The TLS settings of a URL.
#[derive(Clone)]
pub(crate) struct Tls {
    options: TlsOptions,
    /// The certificates of the authority that has signed the servers' certificates, in PEM.
    authority: String,
    /// The client's certificate and key, in PEM.
    identity: Option<(String, String)>,
}

impl Tls {
    /// Takes `tls-ca`, `tls-cert` and `tls-key` and reads their files; `None` without TLS.
    pub(crate) fn take(url: &mut StoreUrl) -> Result<Option<Self>> {
        let files = url.take_tls()?;
        if url.scheme() != "zookeepers" {
            return match files.is_empty() {
                false => Err(StoreUrl::invalid(
                    "tls-ca, tls-cert and tls-key need the scheme zookeepers:",
                )),
                true => Ok(None),
            };
        }
        // If other engines add a second provider to the build, neither is the default.
        rustls::crypto::ring::default_provider().install_default().ok();
        let ca = files.authority.ok_or_else(|| {
            StoreUrl::invalid(
                "zookeepers: needs tls-ca=FILE, the certificate of the servers' authority",
            )
        })?;
        let unusable = |option: &str, file: &str| {
            StoreUrl::invalid(format!("{option} {file:?} is not a PEM file of this kind"))
        };
        let read = |option, file: &str| {
            String::from_utf8(StoreUrl::read(option, file)?).map_err(|_| unusable(option, file))
        };
        let authority = read("tls-ca", &ca)?;
        let options = TlsOptions::new().with_pem_ca(&authority);
        let options = options.map_err(|_| unusable("tls-ca", &ca))?;
        let Some((cert, key)) = files.client else {
            return Ok(Some(Self { options, authority, identity: None }));
        };
        let identity = (read("tls-cert", &cert)?, read("tls-key", &key)?);
        let options = options.with_pem_identity(&identity.0, &identity.1);
        let options = options.map_err(|_| unusable("tls-cert or tls-key", &cert))?;
        Ok(Some(Self { options, authority, identity: Some(identity) }))
    }

    /// Checks that certificates can be issued for this host name.
    pub(crate) fn check_host(&self, host: &str) -> Result<()> {
        match ServerName::try_from(host) {
            Ok(_) => Ok(()),
            Err(_) => Err(StoreUrl::invalid("a host name is not valid in a certificate")),
        }
    }

    /// Adds TLS to the connections of a session.
    pub(crate) fn secure(&self, connector: Connector) -> Connector {
        connector.with_tls(self.options.clone())
    }

    /// Performs a TLS handshake with both certificates.
    pub(crate) fn greet(&self, mut stream: TcpStream, host: &str) -> (bool, String) {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(self.authority.as_bytes()).flatten() {
            roots.add(certificate).ok();
        }
        let Ok(name) = ServerName::try_from(host.to_owned()) else {
            return (false, "the host name is not valid in a certificate".into());
        };
        let config = ClientConfig::builder().with_root_certificates(roots);
        let config = match &self.identity {
            None => Ok(config.with_no_client_auth()),
            Some((certificate, key)) => {
                let chain =
                    CertificateDer::pem_slice_iter(certificate.as_bytes()).flatten().collect();
                PrivateKeyDer::from_pem_slice(key.as_bytes())
                    .map_err(|error| error.to_string())
                    .and_then(|key| {
                        config.with_client_auth_cert(chain, key).map_err(|error| error.to_string())
                    })
            }
        };
        let connection = config.and_then(|config| {
            ClientConnection::new(Arc::new(config), name).map_err(|error| error.to_string())
        });
        let mut connection = match connection {
            Ok(connection) => connection,
            Err(error) => return (false, format!("cannot set up TLS ({error})")),
        };
        let ours = self.identity.is_some();
        let Err(error) = connection.complete_io(&mut stream) else {
            let what = match ours {
                true => {
                    "it accepts TLS, but opened no session in time; check its load, and whether it \
                         has a majority"
                }
                false => {
                    "it accepts TLS, but opens no session; does it require a client certificate \
                          (tls-cert, tls-key), or has it no majority?"
                }
            };
            return (false, what.into());
        };
        if is_silence(&error) {
            return (false, "it listens, but does not answer in time".into());
        }
        let text = error.to_string();
        if let Some(alert) = text.strip_prefix("received fatal alert: ") {
            // Search for parts of names: servers send different alerts.
            let names = ["ertificate", "UnknownCA", "AccessDenied"];
            let refused = names.iter().any(|name| alert.contains(name));
            let what = match (refused, ours) {
                (true, true) => "it does not accept the client certificate of tls-cert",
                (true, false) => "it requires a client certificate; set tls-cert and tls-key",
                _ => "it supports TLS, but no version or cipher that this client supports",
            };
            return (refused, format!("{what} ({text})"));
        }
        let Some(what) = certificate_fault(&text) else {
            return (
                false,
                format!("the TLS handshake failed ({text}); is this the port without TLS?"),
            );
        };
        (true, format!("{what} ({text})"))
    }
}
