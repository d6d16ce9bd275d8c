//! Finds out why no session can be opened: it asks each server, because the client library reports
//! no reason.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use leasehold_core::{Error, ErrorKind};
use zookeeper_client::Error as ZkError;

use crate::address::Address;
use crate::error::{from_zk, is_silence};
use crate::tls::Tls;

const LIMIT: Duration = Duration::from_secs(2);
/// The largest answer to read, in bytes: another program may listen there, and send without end.
pub(crate) const MOST: u64 = 64 << 10;

/// Returns the error for a session that could not be opened because of `error` or a timeout.
pub(crate) async fn explain(address: &Address, error: Option<ZkError>) -> Error {
    if let Some(error @ (ZkError::AuthFailed | ZkError::BadArguments(_))) = error {
        return from_zk(error, address.root.path());
    }
    let looks = address.hosts.iter().map(|(host, port)| {
        let (host, port, tls) = (host.clone(), *port, address.tls.clone());
        tokio::task::spawn_blocking(move || look(&host, port, tls.as_ref()))
    });
    let looks = futures_util::future::join_all(looks).await;
    let mut kind = ErrorKind::Unavailable;
    let mut said = Vec::new();
    for ((host, port), look) in address.hosts.iter().zip(looks) {
        let (certificate, what) =
            look.unwrap_or((false, "unknown reason: the server could not be checked".to_owned()));
        if certificate {
            kind = ErrorKind::Refused;
        }
        said.push(format!("{host}:{port}: {what}"));
    }
    Error::new(kind, format!("no server opened a session: {}", said.join("; ")))
}

/// Diagnoses one server; returns whether a certificate is the problem, and the reason.
fn look(host: &str, port: u16, tls: Option<&Tls>) -> (bool, String) {
    let connected = connect(host, port);
    let stream = match connected {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return (false, "nothing listens on this port; is the server running?".into());
        }
        Err(error) => return (false, format!("it cannot be reached ({error})")),
    };
    match tls {
        Some(tls) => tls.greet(stream, host),
        None => (false, ask(stream)),
    }
}

pub(crate) fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name cannot be resolved");
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

/// Asks a server for its state; a server may disallow that command.
fn ask(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    let asked = stream.write_all(b"srvr").and_then(|()| stream.take(MOST).read_to_end(&mut said));
    let said = String::from_utf8_lossy(&said);
    let readonly = said.contains("Mode: read-only");
    match asked {
        _ if said.contains("not currently serving") || readonly => {
            "it has no majority of its ensemble; wait, or start the other servers".to_owned()
        }
        _ if said.contains("Mode: ") => {
            "it runs, but opened no session in time; check its load and maxClientCnxns".into()
        }
        Ok(_) if said.contains("whitelist") => "it listens, but opens no session".to_owned(),
        Ok(_) => "it does not answer as ZooKeeper does; is this the port for TLS?".to_owned(),
        // The server may close the connection before it has read our whole request.
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
