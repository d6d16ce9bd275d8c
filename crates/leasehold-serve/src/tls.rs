//! The server's side of TLS.

use std::path::Path;
use std::sync::Arc;

use leasehold::{Error, ErrorKind};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// Reads a certificate chain and its key, in PEM.
pub(crate) fn acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor, Error> {
    let unreadable = |option: &str, path: &Path, error: &dyn std::error::Error| {
        let path = path.display();
        let what = format!("{option} {path}: cannot be used: {error}; name a readable PEM file");
        Error::new(ErrorKind::Invalid, what)
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable("--tls-cert", cert, &error))?;
    let secret =
        PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable("--tls-key", key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
        .map_err(|error| unreadable("--tls-cert", cert, &error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
