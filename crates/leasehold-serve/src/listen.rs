//! Accepts connections, with limits on their number and on slow clients.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use leasehold::{Error, ErrorKind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::app::App;
use crate::keeper::stopped;
use crate::settings::Listen;

/// A client must send the head of its request within this time, and a TLS handshake must end.
const HEAD: Duration = Duration::from_secs(10);

/// The longest head of a request, in bytes.
const LONGEST_HEAD: usize = 32 << 10;

/// A client that acknowledges nothing for this long has gone.
const SILENCE: Duration = Duration::from_secs(20);

/// How long responses may take to end when the server stops.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// A socket that is bound.
#[derive(Debug)]
pub(crate) enum Bound {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Bound {
    /// Binds; a unix socket may be used by its owner alone.
    pub(crate) async fn new(listen: &Listen) -> Result<Self, Error> {
        match listen {
            Listen::Tcp(address) => {
                let bound = TcpListener::bind(address).await;
                Ok(Self::Tcp(bound.map_err(|error| cannot(&address.to_string(), error))?))
            }
            Listen::Unix(path) => {
                let shown = format!("unix:{}", path.display());
                let bound = bind_unix(path).map_err(|error| cannot(&shown, error))?;
                Ok(Self::Unix(bound, path.clone()))
            }
        }
    }

    /// Returns the URL, or the path, under which it is reached.
    pub(crate) fn shown(&self, is_tls: bool) -> String {
        match self {
            Self::Tcp(listener) => {
                let scheme = if is_tls { "https" } else { "http" };
                let address = listener.local_addr().map(|address| address.to_string());
                format!("{scheme}://{}", address.unwrap_or_default())
            }
            Self::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // Another server may have removed it.
            let _ = fs::remove_file(path);
        }
    }
}

fn cannot(place: &str, error: io::Error) -> Error {
    let what = format!("--listen {place}: {error}; choose an address that is free");
    Error::new(ErrorKind::Invalid, what).with_source(error)
}

/// No other user can connect between the two calls: the socket is made in a directory of its own,
/// which only this user may enter, and then moved.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there"));
        }
        fs::remove_file(path)?;
    }
    if fs::symlink_metadata(path).is_ok() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists"));
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let folder = path.with_file_name(name);
    fs::create_dir(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
    let made = folder.join("s");
    let bound = UnixListener::bind(&made).and_then(|listener| {
        fs::set_permissions(&made, fs::Permissions::from_mode(0o600))?;
        fs::rename(&made, path)?;
        Ok(listener)
    });
    let _ = fs::remove_file(&made);
    let _ = fs::remove_dir(&folder);
    bound
}

/// Serves until the server has stopped and its clients need it no longer, and then until the open
/// connections have ended.
pub(crate) async fn serve(
    app: App,
    bound: &Bound,
    tls: Option<TlsAcceptor>,
    routes: Router,
    most: usize,
) {
    let free = Arc::new(Semaphore::new(most));
    let mut finished = std::pin::pin!(app.finished());
    loop {
        // A client beyond the limit waits in the kernel's queue.
        let next = async {
            let place = free.clone().acquire_owned().await;
            (place, accept(bound).await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = finished.as_mut() => break,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(_) => {
                // Too many open files, for example: connections that end make room.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (app, tls, routes) = (app.clone(), tls.clone(), routes.clone());
        tokio::spawn(async move {
            app.counters.connections.fetch_add(1, Ordering::Relaxed);
            match (stream, tls) {
                (Stream::Tcp(stream), Some(tls)) => {
                    let handshake = tokio::time::timeout(HEAD, tls.accept(stream)).await;
                    if let Ok(Ok(stream)) = handshake {
                        connection(&app, stream, routes).await;
                    }
                }
                (Stream::Tcp(stream), None) => connection(&app, stream, routes).await,
                (Stream::Unix(stream), _) => connection(&app, stream, routes).await,
            }
            app.counters.connections.fetch_sub(1, Ordering::Relaxed);
            drop(place);
        });
    }
    let all = u32::try_from(most).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(LAST_WORDS, free.acquire_many(all)).await;
}

enum Stream {
    Tcp(TcpStream),
    Unix(tokio::net::UnixStream),
}

async fn accept(bound: &Bound) -> io::Result<Stream> {
    match bound {
        Bound::Tcp(listener) => {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            // Without it, a client whose machine has lost power seems to read for a quarter of an hour.
            let silence = u32::try_from(SILENCE.as_millis()).unwrap_or(u32::MAX);
            rustix::net::sockopt::set_tcp_user_timeout(&stream, silence)?;
            Ok(Stream::Tcp(stream))
        }
        Bound::Unix(listener, _) => Ok(Stream::Unix(listener.accept().await?.0)),
    }
}

async fn connection(app: &App, stream: impl AsyncRead + AsyncWrite + Unpin + Send, routes: Router) {
    let mut stopping = app.stopping.clone();
    let is_stopping = *stopping.borrow();
    let connection = http1::Builder::new()
        .keep_alive(!is_stopping)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(LONGEST_HEAD)
        .max_headers(64)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    let mut connection = std::pin::pin!(connection);
    // The error of a connection is its client's.
    tokio::select! {
        _ = connection.as_mut() => {}
        // One that was opened after the stop ends with its first answer.
        () = stopped(&mut stopping), if !is_stopping => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
