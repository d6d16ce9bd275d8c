//! TCP and unix sockets behind one face; a socket that is dropped resets its connection.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::ports::Ports;

/// Where a server, or the proxy itself, is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// By TCP.
    Tcp(SocketAddr),
    /// By a unix socket.
    Unix(PathBuf),
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl From<PathBuf> for Target {
    fn from(path: PathBuf) -> Self {
        Self::Unix(path)
    }
}

pub(super) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(super) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Tries to listen: another process may take a free port first.
const TRIES: usize = 20;

/// Takes a free port, for now without a runtime. It is reserved as long as the last value lives.
pub(super) fn bind_any() -> io::Result<(SocketAddr, std::net::TcpListener, Ports)> {
    let mut outcome = Err(io::ErrorKind::AddrInUse.into());
    let mut ports = Ports::default();
    for _ in 0..TRIES {
        outcome = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, ports.another()?));
        if outcome.is_ok() {
            break;
        }
    }
    let listener = outcome?;
    listener.set_nonblocking(true)?;
    Ok((listener.local_addr()?, listener, ports))
}

impl Listener {
    pub(super) async fn bind(at: &Target) -> io::Result<Self> {
        Ok(match at {
            Target::Tcp(address) => Self::Tcp(TcpListener::bind(address).await?),
            Target::Unix(path) => {
                std::fs::remove_file(path).ok();
                Self::Unix(UnixListener::bind(path)?)
            }
        })
    }

    /// Ends it. A drop alone does not while a process that this one has just forked holds a copy: the
    /// kernel takes connections until that process runs its program.
    pub(super) fn close(self) {
        // It fails only on what does not listen.
        let _ = match self {
            Self::Tcp(listener) => listener.into_std().map(|listener| {
                std::net::TcpStream::from(OwnedFd::from(listener)).shutdown(Shutdown::Both)
            }),
            Self::Unix(listener) => listener.into_std().map(|listener| {
                std::os::unix::net::UnixStream::from(OwnedFd::from(listener))
                    .shutdown(Shutdown::Both)
            }),
        };
    }

    /// A client, and the address that it connects from.
    pub(super) async fn accept(&self) -> io::Result<(Option<IpAddr>, (Reader, Writer))> {
        match self {
            Self::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                Ok((Some(from.ip()), tcp(stream)?))
            }
            Self::Unix(listener) => Ok((None, halves(listener.accept().await?.0))),
        }
    }
}

pub(super) async fn connect(to: &Target) -> io::Result<(Reader, Writer)> {
    match to {
        Target::Tcp(address) => tcp(TcpStream::connect(address).await?),
        Target::Unix(path) => Ok(halves(UnixStream::connect(path).await?)),
    }
}

fn tcp(stream: TcpStream) -> io::Result<(Reader, Writer)> {
    stream.set_nodelay(true)?;
    stream.set_zero_linger()?;
    Ok(halves(stream))
}

/// Not the streams' own halves: those send an end of file when they are dropped.
fn halves(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> (Reader, Writer) {
    let (reader, writer) = tokio::io::split(stream);
    (Box::new(reader), Box::new(writer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_closed_listener_refuses_though_a_copy_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let (address, listener, _ports) = bind_any().unwrap();
        let tcp_copy = listener.try_clone().unwrap();
        Listener::Tcp(TcpListener::from_std(listener).unwrap()).close();
        let path = directory.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let unix_copy = listener.try_clone().unwrap();
        Listener::Unix(UnixListener::from_std(listener).unwrap()).close();
        for at in [Target::Tcp(address), Target::Unix(path)] {
            let error = connect(&at).await.map(drop).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{at:?}");
            Listener::bind(&at).await.unwrap();
        }
        drop((tcp_copy, unix_copy));
    }
}
