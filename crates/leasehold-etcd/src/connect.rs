//! Connects to the cluster and reports problems immediately, with what to do next.

use std::time::Duration;

#[cfg(feature = "tls")]
use etcd_client::{Certificate, Identity, TlsOptions};
use etcd_client::{Client, ConnectOptions, GetOptions};
use leasehold_core::clock::Clock;
use leasehold_core::{Error, ErrorKind, Result, StoreUrl};
use tokio::runtime::Handle;

use crate::address::Address;
#[cfg(feature = "tls")]
use crate::address::Tls;
use crate::backend::{Engine, EtcdBackend};
use crate::error::HANGS_UP;
use crate::members::Members;

/// How long the first read may take.
const LIMIT: Duration = Duration::from_secs(5);
const CONNECT: Duration = Duration::from_secs(2);
/// Interval and timeout of pings, which detect a silent server. Servers refuse intervals below 5 s.
const PING: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));

/// Connects to the etcd cluster of a URL.
///
/// | URL | connection |
/// |---|---|
/// | `etcd://[user:password@]host[:port],host[:port],...[/prefix]` | over TCP |
/// | `etcds://…` | over TLS; `tls-ca=FILE`, `tls-cert=FILE`, `tls-key=FILE` (PEM) |
///
/// With `user=NAME` and `password-file=FILE` the URL contains no secret. All keys begin with the
/// prefix (default `leasehold`).
///
/// # Errors
/// [`ErrorKind::Invalid`] for an invalid URL; [`ErrorKind::Unavailable`] if no member can be reached
/// or the cluster has no leader; [`ErrorKind::Refused`] if the cluster refuses the credentials, the
/// certificate or the user's permissions.
pub async fn connect(url: StoreUrl) -> Result<EtcdBackend> {
    let address = Address::parse(url)?;
    let Ok(runtime) = Handle::try_current() else {
        return Err(Error::new(
            ErrorKind::Invalid,
            "connecting needs a tokio runtime; call connect inside one",
        ));
    };
    let secure = is_secure(&address);
    let options = options(&address);
    let clock = Clock::system();
    let members = Members::new(address.members, options, clock.clone());
    let engine = Engine::start(members, &address.prefix, clock, runtime);
    look(&engine).await.map_err(|error| hint(error, secure))?;
    Ok(EtcdBackend::new(engine, address.place))
}

/// Returns the options for the connection to a member.
pub(crate) fn options(address: &Address) -> ConnectOptions {
    let mut options = ConnectOptions::new()
        .with_connect_timeout(CONNECT)
        .with_keep_alive(PING.0, PING.1)
        .with_require_leader(true)
        .with_auto_token_refresh(true);
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
async fn look(engine: &Engine) -> Result<()> {
    let (first, end) = engine.keys.locks("");
    let options = GetOptions::new().with_range(end).with_keys_only().with_limit(1);
    let ask = |client: Client| {
        let (first, options) = (first.clone(), options.clone());
        async move { client.kv_client().get(first, Some(options)).await }
    };
    engine.members.call(LIMIT, ask).await?;
    Ok(())
}
