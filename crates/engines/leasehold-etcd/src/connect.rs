//! Connects to the cluster and reports problems immediately, with what to do next.

use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::{Error, ErrorKind, Result, StoreUrl};
#[cfg(feature = "tls")]
use leasehold_etcd_api::{Certificate, Identity, TlsOptions};
use leasehold_etcd_api::{Client, ConnectOptions, GetOptions};
use tokio::runtime::Handle;

use crate::address::Address;
#[cfg(feature = "tls")]
use crate::address::Tls;
use crate::backend::EtcdBackend;
use crate::engine::Engine;
use crate::error::HANGS_UP;
use crate::key::Keys;
use crate::members::Members;
use crate::wire::WireBackend;

/// How long the first read may take if connections are fast.
const LIMIT: Duration = Duration::from_secs(5);
/// Interval and timeout of pings, which detect a silent server. Servers refuse intervals below 5 s.
const PING: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));

/// Connects to the etcd cluster of a URL.
///
/// | URL | connection |
/// |---|---|
/// | `etcd://[user:password@]host[:port],host[:port],...[/prefix]` | over TCP |
/// | `etcds://…` | over TLS; `tls-ca=FILE`, `tls-cert=FILE`, `tls-key=FILE` (PEM) |
///
/// With `user=NAME` and `password-file=FILE`, the URL contains no secret. All keys begin with the
/// prefix (default `leasehold`). `connect-timeout=TIME` is how long a member may take to accept a
/// connection (100ms to 1m, default 2s). With several members it is at most 1.7s, unless the option
/// is longer than 2s.
///
/// # Errors
/// [`ErrorKind::Invalid`] for an invalid URL; [`ErrorKind::Unavailable`] if no member can be reached
/// or the cluster has no leader; [`ErrorKind::Refused`] if the cluster refuses the credentials, the
/// certificate or the user's permissions.
pub async fn connect(url: StoreUrl) -> Result<EtcdBackend> {
    let address = Address::parse(url)?;
    if let Some(wire) = &address.wire {
        let what = format!("wire={}; connect with connect_with_wire", wire.text());
        return Err(StoreUrl::invalid(what));
    }
    let (keys, native) = (Keys::new(&address.prefix), Keys::new(&address.prefix));
    let (engine, place) = open(address, keys, &native).await?;
    Ok(EtcdBackend::new(engine, place))
}

/// Returns true if the URL names a format of other libraries: then [`connect_with_wire`] connects to it.
pub fn names_a_wire(url: &StoreUrl) -> bool {
    url.clone().take("wire").is_some()
}

/// Connects to the etcd cluster of a URL for locks in the format of Go's `concurrency.Mutex`: `wire=concurrency`, with
/// `key-prefix=TEXT` for keys that begin with more than the name.
///
/// # Errors
/// As [`connect`]; [`ErrorKind::Invalid`] without the option `wire` too.
pub async fn connect_with_wire(url: StoreUrl) -> Result<WireBackend> {
    let address = Address::parse(url)?;
    let Some(wire) = address.wire.clone() else {
        return Err(StoreUrl::invalid("no option wire; connect with connect"));
    };
    let native = Keys::new(&address.prefix);
    let (engine, place) = open(address, Keys::of_wire(&wire.prefix), &native).await?;
    Ok(WireBackend::new(engine, native, wire, place))
}

/// Connects to a cluster for locks with these keys. The user must be able to read the `native` ones.
async fn open(address: Address, keys: Keys, native: &Keys) -> Result<(Engine, String)> {
    let Ok(runtime) = Handle::try_current() else {
        return Err(Error::new(
            ErrorKind::Invalid,
            "no tokio runtime; connect inside a tokio runtime",
        ));
    };
    let secure = is_secure(&address);
    // Of several members, each gets a third.
    let limit = LIMIT + 3 * address.extra_time();
    let options = options(&address);
    let clock = Clock::system();
    let members = Members::new(address.members, &options, clock.clone(), runtime.clone());
    let engine = Engine::start(members, keys, clock, runtime);
    look(&engine, native, limit).await.map_err(|error| hint(error, secure))?;
    Ok((engine, address.place))
}

