//! Why no session can be opened: each server is asked what is wrong, since the client library
//! does not tell.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Error, ErrorKind, certificate_fault};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use zookeeper_client::Error as ZkError;

use crate::address::{Address, Pem};
use crate::error::from_zk;

const LIMIT: Duration = Duration::from_secs(2);
/// Bytes of an answer that are read: whoever listens there may go on without end.
pub(crate) const MOST: u64 = 64 << 10;

/// What is wrong with the servers, when opening a session ended with `error` or in no time.
pub(crate) async fn explain(address: &Address, error: Option<ZkError>) -> Error {
    if let Some(error @ (ZkError::AuthFailed | ZkError::BadArguments(_))) = error {
        return from_zk(error, address.root.path());
    }
    let looks = address.hosts.iter().map(|(host, port)| {
        let (host, port, pem) = (host.clone(), *port, address.pem.clone());
        tokio::task::spawn_blocking(move || look(&host, port, pem.as_ref()))
    });
    let looks = futures_util::future::join_all(looks).await;
    let mut kind = ErrorKind::Unavailable;
    let mut said = Vec::new();
    for ((host, port), look) in address.hosts.iter().zip(looks) {
        let (certificate, what) = look.unwrap_or((false, "it could not be looked at".to_owned()));
        if certificate {
            kind = ErrorKind::Refused;
        }
        said.push(format!("{host}:{port}: {what}"));
    }
    Error::new(kind, format!("no server gives a session: {}", said.join("; ")))
}

/// What one server says, and whether its certificate is what is wrong.
fn look(host: &str, port: u16, pem: Option<&Pem>) -> (bool, String) {
    let connected = connect(host, port);
    let stream = match connected {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return (false, "nobody listens there; is the server running?".into());
        }
        Err(error) => return (false, format!("it cannot be reached ({error})")),
    };
    match pem {
        Some(pem) => greet(stream, host, pem),
        None => (false, ask(stream)),
    }
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

pub(crate) fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address of that name");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, LIMIT) {
            Ok(stream) => {
                stream.set_read_timeout(Some(LIMIT))?;
                stream.set_write_timeout(Some(LIMIT))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Asks it for its state, which every server tells that allows it.
fn ask(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    let asked = stream.write_all(b"srvr").and_then(|()| stream.take(MOST).read_to_end(&mut said));
    let said = String::from_utf8_lossy(&said);
    let readonly = said.contains("Mode: read-only");
    match asked {
        _ if said.contains("not currently serving") || readonly => {
            "it has no majority of its ensemble; wait, or start the others".to_owned()
        }
        _ if said.contains("Mode: ") => {
            "it serves, but gave no session in time; look at its load, and at maxClientCnxns".into()
        }
        Ok(_) if said.contains("whitelist") => "it listens, but gives no session".to_owned(),
        Ok(_) => "it does not answer as ZooKeeper does; is this the port for TLS?".to_owned(),
        // It may hang up before it has read all of our question.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
            "it does not answer as ZooKeeper does; is this the port for TLS?".to_owned()
        }
        Err(error) if is_silence(&error) => {
            "it listens, but does not answer; is this the port for TLS, or is it stopped?"
                .to_owned()
        }
        Err(error) => format!("it listens, but does not answer ({error})"),
    }
}

/// Makes it show its certificate, and shows it ours.
fn greet(mut stream: TcpStream, host: &str, pem: &Pem) -> (bool, String) {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.authority.as_bytes()).flatten() {
        roots.add(certificate).ok();
    }
    let Ok(name) = ServerName::try_from(host.to_owned()) else {
        return (false, "no certificate can have that name".into());
    };
    let config = ClientConfig::builder().with_root_certificates(roots);
    let config = match &pem.client {
        None => Ok(config.with_no_client_auth()),
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).flatten().collect();
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
        Err(error) => return (false, format!("TLS cannot be set up ({error})")),
    };
    let ours = pem.client.is_some();
    let Err(error) = connection.complete_io(&mut stream) else {
        let what = match ours {
            true => {
                "it speaks TLS, but gave no session in time; look at its load, and whether it \
                     has a majority"
            }
            false => {
                "it speaks TLS, but gives no session; does it want a client certificate \
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
        // By name, since servers differ in which of them they send.
        let names = ["ertificate", "UnknownCA", "AccessDenied"];
        let refused = names.iter().any(|name| alert.contains(name));
        let what = match (refused, ours) {
            (true, true) => "it does not accept the client certificate of tls-cert",
            (true, false) => "it wants a client certificate; set tls-cert and tls-key",
            _ => "it speaks TLS, but not as we do",
        };
        return (refused, format!("{what} ({text})"));
    }
    let Some(what) = certificate_fault(&text) else {
        return (false, format!("no TLS there ({text}); is this the port without TLS?"));
    };
    (true, format!("{what} ({text})"))
}
