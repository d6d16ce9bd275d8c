//! Connecting: what is wrong is said at once, and with a next step.

use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, GetOptions, Identity, TlsOptions};
use leasehold_core::clock::Clock;
use leasehold_core::{Error, ErrorKind, Result, StoreUrl};
use tokio::runtime::Handle;

use crate::address::{Address, Tls};
use crate::backend::{Engine, EtcdBackend};
use crate::error::HANGS_UP;
use crate::members::Members;

/// How long the first look may take.
const LIMIT: Duration = Duration::from_secs(5);
const CONNECT: Duration = Duration::from_secs(2);
/// Pings find a server that has gone silent; more often than every 5 s is not allowed by servers.
const PING: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));

/// Connects to the ensemble that a URL names.
///
/// | URL | ensemble |
/// |---|---|
/// | `etcd://[user:password@]host[:port],host[:port],...[/prefix]` | over TCP |
/// | `etcds://…` | over TLS; `tls-ca=FILE`, `tls-cert=FILE`, `tls-key=FILE` (PEM) |
///
/// With `user=NAME` and `password-file=FILE` no secret stands in the URL; the prefix is what keys
/// begin with (default `leasehold`).
///
/// # Errors
/// [`ErrorKind::Invalid`] for a URL that is not understood; [`ErrorKind::Unavailable`] when no
/// member can be reached or they have no leader; [`ErrorKind::Refused`] for credentials,
/// certificates and permissions.
pub async fn connect(url: StoreUrl) -> Result<EtcdBackend> {
    let address = Address::parse(url)?;
    let Ok(runtime) = Handle::try_current() else {
        return Err(Error::new(ErrorKind::Invalid, "no tokio runtime here: connect inside one"));
    };
    let secure = is_secure(&address);
    let options = options(&address);
    let clock = Clock::system();
    let members = Members::new(address.members, options, clock.clone());
    let engine = Engine::start(members, &address.prefix, clock, runtime);
    look(&engine).await.map_err(|error| hint(error, secure))?;
    Ok(EtcdBackend::new(engine, address.place))
}

/// How to connect to a member.
pub(crate) fn options(address: &Address) -> ConnectOptions {
    let mut options = ConnectOptions::new()
        .with_connect_timeout(CONNECT)
        .with_keep_alive(PING.0, PING.1)
        .with_require_leader(true)
        .with_auto_token_refresh(true);
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

/// A server that wants TLS, or another certificate, just hangs up.
fn hint(error: Error, secure: bool) -> Error {
    if error.kind() != ErrorKind::Unavailable || !error.message().starts_with(HANGS_UP) {
        return error;
    }
    let hint = match secure {
        true => {
            "if it wants a client certificate of an authority that it trusts, name one with \
             tls-cert and tls-key; if it does not speak TLS, write etcd: instead of etcds:"
        }
        false => "if it speaks TLS, write etcds: instead of etcd:",
    };
    let message = format!("{}; {hint}", error.message());
    Error::new(ErrorKind::Unavailable, message).with_source(error)
}

/// Shows that there is a leader, and that the user may read; better to hear of it now.
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