/// Returns the options for the connection to a member.
pub(crate) fn options(address: &Address) -> ConnectOptions {
    let mut options = ConnectOptions::new()
        .with_connect_timeout(address.connect)
        .with_keep_alive(PING.0, PING.1)
        .with_require_leader(true);
    #[cfg(feature = "tls")]
    if is_secure(address) {
        options = options.with_tls(tls(&address.tls));
    }
    if let Some((user, password)) = &address.login {
        options = options.with_user(user, password);
    }
    options
}

fn is_secure(address: &Address) -> bool {
    address.members.iter().any(|member| member.starts_with("https:"))
}

#[cfg(feature = "tls")]
fn tls(tls: &Tls) -> TlsOptions {
    let options = TlsOptions::new();
    let options = match &tls.authority {
        Some(authority) => options.ca_certificate(Certificate::from_pem(authority)),
        None => options.with_enabled_roots(),
    };
    match &tls.client {
        Some((certificate, key)) => options.identity(Identity::from_pem(certificate, key)),
        None => options,
    }
}

/// Adds a hint to a failed connection: a server that requires TLS, or another certificate, only
/// closes the connection.
fn hint(error: Error, secure: bool) -> Error {
    if error.kind() != ErrorKind::Unavailable || !error.message().starts_with(HANGS_UP) {
        return error;
    }
    let hint = match secure {
        true => {
            "if the server requires a client certificate from an authority that it trusts, name one with \
             tls-cert and tls-key; if it does not speak TLS, write etcd: instead of etcds:"
        }
        false => "if the server requires TLS, write etcds: instead of etcd:",
    };
    let message = format!("{}; {hint}", error.message());
    Error::new(ErrorKind::Unavailable, message).with_source(error)
}

/// Checks that there is a leader and that the user may read, so that connecting reports the problem.
async fn look(engine: &Engine, keys: &Keys, limit: Duration) -> Result<()> {
    let (first, end) = keys.names("");
    let options = GetOptions::new().with_range(end).with_keys_only().with_limit(1);
    let request = |client: Client| {
        let (first, options) = (first.clone(), options.clone());
        async move { client.get(first, Some(options)).await }
    };
    engine.members.call(limit, request).await?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests measure time")]
mod tests {
    use std::net::{SocketAddr, TcpStream};

    use tokio::net::{TcpListener, TcpSocket};
    use tokio::time::Instant;

    use super::*;
    use crate::diagnose;

    /// A port whose queue of connections is full: the kernel drops every further request for one.
    struct Full {
        listener: TcpListener,
        _queue: Vec<TcpStream>,
    }

    impl Full {
        fn start() -> Self {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
            let listener = socket.listen(1).unwrap();
            let address = listener.local_addr().unwrap();
            let next = || TcpStream::connect_timeout(&address, Duration::from_millis(300)).ok();
            let queue = std::iter::from_fn(next).take(16).collect::<Vec<_>>();
            assert!(queue.len() < 16, "the queue of connections does not fill up");
            Self { listener, _queue: queue }
        }

        fn address(&self) -> SocketAddr {
            self.listener.local_addr().unwrap()
        }
    }

    /// The paused clock advances as soon as the client waits only for timers.
    #[tokio::test]
    async fn a_connection_attempt_ends_after_connect_timeout() {
        let (one, other) = (Full::start(), Full::start());
        let (one, two) =
            (one.address().to_string(), format!("{},{}", one.address(), other.address()));
        tokio::time::pause();
        // The doctor asks all members at once.
        for (place, option, ms, doctor_ms) in [
            (&one, "", 2000, 2000),
            (&one, "?connect-timeout=300ms", 300, 300),
            (&one, "?connect-timeout=20s", 20_000, 20_000),
            (&two, "?connect-timeout=300ms", 600, 300),
            (&two, "?connect-timeout=20s", 40_000, 20_000),
        ] {
            let url = StoreUrl::parse(&format!("etcd://{place}{option}")).unwrap();
            let begun = Instant::now();
            let error = connect(url.clone()).await.unwrap_err();
            let spent = begun.elapsed().as_millis();
            assert!((ms..ms + 100).contains(&spent), "{place}{option}: {spent} ms, {error}");
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.message().contains("connect-timeout"), "{error}");
            let begun = Instant::now();
            let error = diagnose(url).await.unwrap_err();
            let spent = begun.elapsed().as_millis();
            let expected = doctor_ms..doctor_ms + 100;
            assert!(expected.contains(&spent), "doctor, {place}{option}: {spent} ms, {error}");
        }
    }
}
